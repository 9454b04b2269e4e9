#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
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

}  // namespace
}  // namespace memlease::server
