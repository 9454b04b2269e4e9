// The command lines of clients, for people to tell them apart: "python3 reader.py run42". A process
// chooses its own, so nothing rests on it.
//
// The kernel reads it from the process's memory, under a lock of that memory. A process can hold
// that lock for as long as it likes, so a thread of its own asks, and the loop waits for it a
// moment at most, and after a long wait not at all for forty times as long: the answer is the
// process's name (comm) then, and as long as the thread is held up.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace memlease::server {

// Belongs to one thread, the loop's.
class CommandLines {
 public:
  static constexpr std::chrono::milliseconds kMostWait{250};
  static constexpr std::chrono::milliseconds kLongWait{20};
  static constexpr std::chrono::milliseconds kPause{10'000};  // after kMostWait
  static constexpr std::size_t kMostBytes = 256;
  using Read = std::function<std::string(pid_t)>;

  // `read` is called by the thread, which begins with the first question.
  explicit CommandLines(Read read = read_command_line, std::chrono::milliseconds pause = kPause);
  // Does not wait for a read that is held up; its thread ends when that does.
  ~CommandLines();
  CommandLines(const CommandLines&) = delete;
  CommandLines& operator=(const CommandLines&) = delete;

  // Printable ASCII, at most kMostBytes. Also "" for a process that is gone.
  std::string of(pid_t pid);

  // The name that the kernel has for the process, printable; without a wait.
  static std::string name_of(pid_t pid);
  // The arguments of the process, joined by spaces. Bytes that are not printable ASCII are written
  // as \x1b; what is longer than kMostBytes ends in "...". "": it has none, or it cannot be read.
  static std::string read_command_line(pid_t pid);
  // As above, for any text, whose arguments end in a zero byte each.
  static std::string printable(std::string arguments);

 private:
  struct Shared;
  static void serve(const std::shared_ptr<Shared>& shared);
  const std::shared_ptr<Shared> shared_;
  const std::chrono::milliseconds pause_;
  bool started_ = false;
  std::chrono::steady_clock::time_point paused_until_{};
};

}  // namespace memlease::server
