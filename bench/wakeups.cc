#include "bench/wakeups.h"

#include <filesystem>
#include <fstream>

#include "fmt/format.h"

namespace memlease::bench {

std::map<std::string, long> Wakeups::sleeps() const {
  std::map<std::string, long> counts;
  for (const pid_t pid : pids_) {
    const std::string tasks = fmt::format("/proc/{}/task", pid);
    for (const auto& task : std::filesystem::directory_iterator(tasks)) {
      std::ifstream status(task.path() / "status");
      for (std::string line; std::getline(status, line);) {
        if (!line.starts_with("voluntary_ctxt_switches:")) continue;
        counts[task.path().filename()] = std::stol(line.substr(24));
      }
    }
  }
  return counts;
}

long Wakeups::count() const {
  const auto after = sleeps();
  long sum = 0;
  for (const auto& [task, count] : after) {
    const auto known = before_.find(task);
    sum += known == before_.end() ? count : count - known->second;
  }
  for (const auto& [task, count] : before_) sum += after.contains(task) ? 0 : 1;
  return sum;
}

}  // namespace memlease::bench
