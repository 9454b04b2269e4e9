// How often the threads of a process went to sleep: the wake-ups of one that has nothing to do.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace memlease::bench {

class Wakeups {
 public:
  // Counts from now on.
  explicit Wakeups(std::vector<pid_t> pids) : pids_(std::move(pids)), before_(sleeps()) {}
  // All together. A thread that has ended meanwhile was awake once for that.
  long count() const;

 private:
  std::map<std::string, long> sleeps() const;  // by the threads' numbers

  const std::vector<pid_t> pids_;
  const std::map<std::string, long> before_;
};

}  // namespace memlease::bench
