#include "client/session/mapping_cache.h"

#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "client/session/fork_guard.h"
#include "fmt/format.h"
#include "wire/error.h"
#include "wire/held_mutexes.h"

namespace memlease::internal {

using wire::ErrorCode;
using wire::FileId;
using wire::FileKind;
using wire::kMaxFetchedFiles;

namespace {

std::uint64_t page_bytes_of(const SharedFile& file) {
  struct statfs system{};
  const bool huge = fstatfs(file.fd.get(), &system) == 0 && system.f_type == HUGETLBFS_MAGIC;
  return static_cast<std::uint64_t>(huge ? system.f_bsize : sysconf(_SC_PAGESIZE));
}

// The file of small pages is closed: it is not needed.
std::shared_ptr<MappedRanges> make_ranges(std::byte* data, SharedFile file) {
  const std::uint64_t page_bytes = page_bytes_of(file);
  const bool huge = page_bytes > static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return std::make_shared<MappedRanges>(data, file.size_bytes, page_bytes, file.writable,
                                        huge ? std::move(file.fd) : wire::UniqueFd());
}

}  // namespace

absl::StatusOr<std::shared_ptr<Mapping>> Mapping::map(SharedFile file,
                                                      const std::shared_ptr<PeerWindows>& windows) {
  wire::expect_no_mutex_held("the mapping of a file");
  const bool of_peer = PeerWindows::shows(file);
  void* const window = of_peer ? windows->take(file.size_bytes) : nullptr;
  void* data = mmap(window, file.size_bytes, file.writable ? PROT_READ | PROT_WRITE : PROT_READ,
                    window == nullptr ? MAP_SHARED : MAP_SHARED | MAP_FIXED, file.fd.get(), 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    if (window != nullptr) windows->give_back(window, file.size_bytes);
    return wire::errno_error(ErrorCode::kOutOfMemory,
                             fmt::format("mapping {} shared bytes", file.size_bytes), error,
                             "Check ulimit -v and vm.max_map_count.");
  }
  // Before Linux 3.x this could fail; a mapping that a child inherits would be unsafe.
  if (madvise(data, file.size_bytes, MADV_DONTFORK) != 0) {
    const int error = errno;
    if (window != nullptr) {
      windows->give_back(window, file.size_bytes);  // a thread may be about to read there
    } else {
      munmap(data, file.size_bytes);
    }
    return wire::errno_error(ErrorCode::kInternal, "madvise(MADV_DONTFORK)", error);
  }
  return std::shared_ptr<Mapping>(
      new Mapping(static_cast<std::byte*>(data), std::move(file), of_peer ? windows : nullptr));
}

Mapping::Mapping(std::byte* data, SharedFile file, std::shared_ptr<PeerWindows> windows)
    : data_(data),
      size_bytes_(file.size_bytes),
      kind_(file.kind),
      writable_(file.writable),
      fork_generation_(fork_generation()),
      windows_(std::move(windows)),
      ranges_(kind_ == FileKind::kSegment ? make_ranges(data, std::move(file)) : nullptr) {}

Mapping::~Mapping() {
  if (ranges_ != nullptr) return;
  // In a forked child the addresses may be somebody else's by now.
  if (fork_generation_ != fork_generation()) return;
  wire::expect_no_mutex_held("the unmapping of a file");
  if (windows_ != nullptr) {
    windows_->give_back(data_, size_bytes_);
  } else {
    munmap(data_, size_bytes_);
  }
}

bool Mapping::contains(std::uint64_t offset, std::uint64_t size_bytes,
                       std::uint64_t alignment) const {
  return offset % alignment == 0 && offset <= size_bytes_ && size_bytes <= size_bytes_ - offset;
}

MappingCache::MappingCache(FileSource& source)
    : source_(source), windows_(std::make_shared<PeerWindows>()) {}

std::shared_ptr<Mapping> MappingCache::find(Key key) {
  const wire::MutexLock lock(mutex_);
  const auto known = mappings_.find(key);
  return known == mappings_.end() ? nullptr : known->second.lock();
}

// Another thread may have mapped it meanwhile: then that mapping counts.
std::shared_ptr<Mapping> MappingCache::publish(Key key, std::shared_ptr<Mapping> mapped) {
  const wire::MutexLock lock(mutex_);
  auto& entry = mappings_[key];
  if (auto first = entry.lock()) return first;
  entry = mapped;
  // Forget what nobody uses any more, now and then.
  std::erase_if(mappings_, [](const auto& item) { return item.second.expired(); });
  return mapped;
}

absl::StatusOr<std::shared_ptr<Mapping>> MappingCache::map(const WantedFile& wanted,
                                                           SharedFile shared) {
  if (wanted.access == Access::kWrite && !shared.writable) {
    return wire::make_error(ErrorCode::kDenied,
                            fmt::format("shared file {} may be read but not written by this "
                                        "process",
                                        to_int(wanted.file)),
                            "Its owner must create the array with a mode such as 0660.");
  }
  auto mapped = Mapping::map(std::move(shared), windows_);
  if (!mapped.ok()) return mapped.status();
  return publish(key_of(wanted), *std::move(mapped));
}

absl::StatusOr<std::vector<std::shared_ptr<Mapping>>> MappingCache::bring(
    std::span<const WantedFile> files, InterruptCheck interrupt, FilesById there) {
  std::vector<std::shared_ptr<Mapping>> mappings;
  std::vector<WantedFile> missing;
  for (const WantedFile& wanted : files) {
    auto known = find(key_of(wanted));
    if (known == nullptr) {
      const auto given = std::ranges::find(there, wanted.file, &FilesById::value_type::first);
      if (given != there.end() && given->second.fd) {
        auto mapped = map(wanted, std::move(given->second));
        if (mapped.ok()) known = *std::move(mapped);
      }
    }
    if (known != nullptr) {
      mappings.push_back(std::move(known));
    } else if (missing.size() < kMaxFetchedFiles &&
               std::ranges::find(missing, key_of(wanted), key_of) == missing.end()) {
      missing.push_back(wanted);
    }
  }
  if (missing.empty()) return mappings;
  auto fetched = source_.fetch_all(missing, interrupt);
  if (wire::code_of(fetched.status()) == ErrorCode::kNotFound) return mappings;
  if (!fetched.ok()) return fetched.status();
  for (std::size_t i = 0; i < missing.size(); ++i) {
    SharedFile& shared = (*fetched)[i];
    if (!shared.fd) continue;
    auto mapped = map(missing[i], std::move(shared));
    if (mapped.ok()) mappings.push_back(*std::move(mapped));
  }
  return mappings;
}

absl::StatusOr<std::shared_ptr<Mapping>> MappingCache::get(wire::FileId file, FileKind kind,
                                                           InterruptCheck interrupt,
                                                           Access access) {
  const WantedFile wanted{file, access};
  std::shared_ptr<Mapping> mapping = find(key_of(wanted));
  if (mapping == nullptr) {
    auto shared = source_.fetch(wanted, interrupt);
    if (!shared.ok()) return shared.status();
    auto mapped = map(wanted, *std::move(shared));
    if (!mapped.ok()) return mapped.status();
    mapping = *std::move(mapped);
  }
  if (mapping->kind() != kind) {
    return wire::defect(fmt::format("shared file {} is of kind {}, not {}", to_int(file),
                                    static_cast<int>(mapping->kind()), static_cast<int>(kind)));
  }
  return mapping;
}

}  // namespace memlease::internal
