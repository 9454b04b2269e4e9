#include "wire/memory_ceiling.h"

#include <unistd.h>

#include <fstream>
#include <optional>

#include "fmt/format.h"

namespace memlease::wire {
namespace {

// A limit in the file of a control group: a number, or "max".
std::optional<std::uint64_t> read_limit(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t bytes = 0;
  // Version 1 writes "no limit" as a number near 2^63.
  if (!(file >> bytes) || bytes > std::uint64_t{1} << 60) return std::nullopt;
  return bytes;
}

void lower(MemoryCeiling& ceiling, const std::string& file) {
  const auto limit = read_limit(file);
  if (limit && *limit < ceiling.bytes) ceiling = {*limit, file};
}

}  // namespace

MemoryCeiling memory_ceiling(pid_t pid, const std::string& root) {
  MemoryCeiling ceiling{static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                            static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)),
                        "the machine's memory"};
  const std::string groups_folder = root + "/sys/fs/cgroup";
  // In a container without the host's view of the groups, these are its own.
  lower(ceiling, groups_folder + "/memory.max");
  lower(ceiling, groups_folder + "/memory/memory.limit_in_bytes");
  std::ifstream groups(fmt::format("{}/proc/{}/cgroup", root, pid));
  for (std::string line; std::getline(groups, line);) {
    const bool unified = line.starts_with("0::/");
    // "5:memory:/group", or "5:memory,hugetlb:/group" where controllers are mounted together.
    const std::size_t first = line.find(':') + 1;
    const auto controllers = fmt::format(",{},", line.substr(first, line.find(":/") - first));
    if (!unified && controllers.find(",memory,") == std::string::npos) continue;
    std::string group = line.substr(line.find('/'));
    while (group.size() > 1) {
      std::string limit = unified ? groups_folder : groups_folder + "/memory";
      limit += group;
      limit += unified ? "/memory.max" : "/memory.limit_in_bytes";
      lower(ceiling, limit);
      group.resize(group.rfind('/'));
    }
  }
  return ceiling;
}

}  // namespace memlease::wire
