#include "wire/memory_ceiling.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "fmt/format.h"

namespace memlease::wire {
namespace {

constexpr std::uint64_t kReserveBytes = std::uint64_t{256} << 20;
constexpr std::uint64_t kReservePart = 4;

constexpr std::string_view kMachine = "the machine's memory";

// What a version of control groups calls its files, and the lines of its statistics that tell what
// the group and those in it can do without.
struct GroupFiles {
  std::array<std::string_view, 2> limits;
  std::string_view usage;
  std::array<std::string_view, 3> spare;
  std::string_view shared;
};
constexpr GroupFiles kVersion1{{"memory.limit_in_bytes", {}},
                               "memory.usage_in_bytes",
                               {"total_inactive_file", "total_active_file", {}},
                               "total_shmem"};
constexpr GroupFiles kVersion2{{"memory.max", "memory.high"},
                               "memory.current",
                               {"inactive_file", "active_file", "slab_reclaimable"},
                               "shmem"};

// A number in a file of a control group, or "max".
std::optional<std::uint64_t> read_bytes(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t bytes = 0;
  // Version 1 writes "no limit" as a number near 2^63.
  if (!(file >> bytes) || bytes > std::uint64_t{1} << 60) return std::nullopt;
  return bytes;
}

// At which the kernel kills somebody in the group, or slows it down.
std::optional<MemoryBound> lowest_limit(const std::string& folder, const GroupFiles& files) {
  std::optional<MemoryBound> lowest;
  for (const std::string_view name : files.limits) {
    const std::string file = fmt::format("{}/{}", folder, name);
    const auto limit = name.empty() ? std::nullopt : read_bytes(file);
    if (limit && (!lowest || *limit < lowest->bytes)) lowest = {*limit, file};
  }
  return lowest;
}

using Visit = absl::FunctionRef<void(const std::string& folder, const GroupFiles& files)>;

// Every folder that may be of a group that the process is in.
void visit_groups(pid_t pid, const std::string& root, Visit visit) {
  const std::string groups_folder = root + "/sys/fs/cgroup";
  // In a container without the host's view of the groups, these are its own.
  visit(groups_folder, kVersion2);
  visit(groups_folder + "/memory", kVersion1);
  std::ifstream groups(fmt::format("{}/proc/{}/cgroup", root, pid));
  for (std::string line; std::getline(groups, line);) {
    const bool unified = line.starts_with("0::/");
    // "5:memory:/group", or "5:memory,hugetlb:/group" where controllers are mounted together.
    const std::size_t first = line.find(':') + 1;
    const auto controllers = fmt::format(",{},", line.substr(first, line.find(":/") - first));
    if (!unified && controllers.find(",memory,") == std::string::npos) continue;
    std::string group = line.substr(line.find('/'));
    while (group.size() > 1) {
      visit((unified ? groups_folder : groups_folder + "/memory") + group,
            unified ? kVersion2 : kVersion1);
      group.resize(group.rfind('/'));
    }
  }
}

// Of a group that has a limit; the lowest, where it has two.
struct Limited {
  MemoryBound limit;
  std::uint64_t usage_bytes;  // with caches
  std::uint64_t reserve_bytes;
  const std::string& folder;
  const GroupFiles& files;
};

void visit_limited(pid_t pid, const std::string& root,
                   absl::FunctionRef<void(const Limited& group)> visit) {
  visit_groups(pid, root, [&](const std::string& folder, const GroupFiles& files) {
    const auto limit = lowest_limit(folder, files);
    const auto usage = limit ? read_bytes(fmt::format("{}/{}", folder, files.usage)) : std::nullopt;
    if (!usage) return;
    const std::uint64_t reserve = std::min(kReserveBytes, limit->bytes / kReservePart);
    visit({*limit, *usage, reserve, folder, files});
  });
}

// Takes much longer than the other files: the kernel adds it up.
struct GroupParts {
  std::uint64_t spare = 0;
  std::optional<std::uint64_t> shared;
};
GroupParts parts_of(const Limited& group) {
  const GroupFiles& files = group.files;
  std::ifstream statistics(group.folder + "/memory.stat");
  GroupParts parts;
  std::uint64_t bytes = 0;
  for (std::string key; statistics >> key >> bytes;) {
    if (std::ranges::find(files.spare, key) != files.spare.end()) parts.spare += bytes;
    if (key == files.shared) parts.shared = bytes;
  }
  return parts;
}

std::uint64_t without(std::uint64_t bytes, std::uint64_t less) {
  return bytes - std::min(bytes, less);
}

MemoryBound machine_room(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  for (std::string key; file >> key;) {
    std::uint64_t kilobytes = 0;
    if (key == "MemAvailable:" && file >> kilobytes) {
      return {without(kilobytes * 1024, kReserveBytes), std::string(kMachine)};
    }
    file.ignore(1024, '\n');
  }
  return {std::uint64_t{1} << 60, std::string(kMachine)};
}

}  // namespace

MemoryBound memory_ceiling(pid_t pid, const std::string& root) {
  MemoryBound ceiling{static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                          static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)),
                      std::string(kMachine)};
  visit_groups(pid, root, [&](const std::string& folder, const GroupFiles& files) {
    const std::string file = fmt::format("{}/{}", folder, files.limits[0]);
    const auto limit = read_bytes(file);
    if (limit && *limit < ceiling.bytes) ceiling = {*limit, file};
  });
  return ceiling;
}

MemoryBound memory_room(pid_t pid, std::uint64_t wanted_bytes, const PromisedBytes& promised,
                        ReserveKept kept, const std::string& root) {
  MemoryBound room = machine_room(root);
  visit_limited(pid, root, [&](const Limited& group) {
    const std::uint64_t reserve =
        kept == ReserveKept::kAll ? group.reserve_bytes : group.reserve_bytes / 8 * 3;
    const std::uint64_t most = group.limit.bytes - reserve;
    const std::uint64_t usage = group.usage_bytes;
    const std::uint64_t most_used = usage + promised.shared + promised.heap;
    if (without(most, most_used) >= std::min(room.bytes, wanted_bytes)) return;
    const GroupParts parts = parts_of(group);
    const std::uint64_t used = without(usage, parts.spare);
    const std::uint64_t other = without(used, parts.shared.value_or(promised.shared));
    const std::uint64_t to_be = std::max(other, promised.heap) + promised.shared;
    const std::uint64_t left = without(most, std::max(used, to_be));
    if (left < room.bytes) room = {left, group.limit.what};
  });
  return room;
}

ReserveLeft reserve_left(pid_t pid, const std::string& root) {
  ReserveLeft least = ReserveLeft::kHalf;
  visit_limited(pid, root, [&](const Limited& group) {
    const std::uint64_t half = group.reserve_bytes / 2;
    if (without(group.limit.bytes, group.usage_bytes) >= half) return;
    const std::uint64_t used = without(group.usage_bytes, parts_of(group).spare);
    const std::uint64_t left = without(group.limit.bytes, used);
    if (left >= half) return;
    const bool is_short = left < half / 2;
    least = std::max(least, is_short ? ReserveLeft::kLessThanQuarter : ReserveLeft::kLessThanHalf);
  });
  return least;
}

}  // namespace memlease::wire
