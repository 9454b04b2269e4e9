// Two daemons start on one directory in one instant: one serves and the other says so; what
// somebody has planted there is neither followed nor removed.
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "client/channel/attach_client.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "tests/support/goal.h"
#include "tests/support/in_build.h"
#include "tests/support/readable.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/unix_socket.h"
#include "wire/place.h"

namespace memlease::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr int kExitOfTheSecond = 73;

// A daemon that starts once its gate is open.
class Racer {
 public:
  Racer(const std::string& directory, const std::string& home, int number, const int* gate)
      : log_(fmt::format("{}/log{}", home, number)),
        notify_(fmt::format("{}/notify{}", home, number)),
        notices_(bind_unix(notify_, SOCK_DGRAM)) {
    const std::string program = in_build("bin/memleased");
    const std::string flag = "--directory=" + directory;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::setenv("NOTIFY_SOCKET", notify_.c_str(), 1);
      const int log = ::open(log_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      ::dup2(log, STDOUT_FILENO);
      ::dup2(log, STDERR_FILENO);
      ::close(gate[1]);
      char byte = 0;
      if (::read(gate[0], &byte, 1) != 0) ::_exit(1);
      ::execl(program.c_str(), program.c_str(), flag.c_str(), nullptr);
      ::_exit(1);
    }
    process_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  }
  ~Racer() {
    if (pid_ > 0) end();
    ::unlink(notify_.c_str());
  }
  Racer(const Racer&) = delete;
  Racer& operator=(const Racer&) = delete;

