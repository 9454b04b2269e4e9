#include "wire/memory_ceiling.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "absl/functional/function_ref.h"
#include "fmt/format.h"
#include "wire/mutex.h"
#include "wire/unique_fd.h"

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

// What a process wants to know of itself it has open, or knows that it is not there: on the way to
// a file there are locks, too, that whoever goes there can keep, and a daemon would wait.
struct OwnFiles {
  wire::Mutex mutex;
  std::map<std::string, UniqueFd> files ABSL_GUARDED_BY(mutex);
  std::optional<std::string> groups ABSL_GUARDED_BY(mutex);
  pid_t process ABSL_GUARDED_BY(mutex) = 0;
};

// Files of the kernel, as they are now; what is not there is empty. Of which process, and below
// which root.
class Files {
 public:
  // `keeps`: those of this process itself are kept open.
  Files(pid_t pid, const std::string& root, bool keeps)
      : pid_(pid),
        root_(root),
        kept_(keeps && root.empty() && pid == ::getpid() ? &own_files() : nullptr) {}

  const std::string& root() const { return root_; }
  std::string text_of(const std::string& path) const;
  // It will be wanted some day.
  void prepare(const std::string& path) const {
    if (kept_ != nullptr) kept_open(path);
  }
  // The groups that the process is in. Its own are what they were at first: the kernel tells them
  // under a lock that whoever asks likewise can keep.
  std::string groups() const;

 private:
  static OwnFiles& own_files();
  static std::string text_in(int fd);
  int kept_open(const std::string& path) const;
  std::string groups_now() const {
    return text_of_new(fmt::format("{}/proc/{}/cgroup", root_, pid_));
  }
  static std::string text_of_new(const std::string& path) {
    return text_in(UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)).get());
  }

  const pid_t pid_;
  const std::string& root_;
  OwnFiles* const kept_;
};

// A child begins anew: the descriptors may be somebody else's there by now.
OwnFiles& Files::own_files() {
  static OwnFiles& kept = *new OwnFiles;
  const wire::MutexLock lock(kept.mutex);
  if (std::exchange(kept.process, ::getpid()) != ::getpid()) {
    for (auto& [path, file] : kept.files) static_cast<void>(file.release());
    kept.files.clear();
    kept.groups.reset();
  }
  return kept;
}

// -1: there is none.
std::string Files::text_in(int fd) {
  std::string text;
  std::array<char, 4096> part;
  for (;;) {
    const ssize_t count = ::pread(fd, part.data(), part.size(), static_cast<off_t>(text.size()));
    if (count == -1 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(part.data(), static_cast<std::size_t>(count));
  }
}

int Files::kept_open(const std::string& path) const {
  const wire::MutexLock lock(kept_->mutex);
  const auto [known, is_new] = kept_->files.try_emplace(path);
  if (is_new) known->second.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return known->second.get();
}

std::string Files::text_of(const std::string& path) const {
  return kept_ == nullptr ? text_of_new(path) : text_in(kept_open(path));
}

std::string Files::groups() const {
  if (kept_ == nullptr) return groups_now();
  const wire::MutexLock lock(kept_->mutex);
  if (!kept_->groups) kept_->groups = groups_now();
  return *kept_->groups;
}

// A number in a file of a control group, or "max".
std::optional<std::uint64_t> read_bytes(const Files& from, const std::string& path) {
  std::istringstream file(from.text_of(path));
  std::uint64_t bytes = 0;
  // Version 1 writes "no limit" as a number near 2^63.
  if (!(file >> bytes) || bytes > std::uint64_t{1} << 60) return std::nullopt;
  return bytes;
}

// At which the kernel kills somebody in the group, or slows it down.
std::optional<MemoryBound> lowest_limit(const Files& from, const std::string& folder,
                                        const GroupFiles& files) {
  std::optional<MemoryBound> lowest;
  for (const std::string_view name : files.limits) {
    const std::string file = fmt::format("{}/{}", folder, name);
    const auto limit = name.empty() ? std::nullopt : read_bytes(from, file);
    if (limit && (!lowest || *limit < lowest->bytes)) lowest = {*limit, file};
  }
  return lowest;
}

using Visit = absl::FunctionRef<void(const std::string& folder, const GroupFiles& files)>;

// Every folder that may be of a group that the process is in.
void visit_groups(const Files& from, Visit visit) {
  const std::string groups_folder = from.root() + "/sys/fs/cgroup";
  // In a container without the host's view of the groups, these are its own.
  visit(groups_folder, kVersion2);
  visit(groups_folder + "/memory", kVersion1);
  std::istringstream groups(from.groups());
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

void visit_limited(const Files& from, absl::FunctionRef<void(const Limited& group)> visit) {
  visit_groups(from, [&](const std::string& folder, const GroupFiles& files) {
    const auto limit = lowest_limit(from, folder, files);
    const auto usage =
        limit ? read_bytes(from, fmt::format("{}/{}", folder, files.usage)) : std::nullopt;
    if (!usage) return;
    from.prepare(folder + "/memory.stat");
    const std::uint64_t reserve = std::min(kReserveBytes, limit->bytes / kReservePart);
    visit({*limit, *usage, reserve, folder, files});
  });
}

// Takes much longer than the other files: the kernel adds it up.
struct GroupParts {
  std::uint64_t spare = 0;
  std::optional<std::uint64_t> shared;
};
GroupParts parts_of(const Files& from, const Limited& group) {
  const GroupFiles& files = group.files;
  std::istringstream statistics(from.text_of(group.folder + "/memory.stat"));
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

MemoryBound machine_room(const Files& from) {
  std::istringstream file(from.text_of(from.root() + "/proc/meminfo"));
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
  const Files from(pid, root, false);
  visit_groups(from, [&](const std::string& folder, const GroupFiles& files) {
    const std::string file = fmt::format("{}/{}", folder, files.limits[0]);
    const auto limit = read_bytes(from, file);
    if (limit && *limit < ceiling.bytes) ceiling = {*limit, file};
  });
  return ceiling;
}

MemoryBound memory_room(pid_t pid, std::uint64_t wanted_bytes, const PromisedBytes& promised,
                        ReserveKept kept, const std::string& root) {
  const Files from(pid, root, true);
  MemoryBound room = machine_room(from);
  visit_limited(from, [&](const Limited& group) {
    const std::uint64_t reserve =
        kept == ReserveKept::kAll ? group.reserve_bytes : group.reserve_bytes / 8 * 3;
    const std::uint64_t most = group.limit.bytes - reserve;
    const std::uint64_t usage = group.usage_bytes;
    const std::uint64_t most_used = usage + promised.shared + promised.heap;
    if (without(most, most_used) >= std::min(room.bytes, wanted_bytes)) return;
    const GroupParts parts = parts_of(from, group);
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
  const Files from(pid, root, true);
  visit_limited(from, [&](const Limited& group) {
    const std::uint64_t half = group.reserve_bytes / 2;
    if (without(group.limit.bytes, group.usage_bytes) >= half) return;
    const std::uint64_t used = without(group.usage_bytes, parts_of(from, group).spare);
    const std::uint64_t left = without(group.limit.bytes, used);
    if (left >= half) return;
    const bool is_short = left < half / 2;
    least = std::max(least, is_short ? ReserveLeft::kLessThanQuarter : ReserveLeft::kLessThanHalf);
  });
  return least;
}

}  // namespace memlease::wire
