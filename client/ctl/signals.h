// For commands that go on until they are told to end: while one lives, SIGINT, SIGTERM and SIGHUP
// do not end the process, so that it can leave the terminal and the daemon as it should; nor does
// SIGPIPE, after which writing fails. One at a time; whatever was set before holds again
// afterwards.
#pragma once

#include <signal.h>

#include <chrono>
#include <initializer_list>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace memlease::ctl {

// Why stdout took no more, by errno. Where nobody reads it any more that is no error to be printed:
// end_by_pipe() then, once the daemon has been left.
absl::Status cannot_write();
bool has_no_reader(const absl::Status& status);
// Ends the process as SIGPIPE does.
[[noreturn]] void end_by_pipe();

class Signals {
 public:
  // `also`: others to notice, such as SIGWINCH.
  Signals(std::initializer_list<int> also = {});
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // Told to end. From then on always.
  bool ending() const;
  // True once for each time or more that one of `also` has come since.
  bool take(int signal);
  // Returns when a signal comes or `fd` can be read (unless it is -1), or after so long. Whether
  // `fd` can be read.
  bool wait(std::chrono::milliseconds at_most, int fd = -1);
  // Makes wait() return: the one under way, else the next one. Of any thread.
  void wake();

 private:
  int pipe_[2] = {-1, -1};
  std::vector<std::pair<int, struct sigaction>> before_;
};

}  // namespace memlease::ctl
