#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "server/config/directory.h"
#include "tests/support/open_files.h"
#include "tests/support/readable.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/unix_socket.h"
#include "wire/error.h"
#include "wire/place.h"

namespace memlease::server {
namespace {

using ::testing::HasSubstr;
using wire::ErrorCode;

constexpr uid_t kOtherUid = 12345;

// Runs in a child, as another user if `uid` is not 0; its exit status.
pid_t spawn(uid_t uid, const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // if the test crashes
  if (uid != 0 && (::setgid(uid) != 0 || ::setuid(uid) != 0)) ::_exit(100);
  ::_exit(body());
}

int wait_for(pid_t pid) {
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// The tests need root, to be other users.
class DirectoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::geteuid(), 0U) << "these tests become other users: run them as root";
  }
  void TearDown() override { EXPECT_EQ(testing::open_files(), files_) << "a descriptor leaked"; }

  std::string at(const std::string& name) const { return path_ + "/" + name; }

  bool exists(const std::string& name) const {
    struct stat status{};
    return ::lstat(at(name).c_str(), &status) == 0;
  }
  mode_t mode(const std::string& path) const {
    struct stat status{};
    EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
    return status.st_mode & 07777;
  }

  void expect_refused(ErrorCode code, const std::string& what) const {
    const auto refused = Directory::lock(path_);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(wire::code_of(refused.status()), code) << refused.status();
    EXPECT_THAT(wire::message_of(refused.status()), HasSubstr(what));
    EXPECT_FALSE(wire::hint_of(refused.status()).empty());
  }

  const testing::TemporaryFolder folder_;
  const std::string parent_ = folder_.path();
  std::string path_ = parent_ + "/memlease";
  const std::set<std::string> files_ = testing::open_files();
};

TEST_F(DirectoryTest, IsMadeForItsUserAlone) {
  const auto directory = Directory::lock(path_);
  ASSERT_TRUE(directory.ok()) << directory.status();
  EXPECT_EQ(mode(path_), 0700U);
  EXPECT_EQ(mode(at(wire::kLockFile)), 0600U);
}

TEST_F(DirectoryTest, ASecondDaemonIsToldWhoIsThere) {
  const auto first = Directory::lock(path_);
  ASSERT_TRUE(first.ok()) << first.status();
  expect_refused(ErrorCode::kBusy,
                 "is already served by pid " + std::to_string(::getpid()) + " (test_");
}

TEST_F(DirectoryTest, AKilledDaemonsPlaceIsTaken) {
  int ready[2];
  ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
  const pid_t pid = spawn(0, [&] {
    auto directory = Directory::lock(path_);
    auto socket = directory->listen(wire::kAttachSocket, SOCK_SEQPACKET, 0600);
    if (!socket.ok() || ::write(ready[1], "x", 1) != 1) return 1;
    ::pause();
    return 0;
  });
  ::close(ready[1]);
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ::close(ready[0]);
  expect_refused(ErrorCode::kBusy, "pid " + std::to_string(pid));
  ASSERT_EQ(::kill(pid, SIGKILL), 0);
  EXPECT_EQ(wait_for(pid), -SIGKILL);
  ASSERT_TRUE(exists(wire::kAttachSocket));

  auto directory = Directory::lock(path_);
  ASSERT_TRUE(directory.ok()) << directory.status();
  const auto socket = directory->listen(wire::kAttachSocket, SOCK_SEQPACKET, 0600);
  EXPECT_TRUE(socket.ok()) << socket.status();
}

