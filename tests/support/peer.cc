#include "tests/support/peer.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "gtest/gtest.h"
#include "tests/support/in_build.h"
#include "tests/support/readable.h"

namespace memlease::testing {
namespace {

using Clock = std::chrono::steady_clock;
using wire::UniqueFd;

constexpr int kEndedWell = -1;
constexpr int kEndedBadly = -2;

struct Pipe {
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
    read_end.reset(ends[0]);
    write_end.reset(ends[1]);
  }
  UniqueFd read_end;
  UniqueFd write_end;
};

Answer parse(const std::string& line) {
  std::istringstream words(line);
  std::string kind;
  Answer answer;
  words >> kind;
  answer.kind = kind == "ok" ? Answer::Kind::kOk : Answer::Kind::kError;
  if (kind != "ok") words >> answer.code;
  std::getline(words >> std::ws, answer.text);
  return answer;
}

}  // namespace

std::uint64_t Answer::number(std::size_t nth) const {
  std::istringstream words(text);
  std::uint64_t number = 0;
  for (std::size_t i = 0; i <= nth; ++i) {
    if (!(words >> number)) {
      ADD_FAILURE() << "no number " << nth << " in " << describe();
      return 0;
    }
  }
  return number;
}

std::string Answer::describe() const {
  switch (kind) {
    case Kind::kOk:
      return "ok " + text;
    case Kind::kError:
      return code + ": " + text;
    case Kind::kDead:
      return "the process has ended";
    case Kind::kSilent:
      return "no answer in time";
  }
  return "";
}

Peer::Peer(const std::string& directory) : Peer(directory, User{}) {}

Peer::Peer(const std::string& directory, const User& user)
    : Peer(directory, user, Program{MEMLEASE_PEER}) {}

Peer::Peer(const std::string& directory, const Program& program)
    : Peer(directory, User{}, program) {}

Peer::Peer(const std::string& directory, const User& user, const Program& of_build) {
  // A dead peer shows in its answer, not as a signal.
  std::signal(SIGPIPE, SIG_IGN);
  Pipe commands;
  Pipe answers;
  posix_spawn_file_actions_t actions{};
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, commands.read_end.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, answers.write_end.get(), STDOUT_FILENO);
  const std::string program = in_build(of_build.path);
  const std::vector<std::string> arguments = {program, directory, std::to_string(user.uid),
                                              std::to_string(user.gid),
                                              fmt::format("{}", fmt::join(user.groups, ","))};
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  if (posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv.data(), environ) != 0) {
    std::abort();
  }
  posix_spawn_file_actions_destroy(&actions);
  process_.reset(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  commands_ = std::move(commands.write_end);
  answers_ = std::move(answers.read_end);
}

Peer::Peer(Peer&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      died_of_(other.died_of_),
      process_(std::move(other.process_)),
      commands_(std::move(other.commands_)),
      answers_(std::move(other.answers_)),
      unread_(std::move(other.unread_)) {}

Peer::~Peer() {
  if (pid_ == 0) return;
  close_pipes();
  signal(SIGCONT);
  if (!readable(process_.get(), kAnswerMs)) {
    ADD_FAILURE() << "peer " << pid_ << " does not end";
    signal(SIGKILL);
  }
  while (pid_ != 0) reap(true);
  EXPECT_EQ(died_of_, kEndedWell) << "a peer ended badly; its own words are above";
}

void Peer::close_pipes() {
  commands_.reset();
  answers_.reset();
}

Answer Peer::ask(const std::string& command, int timeout_ms) {
  say(command);
  return answer(timeout_ms);
}

void Peer::say(const std::string& command) {
  const std::string line = command + "\n";
  // Too short to come in pieces; an error shows as no answer.
  static_cast<void>(!write(commands_.get(), line.data(), line.size()));
}

Answer Peer::answer(int timeout_ms) {
  const auto end = Clock::now() + std::chrono::milliseconds(timeout_ms);
  for (;;) {
    if (const auto newline = unread_.find('\n'); newline != std::string::npos) {
      const Answer answer = parse(unread_.substr(0, newline));
      unread_.erase(0, newline + 1);
      return answer;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    pollfd entry{answers_.get(), POLLIN, 0};
    if (left.count() <= 0 || poll(&entry, 1, static_cast<int>(left.count())) == 0) return {};
    char buffer[4096];
    const ssize_t size = read(answers_.get(), buffer, sizeof buffer);
    if (size <= 0) return {Answer::Kind::kDead, "", ""};
    unread_.append(buffer, static_cast<std::size_t>(size));
  }
}

void Peer::signal(int number) const { ::kill(pid_, number); }

bool Peer::reap(bool block) {
  int status = 0;
  const int flags = WUNTRACED | (block ? 0 : WNOHANG);
  if (waitpid(pid_, &status, flags) != pid_) return false;
  if (WIFSTOPPED(status)) {
    died_of_ = WSTOPSIG(status);
    return true;
  }
  const bool well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  died_of_ = well ? kEndedWell : WIFSIGNALED(status) ? WTERMSIG(status) : kEndedBadly;
  pid_ = 0;
  return true;
}

int Peer::wait_for_signal(int timeout_ms) {
  // A pidfd does not tell of a stop, so this looks again and again.
  const auto end = Clock::now() + std::chrono::milliseconds(timeout_ms);
  do {
    if (reap(false)) return died_of_;
    readable(process_.get(), 1);
  } while (Clock::now() < end);
  return 0;
}

bool Peer::sleeps_on_words() const {
  const auto end = Clock::now() + std::chrono::seconds(10);
  long call = -1;
  while (call != SYS_futex_waitv && Clock::now() < end) {
    call = -1;  // the file says "running" while it runs
    std::ifstream("/proc/" + std::to_string(pid_) + "/syscall") >> call;
    std::this_thread::yield();
  }
  return call == SYS_futex_waitv;
}

void Peer::kill() {
  if (pid_ == 0) return;
  signal(SIGKILL);
  while (pid_ != 0) reap(true);
}

}  // namespace memlease::testing
