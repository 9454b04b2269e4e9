// A directory of a daemon for the tests of server/config/directory.h, and children of other users
// that meet it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <set>
#include <string>

#include "server/config/directory.h"
#include "tests/support/open_files.h"
#include "tests/support/temporary_folder.h"
#include "wire/error.h"

namespace memlease::server {

inline constexpr uid_t kOtherUid = 12345;

// Runs in a child, as another user if `uid` is not 0; its exit status.
inline pid_t spawn(uid_t uid, const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // if the test crashes
  if (uid != 0 && (::setgid(uid) != 0 || ::setuid(uid) != 0)) ::_exit(100);
  ::_exit(body());
}

inline int wait_for(pid_t pid) {
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// A daemon's directory that is not there yet. The tests need root, to be other users.
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

  void expect_refused(wire::ErrorCode code, const std::string& what) const {
    const auto refused = Directory::lock(path_);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(wire::code_of(refused.status()), code) << refused.status();
    EXPECT_THAT(wire::message_of(refused.status()), ::testing::HasSubstr(what));
    EXPECT_FALSE(wire::hint_of(refused.status()).empty());
  }

  const testing::TemporaryFolder folder_;
  const std::string parent_ = folder_.path();
  std::string path_ = parent_ + "/memlease";
  const std::set<std::string> files_ = testing::open_files();
};

}  // namespace memlease::server
