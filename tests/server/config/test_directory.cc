#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "server/config/directory.h"
#include "tests/server/config/directory_world.h"
#include "tests/support/readable.h"
#include "tests/support/unix_socket.h"
#include "wire/error.h"
#include "wire/place.h"

namespace memlease::server {
namespace {

using ::testing::HasSubstr;
using wire::ErrorCode;

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

// Between taking the lock that a killed daemon has left and naming itself there.
TEST_F(DirectoryTest, ADaemonThatHasNotNamedItselfIsNotTakenForAKilledOne) {
  ASSERT_EQ(::mkdir(path_.c_str(), 0700), 0);
  std::ofstream(at(wire::kLockFile)) << "1\n";
  const wire::UniqueFd file(::open(at(wire::kLockFile).c_str(), O_RDWR | O_CLOEXEC));
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  ASSERT_EQ(::fcntl(file.get(), F_OFD_SETLK, &lock), 0);
  expect_refused(ErrorCode::kBusy, "is already served by a daemon that is just starting");
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

TEST_F(DirectoryTest, ThatNoDescriptorIsLeftIsExplained) {
  ASSERT_EQ(::mkdir(path_.c_str(), 0700), 0);
  const auto refused_at = [this](rlim_t descriptors) {
    const rlimit limit{descriptors, descriptors};
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return 2;
    const std::string hint = wire::hint_of(Directory::lock(path_).status());
    return hint.find("raise the limit of open files") != std::string::npos ? 0 : 1;
  };
  const auto used = static_cast<rlim_t>(::open("/", O_RDONLY | O_CLOEXEC));
  ::close(static_cast<int>(used));
  for (const rlim_t left : {0U, 1U}) {  // for the directory, for the lock
    EXPECT_EQ(wait_for(spawn(0, [&] { return refused_at(used + left); })), 0) << left;
  }
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
