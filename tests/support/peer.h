// A client process under a test's command: tests/support/peer_main.cc, which lists the commands. It
// is a program of its own, so that it can be killed, stopped and run as another user. Used by one
// thread at a time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "wire/unique_fd.h"

namespace memlease::testing {

struct Answer {
  enum class Kind { kOk, kError, kDead, kSilent };
  Kind kind = Kind::kSilent;
  std::string code;  // of an error: "NotFound"
  std::string text;  // the result, or the error's message

  bool ok() const { return kind == Kind::kOk; }
  // The nth word of the result as a number.
  std::uint64_t number(std::size_t nth = 0) const;
  std::string describe() const;
};

class Peer {
 public:
  static constexpr int kAnswerMs = 45'000;  // the driver may have other processes to serve first
  struct User {
    uid_t uid = 0;
    gid_t gid = 0;
    std::vector<gid_t> groups = {};
  };
  // One of the build that is linked otherwise.
  struct Program {
    std::string path;
  };
  explicit Peer(const std::string& directory);
  Peer(const std::string& directory, const User& user);
  Peer(const std::string& directory, const Program& program);
  // Closes its commands' pipe, at which it ends; kills it if it does not. Not ending, or not with
  // 0, is a test failure.
  ~Peer();
  // The other one has no process then.
  Peer(Peer&& other) noexcept;
  Peer& operator=(Peer&&) = delete;

  pid_t pid() const { return pid_; }
  // One command and its answer.
  Answer ask(const std::string& command, int timeout_ms = kAnswerMs);
  void say(const std::string& command);
  Answer answer(int timeout_ms = kAnswerMs);

  void signal(int number) const;
  // The signal that it died of or stopped at, once it has; 0 if it still runs after `timeout_ms`;
  // negative if it ended by itself.
  int wait_for_signal(int timeout_ms = 10'000);
  // That its main thread sleeps on words of shared pages, or will be so within 10 s. Needs the
  // right to trace it: root, or the same user where a parent may.
  bool sleeps_on_words() const;
  // SIGKILL, and reaped.
  void kill();

 private:
  Peer(const std::string& directory, const User& user, const Program& program);
  void close_pipes();
  bool reap(bool block);

  pid_t pid_ = 0;
  int died_of_ = 0;
  wire::UniqueFd process_;
  wire::UniqueFd commands_;
  wire::UniqueFd answers_;
  std::string unread_;
};

}  // namespace memlease::testing