// Daemons that come and go at once, each removing its lock file: never two hold the place.
TEST_F(DirectoryTest, OneOfManyHoldsTheLock) {
  std::vector<pid_t> children;
  for (int i = 0; i < 6; ++i) {
    children.push_back(spawn(0, [this] {
      for (int taken = 0; taken < 50;) {
        const auto directory = Directory::lock(path_);
        if (!directory.ok()) {
          if (wire::code_of(directory.status()) != ErrorCode::kBusy) return 1;
          continue;
        }
        const wire::UniqueFd alone(
            ::open(at("alone").c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
        if (!alone || ::unlink(at("alone").c_str()) != 0) return 2;
        ++taken;
      }
      return 0;
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(wait_for(child), 0);
  EXPECT_FALSE(exists(wire::kLockFile));
}

TEST_F(DirectoryTest, NothingIsLeftAtTheEnd) {
  {
    auto directory = Directory::lock(path_);
    ASSERT_TRUE(directory.ok()) << directory.status();
    ASSERT_TRUE(directory->listen(wire::kAttachSocket, SOCK_SEQPACKET, 0600).ok());
    ASSERT_TRUE(directory->listen(wire::kControlSocket, SOCK_STREAM, 0600).ok());
    EXPECT_TRUE(exists(wire::kControlSocket));
  }
  EXPECT_TRUE(std::filesystem::is_empty(path_));
}

TEST_F(DirectoryTest, ASocketsNameMayGoBeforeTheEnd) {
  auto directory = Directory::lock(path_);
  ASSERT_TRUE(directory.ok()) << directory.status();
  ASSERT_TRUE(directory->listen(wire::kAttachSocket, SOCK_SEQPACKET, 0600).ok());
  ASSERT_TRUE(directory->listen(wire::kControlSocket, SOCK_STREAM, 0600).ok());
  directory->remove(wire::kAttachSocket);
  EXPECT_FALSE(exists(wire::kAttachSocket));
  EXPECT_TRUE(exists(wire::kControlSocket));
  std::ofstream(at(wire::kAttachSocket)) << "mine";
  directory->remove(wire::kAttachSocket);
  EXPECT_TRUE(exists(wire::kAttachSocket)) << "a repeat does nothing";
}

TEST_F(DirectoryTest, WhatReplacedASocketIsNotRemoved) {
  {
    auto directory = Directory::lock(path_);
    ASSERT_TRUE(directory.ok()) << directory.status();
    const auto socket = directory->listen(wire::kControlSocket, SOCK_STREAM, 0600);
    ASSERT_TRUE(socket.ok()) << socket.status();
    ASSERT_EQ(::unlink(at(wire::kControlSocket).c_str()), 0);
    std::ofstream(at(wire::kControlSocket)) << "mine";
  }
  EXPECT_TRUE(exists(wire::kControlSocket));
}

TEST_F(DirectoryTest, SocketsHaveTheirModeWhateverTheUmask) {
  auto directory = Directory::lock(path_);
  ASSERT_TRUE(directory.ok()) << directory.status();
  for (const mode_t umask : {0077U, 0U}) {
    const mode_t before = ::umask(umask);
    for (const mode_t wanted : {0600U, 0660U, 0666U}) {
      EXPECT_TRUE(directory->listen(wire::kControlSocket, SOCK_STREAM, wanted).ok());
      EXPECT_EQ(mode(at(wire::kControlSocket)), wanted);
    }
    ::umask(before);
  }
}

TEST_F(DirectoryTest, ASocketAcceptsWhomItsModeAdmits) {
  auto directory = Directory::lock(path_);
  ASSERT_TRUE(directory.ok()) << directory.status();
  ASSERT_EQ(::chmod(path_.c_str(), 0755), 0);
  const auto connect_as = [&](uid_t uid, int type) {
    return wait_for(spawn(
        uid, [&] { return testing::connect_unix(at(wire::kAttachSocket), type) ? 0 : errno; }));
  };
  auto socket = directory->listen(wire::kAttachSocket, SOCK_SEQPACKET, 0600);
  ASSERT_TRUE(socket.ok()) << socket.status();
  EXPECT_EQ(connect_as(0, SOCK_SEQPACKET), 0);
  EXPECT_EQ(connect_as(0, SOCK_STREAM), EPROTOTYPE);
  EXPECT_EQ(connect_as(kOtherUid, SOCK_SEQPACKET), EACCES);
  socket->reset();
  socket = directory->listen(wire::kAttachSocket, SOCK_SEQPACKET, 0666);
  ASSERT_TRUE(socket.ok()) << socket.status();
  EXPECT_EQ(connect_as(kOtherUid, SOCK_SEQPACKET), 0);
}

TEST_F(DirectoryTest, OthersMustNotBeAbleToWriteThere) {
  for (const mode_t wrong : {0770U, 0707U, 01777U}) {
    ASSERT_EQ(::mkdir(path_.c_str(), 0700), 0);
    ASSERT_EQ(::chmod(path_.c_str(), wrong), 0);
    expect_refused(ErrorCode::kDenied, "others than its owner could replace the sockets");
    ASSERT_EQ(::rmdir(path_.c_str()), 0);
  }
}

TEST_F(DirectoryTest, AnotherUsersDirectoryIsRefused) {
  ASSERT_EQ(::mkdir(path_.c_str(), 0700), 0);
  ASSERT_EQ(::chown(path_.c_str(), kOtherUid, kOtherUid), 0);
  expect_refused(ErrorCode::kDenied, "belongs to uid 12345, and this daemon runs as uid 0");
}

TEST_F(DirectoryTest, ASystemsDirectoryMayBelongToTheDaemonsUser) {
  ASSERT_EQ(::mkdir(path_.c_str(), 0755), 0);
  ASSERT_EQ(::chown(path_.c_str(), kOtherUid, kOtherUid), 0);
  EXPECT_EQ(
      wait_for(spawn(kOtherUid,
                     [this] {
                       auto directory = Directory::lock(path_);
                       if (!directory.ok()) return 1;
                       return directory->listen(wire::kAttachSocket, SOCK_SEQPACKET, 0666).ok() ? 0
                                                                                                : 2;
                     })),
      0);
}

TEST_F(DirectoryTest, ADirectoryTheDaemonCannotWriteInIsExplained) {
  ASSERT_EQ(::mkdir(path_.c_str(), 0755), 0);
  EXPECT_EQ(wait_for(spawn(kOtherUid,
                           [this] {
                             const auto directory = Directory::lock(path_);
                             const auto code = wire::code_of(directory.status());
                             return code == ErrorCode::kDenied ? 0 : 1;
                           })),
            0);
}

TEST_F(DirectoryTest, AMissingParentIsExplained) {
  path_ = parent_ + "/missing/memlease";
  expect_refused(ErrorCode::kInternal, "cannot make the directory");
}

TEST_F(DirectoryTest, APathTooLongForSocketsIsExplained) {
  path_ = parent_ + "/" + std::string(100, 'd');
  expect_refused(ErrorCode::kInvalidArgument, "a socket's path can have 107");
}

TEST_F(DirectoryTest, ALinkOrAFileInsteadOfTheDirectoryIsRefused) {
  ASSERT_EQ(::mkdir((parent_ + "/elsewhere").c_str(), 0700), 0);
  ASSERT_EQ(::symlink("elsewhere", path_.c_str()), 0);
  expect_refused(ErrorCode::kDenied, "is a symbolic link, not a directory");
  EXPECT_TRUE(std::filesystem::is_empty(parent_ + "/elsewhere"));
  ASSERT_EQ(::unlink(path_.c_str()), 0);
  std::ofstream(path_) << "a file";
  expect_refused(ErrorCode::kDenied, "is a file, not a directory");
}

TEST_F(DirectoryTest, APlantedLockFileIsNotFollowed) {
  ASSERT_EQ(::mkdir(path_.c_str(), 0700), 0);
  ASSERT_EQ(::symlink("/tmp/memlease-must-not-appear", at(wire::kLockFile).c_str()), 0);
  expect_refused(ErrorCode::kInternal, "cannot open");
  EXPECT_FALSE(std::filesystem::exists("/tmp/memlease-must-not-appear"));
}

// What bears a socket's name and is no left-over of ours stays as it is.
TEST_F(DirectoryTest, APlantedSocketIsNotRemoved) {
  auto directory = Directory::lock(path_);
  ASSERT_TRUE(directory.ok()) << directory.status();
  const std::string planted = at(wire::kAttachSocket);
  const auto expect_kept = [&](const std::string& what) {
    const auto socket = directory->listen(wire::kAttachSocket, SOCK_SEQPACKET, 0600);
    EXPECT_EQ(wire::code_of(socket.status()), ErrorCode::kDenied);
    EXPECT_THAT(wire::message_of(socket.status()), HasSubstr(what));
    EXPECT_TRUE(exists(wire::kAttachSocket));
    EXPECT_EQ(::unlink(planted.c_str()), 0);
  };
  ASSERT_EQ(::symlink("/tmp/anything", planted.c_str()), 0);
  expect_kept("is a symbolic link of uid 0");
  std::ofstream(planted) << "a file";
  expect_kept("is a file of uid 0");
  ASSERT_EQ(::mknod(planted.c_str(), S_IFSOCK | 0600, 0), 0);
  ASSERT_EQ(::lchown(planted.c_str(), kOtherUid, kOtherUid), 0);
  expect_kept("is a socket of uid 12345");
}

// ---- Sockets that a service manager passes.

class PassedSocketsTest : public DirectoryTest {
 protected:
  PassedSocketsTest() { ::mkdir(path_.c_str(), 0755); }

  // As a unit of sockets makes it.
  static PassedSocket passed(const std::string& path, int type, bool listens = true) {
    wire::UniqueFd socket = testing::bind_unix(path, type);
    EXPECT_TRUE(socket) << path;
    EXPECT_TRUE(!listens || ::listen(socket.get(), 8) == 0);
    return {std::move(socket), "memleased.socket"};
  }
  std::vector<PassedSocket> both() const {
    std::vector<PassedSocket> sockets;
    sockets.push_back(passed(at(wire::kControlSocket), SOCK_STREAM));
    sockets.push_back(passed(at(wire::kAttachSocket), SOCK_SEQPACKET));
    return sockets;
  }
  void expect_unusable(std::vector<PassedSocket> sockets, const std::string& what) const {
    auto directory = Directory::lock(path_);
    ASSERT_TRUE(directory.ok()) << directory.status();
    const absl::Status used = directory->use(std::move(sockets));
    EXPECT_EQ(wire::code_of(used), ErrorCode::kInvalidArgument) << used;
    EXPECT_THAT(wire::message_of(used), HasSubstr(what));
    EXPECT_FALSE(wire::hint_of(used).empty());
    for (const char* name : {wire::kAttachSocket, wire::kControlSocket}) ::unlink(at(name).c_str());
  }
};

TEST_F(PassedSocketsTest, AreUsedAsTheyAreAndStayAtTheEnd) {
  {
    auto directory = Directory::lock(path_);
    ASSERT_TRUE(directory.ok()) << directory.status();
    std::vector<PassedSocket> sockets = both();
    const int control = sockets[0].fd.get();
    ASSERT_EQ(::chmod(at(wire::kControlSocket).c_str(), 0660), 0);
    ASSERT_TRUE(directory->use(std::move(sockets)).ok());
    const auto socket = directory->listen(wire::kControlSocket, SOCK_STREAM, 0600);
    ASSERT_TRUE(socket.ok()) << socket.status();
    EXPECT_EQ(socket->get(), control);
    EXPECT_NE(::fcntl(control, F_GETFL) & O_NONBLOCK, 0);
    EXPECT_EQ(mode(at(wire::kControlSocket)), 0660U) << "its maker says who may connect";
    EXPECT_TRUE(directory->lost().empty());
    directory->remove(wire::kAttachSocket);
  }
  EXPECT_TRUE(exists(wire::kControlSocket));
  EXPECT_TRUE(exists(wire::kAttachSocket)) << "its name is its maker's to take away";
  EXPECT_FALSE(exists(wire::kLockFile));
}

// A daemon that somebody starts by hand, where a unit of sockets waits for its first client.
TEST_F(PassedSocketsTest, OfAUnitThatWaitsAreLeftAlone) {
  const std::vector<PassedSocket> waiting = both();
  {
    auto directory = Directory::lock(path_);
    ASSERT_TRUE(directory.ok()) << directory.status();
    for (const auto& [name, type] : {std::pair(wire::kAttachSocket, SOCK_SEQPACKET),
                                     std::pair(wire::kControlSocket, SOCK_STREAM)}) {
      const auto socket = directory->listen(name, type, 0600);
      EXPECT_EQ(wire::code_of(socket.status()), ErrorCode::kBusy) << socket.status();
      EXPECT_THAT(wire::message_of(socket.status()), HasSubstr("a process has this socket open"));
      EXPECT_THAT(wire::hint_of(socket.status()), HasSubstr("systemctl start memleased.service"));
    }
  }
  EXPECT_TRUE(exists(wire::kAttachSocket));
  EXPECT_TRUE(testing::connect_unix(at(wire::kControlSocket), SOCK_STREAM)) << "it listens still";
  EXPECT_FALSE(testing::readable(waiting[1].fd.get(), 0)) << "the unit is not woken";
}

TEST_F(PassedSocketsTest, OfAUnitThatHasEndedAreReplaced) {
  both();
  ASSERT_TRUE(exists(wire::kAttachSocket));
  auto directory = Directory::lock(path_);
  ASSERT_TRUE(directory.ok()) << directory.status();
  const auto socket = directory->listen(wire::kAttachSocket, SOCK_SEQPACKET, 0600);
  EXPECT_TRUE(socket.ok()) << socket.status();
}

TEST_F(PassedSocketsTest, OfTheWrongKindAreRefused) {
  std::vector<PassedSocket> sockets;
  sockets.push_back(passed(at(wire::kAttachSocket), SOCK_STREAM));
  expect_unusable(std::move(sockets), "not of type SOCK_SEQPACKET");

  sockets.clear();
  sockets.push_back(passed(at(wire::kControlSocket), SOCK_STREAM, false));
  expect_unusable(std::move(sockets), "does not listen");

  sockets.clear();
  sockets.push_back({wire::UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)), "null"});
  expect_unusable(std::move(sockets), "'null' (descriptor ");

  sockets.clear();
  sockets.push_back({wire::UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), "tcp"});
  expect_unusable(std::move(sockets), "is not a UNIX socket");

  sockets.clear();
  sockets.push_back({wire::UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)), "unbound"});
  expect_unusable(std::move(sockets), "has no path in the file system");
}

TEST_F(PassedSocketsTest, InTheWrongPlaceAreRefused) {
  std::vector<PassedSocket> sockets;
  sockets.push_back(passed(at("other.sock"), SOCK_STREAM));
  expect_unusable(std::move(sockets), "other.sock', which this daemon does not use");

  sockets.clear();
  sockets.push_back(passed(parent_ + "/" + wire::kControlSocket, SOCK_STREAM));
  expect_unusable(std::move(sockets), "but the daemon's directory is '" + path_ + "'");
}

TEST_F(PassedSocketsTest, AreBothThereOrNone) {
  std::vector<PassedSocket> sockets;
  sockets.push_back(passed(at(wire::kAttachSocket), SOCK_SEQPACKET));
  expect_unusable(std::move(sockets), "only '" + at(wire::kAttachSocket) + "' was passed");

  sockets = both();
  sockets.push_back({wire::UniqueFd(::fcntl(sockets[0].fd.get(), F_DUPFD_CLOEXEC, 0)), "again"});
  expect_unusable(std::move(sockets), "two sockets were passed");
}

TEST_F(PassedSocketsTest, WhoseFileIsGoneAreRefused) {
  std::vector<PassedSocket> sockets = both();
  ASSERT_EQ(::unlink(at(wire::kAttachSocket).c_str()), 0);
  expect_unusable(std::move(sockets), "that file is gone");
}

// ---- What happens to the directory while the daemon runs.

class LostTest : public DirectoryTest {
 protected:
  LostTest() : directory_(Directory::lock(path_)) {
    EXPECT_TRUE(directory_->listen(wire::kControlSocket, SOCK_STREAM, 0600).ok());
    EXPECT_TRUE(directory_->lost().empty());
  }
  bool changed() const { return testing::readable(directory_->changes(), 0); }
  void TearDown() override {
    directory_ = absl::UnknownError("ended");
    DirectoryTest::TearDown();
  }

  absl::StatusOr<Directory> directory_;
};

TEST_F(LostTest, ASocketThatIsRemovedOrReplaced) {
  EXPECT_FALSE(changed());
  const std::string socket = at(wire::kControlSocket);
  ASSERT_EQ(::rename(socket.c_str(), at("aside").c_str()), 0);
  EXPECT_TRUE(changed());
  EXPECT_THAT(directory_->lost(), ::testing::ElementsAre(socket));
  EXPECT_FALSE(changed()) << "the news has been taken";
  const wire::UniqueFd other = testing::bind_unix(socket, SOCK_STREAM);
  EXPECT_THAT(directory_->lost(), ::testing::ElementsAre(socket)) << "another one is no good";
  ASSERT_EQ(::rename(at("aside").c_str(), socket.c_str()), 0);
  EXPECT_TRUE(changed());
  EXPECT_TRUE(directory_->lost().empty());
}

TEST_F(LostTest, TheLockFile) {
  ASSERT_EQ(::unlink(at(wire::kLockFile).c_str()), 0);
  EXPECT_TRUE(changed());
  EXPECT_THAT(directory_->lost(), ::testing::ElementsAre(at(wire::kLockFile)));
}

TEST_F(LostTest, TheDirectoryItself) {
  ASSERT_EQ(::rename(path_.c_str(), (path_ + "-aside").c_str()), 0);
  ASSERT_EQ(::mkdir(path_.c_str(), 0700), 0);
  EXPECT_TRUE(changed());
  EXPECT_THAT(directory_->lost(), ::testing::ElementsAre(path_));
}

TEST_F(LostTest, NotByTheCleanerOfOldFiles) {
  // What systemd-tmpfiles asks for before it removes anything from a directory.
  const wire::UniqueFd same(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  EXPECT_NE(::flock(same.get(), LOCK_EX | LOCK_NB), 0);
}

// ---- A file system that is full or cannot be written.

// A file system of its own, seen by a child alone, in which it looks what Directory::lock() says.
class FileSystemTest : public DirectoryTest {
 protected:
  // Mounts tmpfs with `options`, fills it with `prepare`, and returns what the error says.
  std::string refusal(const char* options, const std::function<void()>& prepare) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const pid_t pid = spawn(0, [&] {
      if (::mkdir(path_.c_str(), 0700) != 0 || ::unshare(CLONE_NEWNS) != 0 ||
          ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
          ::mount("none", path_.c_str(), "tmpfs", 0, options) != 0) {
        return 1;
      }
      prepare();
      auto directory = Directory::lock(path_);
      absl::Status status = directory.status();
      if (status.ok()) status = directory->listen(wire::kAttachSocket, SOCK_STREAM, 0600).status();
      const std::string text = wire::message_of(status) + " | " + wire::hint_of(status);
      return ::write(ends[1], text.data(), text.size()) < 0 ? 2 : 0;
    });
    ::close(ends[1]);
    char text[1024] = {};
    EXPECT_GT(::read(ends[0], text, sizeof text - 1), 0);
    ::close(ends[0]);
    EXPECT_EQ(wait_for(pid), 0);
    return text;
  }
};

TEST_F(FileSystemTest, WithoutSpaceIsExplained) {
  const std::string full = refusal(
      "size=4k,mode=0700", [this] { std::ofstream(at("other")) << std::string(4096, 'x'); });
  EXPECT_THAT(full, HasSubstr("No space left on device"));
  EXPECT_THAT(full, HasSubstr(path_));
}

TEST_F(FileSystemTest, WithoutInodesIsExplained) {
  const std::string full = refusal("nr_inodes=2,mode=0700", [] {});
  EXPECT_THAT(full, HasSubstr("No space left on device"));
  EXPECT_THAT(full, HasSubstr(at(wire::kAttachSocket)));
}

TEST_F(FileSystemTest, ThatIsReadOnlyIsExplained) {
  const std::string refused = refusal("mode=0700", [this] {
    ::mount("none", path_.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr);
  });
  EXPECT_THAT(refused, HasSubstr("Read-only file system"));
  EXPECT_THAT(refused, HasSubstr("must be able to write in its directory"));
}

}  // namespace
}  // namespace memlease::server
