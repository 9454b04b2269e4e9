#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "client/socket/directory.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "tests/support/temporary_folder.h"
#include "wire/error.h"
#include "wire/place.h"

namespace memlease::internal {
namespace {

namespace fs = std::filesystem;
using wire::ErrorCode;

constexpr uid_t kStranger = 54321;

// An environment variable, set or absent, until the end of the scope.
class Variable {
 public:
  Variable(const char* name, const std::optional<std::string>& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { set(old_); }

 private:
  void set(const std::optional<std::string>& value) {
    value ? ::setenv(name_, value->c_str(), 1) : ::unsetenv(name_);
  }
  const char* const name_;
  std::optional<std::string> old_;
};

// A directory of mode 0711 in /tmp, removed at the end.
class Scratch {
 public:
  Scratch() { EXPECT_EQ(::chmod(path_.c_str(), 0711), 0); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string make(const std::string& name, mode_t mode, std::optional<uid_t> owner = {}) const {
    const std::string path = path_ / name;
    EXPECT_EQ(::mkdir(path.c_str(), 0700), 0);
    EXPECT_EQ(::chown(path.c_str(), owner.value_or(::geteuid()), ::getegid()), 0);
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }
  const fs::path& path() const { return path_; }

 private:
  testing::TemporaryFolder folder_;
  const fs::path path_ = folder_.path();
};

// The code of check_directory(path) in a process of another user; 0 = fine.
int checked_as(uid_t uid, const std::string& path) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setuid(uid) != 0) ::_exit(99);
    const absl::Status status = check_directory(path);
    ::_exit(status.ok() ? 0 : static_cast<int>(wire::code_of(status)));
  }
  int result = 0;
  EXPECT_EQ(::waitpid(child, &result, 0), child);
  EXPECT_TRUE(WIFEXITED(result));
  return WEXITSTATUS(result);
}

int checked(const std::string& path) {
  const absl::Status status = check_directory(path);
  EXPECT_TRUE(status.ok() || !wire::hint_of(status).empty());
  return status.ok() ? 0 : static_cast<int>(wire::code_of(status));
}

constexpr int kDenied = static_cast<int>(ErrorCode::kDenied);
constexpr int kUnavailable = static_cast<int>(ErrorCode::kDaemonUnavailable);
constexpr int kInvalid = static_cast<int>(ErrorCode::kInvalidArgument);

TEST(Candidates, TheArgumentStandsAlone) {
  const Variable chosen("MEMLEASE_DIR", "/elsewhere");
  EXPECT_EQ(candidate_directories("/here"), std::vector<std::string>{"/here"});
}

TEST(Candidates, AnAddressIsTold) {
  for (const char* address : {"localhost:5000", ":5000", "node1:1", "tcp://a", "unix:///run/a"}) {
    EXPECT_TRUE(is_address(address)) << address;
  }
  for (const char* path : {"", "a", "a:", "a:b", "a/b:1", "./a:1", "/a:1", "/tcp://a", "a:1b"}) {
    EXPECT_FALSE(is_address(path)) << path;
  }
}

TEST(Candidates, ThenTheVariableStandsAlone) {
  const Variable chosen("MEMLEASE_DIR", "/elsewhere");
  EXPECT_EQ(candidate_directories(""), std::vector<std::string>{"/elsewhere"});
}

TEST(Candidates, ElseTheUsersComesBeforeTheSystems) {
  const Variable runtime("XDG_RUNTIME_DIR", "/run/user/7");
  for (const auto& value : {std::optional<std::string>(), std::optional<std::string>("")}) {
    const Variable chosen("MEMLEASE_DIR", value);
    EXPECT_EQ(candidate_directories(""),
              (std::vector<std::string>{"/run/user/7/memlease", "/run/memlease"}));
  }
}

TEST(Candidates, WithoutAUsableRuntimeDirectoryTheUsersIsInTmp) {
  const Variable chosen("MEMLEASE_DIR", std::nullopt);
  for (const auto& value : {std::optional<std::string>(), std::optional<std::string>(""),
                            std::optional<std::string>("relative")}) {
    const Variable runtime("XDG_RUNTIME_DIR", value);
    EXPECT_EQ(candidate_directories("").front(), fmt::format("/tmp/memlease-{}", ::geteuid()));
  }
}

TEST(CheckDirectory, OwnDirectoriesPass) {
  const Scratch scratch;
  EXPECT_EQ(checked(scratch.make("private", 0700)), 0);
  EXPECT_EQ(checked(scratch.make("readable", 0755)), 0);
  EXPECT_EQ(checked((scratch.path() / "private/").string()), 0);
}

TEST(CheckDirectory, OneThatOthersMayWriteToIsRefused) {
  const Scratch scratch;
  EXPECT_EQ(checked(scratch.make("group", 0770)), kDenied);
  EXPECT_EQ(checked(scratch.make("others", 0702)), kDenied);
  EXPECT_EQ(checked(scratch.make("sticky", 01777)), kDenied);
  EXPECT_EQ(checked("/tmp"), kDenied);
}

TEST(CheckDirectory, WhatIsMissingMeansNoDaemon) {
  const Scratch scratch;
  EXPECT_EQ(checked(scratch.path() / "none"), kUnavailable);
  EXPECT_EQ(checked(scratch.path() / "none/deeper"), kUnavailable);
}

TEST(CheckDirectory, AFileIsNoDirectory) { EXPECT_EQ(checked("/etc/passwd"), kInvalid); }

TEST(CheckDirectory, ALinkOfOnesOwnIsFollowed) {
  const Scratch scratch;
  fs::create_symlink(scratch.make("real", 0700), scratch.path() / "link");
  EXPECT_EQ(checked(scratch.path() / "link"), 0);
  fs::create_symlink("/etc/passwd", scratch.path() / "astray");
  EXPECT_EQ(checked(scratch.path() / "astray"), kInvalid);
}

// These need other users, hence root; the test's runner is root.
class CheckDirectoryOfOthers : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::geteuid(), 0U) << "run the tests as root"; }
};

