// A client process in a sentence for people.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "fmt/format.h"

namespace memlease::wire {

// "pid 4711 (python3 reader.py)". The daemon has no number (0) for a process in another PID
// namespace; its session has one, which memleasectl takes: "session 7 (in another PID namespace)".
inline std::string process_name(pid_t pid, std::uint32_t session, std::string_view command) {
  if (pid == 0) return fmt::format("session {} ({})", session, command);
  return fmt::format("pid {} ({})", pid, command);
}

}  // namespace memlease::wire
