// The command lines of clients, for people to tell them apart: "python3 reader.py run42". A process
// chooses its own, so nothing rests on it.
//
// The kernel reads it from the process's memory, under a lock of that memory, which a process can
// hold for as long as it likes: then the answer is the process's name (comm). That has no such
// lock, but whoever opens something in a directory of /proc waits for who has begun to create
// something there, in vain (open(2), O_CREAT), and is kept from a processor. Then it is "".
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

#include "server/channel/brief_look.h"

namespace memlease::server {

// Belongs to one thread, the loop's.
class CommandLines {
 public:
  static constexpr std::size_t kMostBytes = 256;
  using Look = BriefLook<std::string>::Look;

  explicit CommandLines(Look look = read_command_line,
                        std::chrono::milliseconds pause = BriefLook<std::string>::kPause,
                        Look name = read_name);

  // Printable ASCII, at most kMostBytes. Also "" for a process that is gone.
  std::string of(pid_t pid);

  // The process's name alone; "" as above.
  std::string name_of(pid_t pid);
  // The arguments of the process, joined by spaces. Bytes that are not printable ASCII are written
  // as \x1b; what is longer than kMostBytes ends in "...". "": it has none, or it cannot be read.
  static std::string read_command_line(pid_t pid);
  // The name that the kernel has for the process, printable.
  static std::string read_name(pid_t pid);
  // As above, for any text, whose arguments end in a zero byte each.
  static std::string printable(std::string arguments);

 private:
  BriefLook<std::string> lines_;
  BriefLook<std::string> names_;
};

}  // namespace memlease::server