TEST_F(CheckDirectoryOfOthers, RootsPassForEverybody) {
  const Scratch scratch;
  EXPECT_EQ(checked_as(kStranger, scratch.make("roots", 0755)), 0);
}

TEST_F(CheckDirectoryOfOthers, AStrangersPassesWhereRootAloneCanHaveMadeIt) {
  const Scratch scratch;  // root's, 0711: as /run
  const std::string path = scratch.make("service", 0755, kStranger);
  EXPECT_EQ(checked(path), 0);
  EXPECT_EQ(checked_as(kStranger + 1, path), 0);
  EXPECT_EQ(checked_as(kStranger, path), 0) << "its owner's";
}

TEST_F(CheckDirectoryOfOthers, AStrangersIsRefusedWhereAnybodyCanHaveMadeIt) {
  const Scratch scratch;
  const std::string common = scratch.make("common", 01777);  // as /tmp
  const std::string path = scratch.make("common/planted", 0755, kStranger);
  EXPECT_EQ(checked(path), kDenied);
  EXPECT_EQ(checked(path + "/"), kDenied);
  EXPECT_EQ(checked_as(kStranger + 1, path), kDenied);
  EXPECT_EQ(checked_as(kStranger, path), 0) << "its owner's";
}

TEST_F(CheckDirectoryOfOthers, AStrangersLinkIsRefused) {
  const Scratch scratch;
  const std::string target = scratch.make("own", 0700);
  const std::string common = scratch.make("common", 0777);  // the kernel itself guards sticky ones
  const std::string link = common + "/link";
  fs::create_symlink(target, link);
  ASSERT_EQ(::lchown(link.c_str(), kStranger, 0), 0);
  EXPECT_EQ(checked(link), kDenied);
  EXPECT_EQ(checked(link + "/"), kDenied);
}

TEST_F(CheckDirectoryOfOthers, OneThatMayNotBeSearchedIsDeniedAndNotMissing) {
  const Scratch scratch;
  scratch.make("closed", 0700);
  scratch.make("closed/inner", 0755);
  EXPECT_EQ(checked_as(kStranger, scratch.path() / "closed/inner"), kDenied);
}

}  // namespace
}  // namespace memlease::internal