  // Waits until it says that it serves, or has ended.
  bool serves() {
    std::array<pollfd, 2> entries{{{notices_.get(), POLLIN, 0}, {process_.get(), POLLIN, 0}}};
    if (::poll(entries.data(), entries.size(), 20'000) < 1) return false;
    if (entries[0].revents != 0) return true;
    exit_code_ = reap();
    return false;
  }
  // Of one that has ended.
  int exit_code() const { return exit_code_; }
  std::string log() const {
    std::stringstream text;
    text << std::ifstream(log_).rdbuf();
    return text.str();
  }
  pid_t pid() const { return pid_; }
  // As it is asked to; its exit code.
  int end() {
    ::kill(pid_, SIGTERM);
    return readable(process_.get()) ? reap() : -1;
  }

 private:
  int reap() {
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  const std::string log_;
  const std::string notify_;
  wire::UniqueFd notices_;
  pid_t pid_ = 0;
  int exit_code_ = -1;
  wire::UniqueFd process_;
};

enum class Planted {
  kNothing,
  kStaleLock,
  kStaleSockets,
  kLinkAsSocket,
  kOthersSocket,
  kLinkAsLock
};

class DaemonRaces : public ::testing::Test {
 protected:
  static constexpr uid_t kOther = 4001;

  std::string at(const char* name) const { return directory_ + "/" + name; }
  std::string untouched() const { return home_.path() + "/untouched"; }

  void plant(Planted what) {
    switch (what) {
      case Planted::kNothing:
        return;
      case Planted::kStaleLock:
        std::ofstream(at(wire::kLockFile)) << "1\n";
        return;
      case Planted::kStaleSockets:
        std::ofstream(at(wire::kLockFile)) << "1\n";
        bind_unix(at(wire::kAttachSocket), SOCK_SEQPACKET);
        bind_unix(at(wire::kControlSocket), SOCK_STREAM);
        return;
      case Planted::kLinkAsSocket:
        ASSERT_EQ(::symlink(untouched().c_str(), at(wire::kAttachSocket).c_str()), 0);
        return;
      case Planted::kOthersSocket:
        ASSERT_EQ(::mknod(at(wire::kAttachSocket).c_str(), S_IFSOCK | 0600, 0), 0);
        ASSERT_EQ(::lchown(at(wire::kAttachSocket).c_str(), kOther, kOther), 0);
        return;
      case Planted::kLinkAsLock:
        ASSERT_EQ(::symlink(untouched().c_str(), at(wire::kLockFile).c_str()), 0);
        return;
    }
  }
  static bool hinders(Planted what) { return what >= Planted::kLinkAsSocket; }

  void race(Planted planted) {
    ASSERT_EQ(::mkdir(directory_.c_str(), 0700), 0);
    ASSERT_NO_FATAL_FAILURE(plant(planted));
    int gate[2];
    ASSERT_EQ(::pipe2(gate, O_CLOEXEC), 0);
    std::array<std::unique_ptr<Racer>, 2> racers;
    for (int i = 0; i < 2; ++i) racers.at(i) = start(i, gate);
    ::close(gate[0]);
    ::close(gate[1]);
    const std::array<bool, 2> serves{racers[0]->serves(), racers[1]->serves()};
    if (hinders(planted)) {
      expect_all_refuse(racers, serves);
    } else {
      ASSERT_NE(serves[0], serves[1]) << racers[0]->log() << racers[1]->log();
      expect_one(*racers.at(serves[0] ? 0 : 1), *racers.at(serves[0] ? 1 : 0));
      first_won_ += serves[0] ? 1 : 0;
    }
    EXPECT_TRUE(std::filesystem::is_empty(directory_));
    EXPECT_FALSE(std::filesystem::exists(untouched()));
    std::filesystem::remove_all(directory_);
  }
  std::unique_ptr<Racer> start(int number, const int* gate) {
    return std::make_unique<Racer>(directory_, home_.path(), number, gate);
  }
  void expect_one(Racer& first, const Racer& second) {
    EXPECT_EQ(second.exit_code(), kExitOfTheSecond) << second.log();
    EXPECT_THAT(
        second.log(),
        AnyOf(HasSubstr(fmt::format("is already served by pid {} (memleased)", first.pid())),
              HasSubstr("is already served by a daemon that is just starting")));
    {
      const auto session = internal::AttachClient::connect(directory_);
      ASSERT_TRUE(session.ok()) << session.status();
      EXPECT_EQ((*session)->daemon_pid(), static_cast<std::uint32_t>(first.pid()));
    }
    EXPECT_EQ(first.end(), 0) << first.log();
  }
  // And leave what is there.
  void expect_all_refuse(const std::array<std::unique_ptr<Racer>, 2>& racers,
                         const std::array<bool, 2>& serves) {
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_FALSE(serves.at(i));
      EXPECT_GT(racers.at(i)->exit_code(), 0);
      EXPECT_LT(racers.at(i)->exit_code(), 128);
      EXPECT_THAT(
          racers.at(i)->log(),
          AnyOf(HasSubstr("is a symbolic link of uid 0"), HasSubstr("is a socket of uid 4001"),
                HasSubstr("cannot open"), HasSubstr("is already served by")));
    }
    const std::string planted = at(
        std::filesystem::is_symlink(at(wire::kLockFile)) ? wire::kLockFile : wire::kAttachSocket);
    EXPECT_EQ(::unlink(planted.c_str()), 0) << "what was planted is gone";
  }

  const TemporaryFolder home_;
  const std::string directory_ = home_.path() + "/run";
  std::uint64_t first_won_ = 0;
};

TEST_F(DaemonRaces, HaveOneWinnerAndLeaveNothing) {
  const std::uint64_t races = goal(12, 1'000);
  std::uint64_t planted = 0;
  std::uint64_t hindered = 0;
  for (std::uint64_t i = 0; i < races; ++i) {
    const auto what = i % 2 == 0 ? Planted::kNothing : static_cast<Planted>(1 + (i / 2 % 5));
    SCOPED_TRACE(fmt::format("race {}, planted: {}", i, static_cast<int>(what)));
    planted += what == Planted::kNothing ? 0 : 1;
    hindered += hinders(what) ? 1 : 0;
    ASSERT_NO_FATAL_FAILURE(race(what));
    ASSERT_FALSE(HasFailure());
  }
  reached(
      "{} races of two daemons, {} with something planted: one served in each ({} times the first "
      "to be started), none in {} where it was no left-over of a daemon's",
      races, planted, first_won_, hindered);
}

}  // namespace
}  // namespace memlease::testing
