// The numbers that /proc has of a process in one line: proc(5), "/proc/pid/stat".
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace memlease::wire {

class ProcessStat {
 public:
  // Of this process with 0. Nothing where there is none that is seen from here. Takes no lock of
  // that process; it takes long where it has many threads.
  static std::optional<ProcessStat> of(pid_t pid);
  // By the number that it has in proc(5), from 4 to 51. What this process may not see is 0, and so
  // is what is negative.
  std::uint64_t field(std::size_t number) const { return fields_.at(number - kFirst); }

 private:
  static constexpr std::size_t kFirst = 4;  // behind the name and the state
  static constexpr std::size_t kLast = 51;
  std::array<std::uint64_t, kLast - kFirst + 1> fields_{};
};

}  // namespace memlease::wire
