#include "client/session/mapped_ranges.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "fmt/format.h"
#include "wire/error.h"
#include "wire/held_mutexes.h"

namespace memlease::internal {
namespace {

absl::Status no_memory(std::uint64_t size_bytes, int error) {
  return wire::errno_error(wire::ErrorCode::kOutOfMemory,
                           fmt::format("copying {} bytes that views keep", size_bytes), error,
                           "Let some of the views die; check ulimit -v and vm.max_map_count.");
}

// A second mapping of shared pages (mremap(2), of a size of 0), at `wanted` or anywhere. It is as
// writable as the first page of the other one is just now.
std::byte* map_pages(std::byte* pages, std::uint64_t size_bytes, bool writable, std::byte* wanted) {
  const int flags = wanted == nullptr ? MREMAP_MAYMOVE : MREMAP_MAYMOVE | MREMAP_FIXED;
  void* const made = mremap(pages, 0, size_bytes, flags, wanted);
  if (made == MAP_FAILED) return nullptr;
  if (!writable || mprotect(made, size_bytes, PROT_READ | PROT_WRITE) == 0) {
    return static_cast<std::byte*>(made);
  }
  const int error = errno;
  if (wanted == nullptr) munmap(made, size_bytes);
  errno = error;
  return nullptr;
}

// The same of a part of a file.
std::byte* map_file(int file, std::uint64_t from, std::uint64_t size_bytes, bool writable,
                    std::byte* wanted) {
  void* const made =
      mmap(wanted, size_bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ,
           wanted == nullptr ? MAP_SHARED : MAP_SHARED | MAP_FIXED, file, static_cast<off_t>(from));
  if (made == MAP_FAILED) return nullptr;
  if (madvise(made, size_bytes, MADV_DONTFORK) == 0) return static_cast<std::byte*>(made);
  const int error = errno;
  if (wanted == nullptr) munmap(made, size_bytes);
  errno = error;
  return nullptr;
}

bool is_in(const std::byte* data, std::uint64_t size_bytes, const void* address) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  return at >= begin && at - begin < size_bytes;
}

}  // namespace

MappedRanges::MappedRanges(std::byte* first, std::uint64_t size_bytes, std::uint64_t page_bytes,
                           bool writable, wire::UniqueFd file)
    : size_bytes_(size_bytes),
      page_bytes_(page_bytes),
      writable_(writable),
      file_(std::move(file)),
      fork_generation_(fork_generation()),
      newest_data_(first),
      reserve_([this] { reserve(); }) {
  const wire::MutexLock lock(mutex_);
  add_range(first);
}

MappedRanges::~MappedRanges() {
  // In a forked child the addresses may be somebody else's by now.
  if (fork_generation_ != fork_generation()) return;
  wire::expect_no_mutex_held("the unmapping of a segment");
  for (const Range* range = ranges_.load(); range != nullptr; range = range->older) {
    munmap(range->data, size_bytes_);
  }
}

void MappedRanges::reserve() {
  file_.reset();
  for (const Range* range = ranges_.load(); range != nullptr; range = range->older) {
    static_cast<void>(mmap(range->data, size_bytes_, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1,
                           0));
  }
}

std::optional<std::uint64_t> MappedRanges::offset_of(const void* address) const {
  for (const Range* range = ranges_.load(); range != nullptr; range = range->older) {
    if (is_in(range->data, size_bytes_, address)) {
      return static_cast<const std::byte*>(address) - range->data;
    }
  }
  return std::nullopt;
}

MappedRanges::Range* MappedRanges::range_of(const void* address) {
  const auto found = std::find_if(all_.begin(), all_.end(), [&](const auto& range) {
    return is_in(range->data, size_bytes_, address);
  });
  return found == all_.end() ? nullptr : found->get();
}

MappedRanges::Offsets MappedRanges::pages_of(const Range& range, const Area& area) const {
  const std::uint64_t from = area.data - range.data;
  const std::uint64_t to = from + std::max<std::uint64_t>(area.size_bytes, 1);
  return {from / page_bytes_ * page_bytes_, (to + page_bytes_ - 1) / page_bytes_ * page_bytes_};
}

std::byte* MappedRanges::map_again(Offsets pages, bool writable, std::byte* wanted) const {
  const std::uint64_t size_bytes = pages.to - pages.from;
  const int file = file_.get();
  if (file >= 0) return map_file(file, pages.from, size_bytes, writable, wanted);
  return map_pages(newest_data_.load() + pages.from, size_bytes, writable, wanted);
}

MappedRanges::Pages MappedRanges::map_once_more(std::uint64_t offset,
                                                std::uint64_t size_bytes) const {
  const std::uint64_t from = offset / page_bytes_ * page_bytes_;
  const std::uint64_t to = (offset + size_bytes + page_bytes_ - 1) / page_bytes_ * page_bytes_;
  const wire::MutexLock lock(mutex_);
  for (const bool writable : {true, false}) {
    std::byte* const made = map_again({from, to}, writable, nullptr);
    if (made != nullptr) return {made, to - from, offset - from, writable};
  }
  return {};
}

// A slot of more than a page begins at one, and the rest of its last page is nobody else's.
bool MappedRanges::can_keep(const Area& area) const {
  const auto offset = offset_of(area.data);
  if (!offset) return false;
  return !writable_ || (*offset % page_bytes_ == 0 && area.size_bytes > kSmallPage &&
                        (page_bytes_ == kSmallPage || area.size_bytes % page_bytes_ == 0));
}

void MappedRanges::add_range(std::byte* data) {
  auto range = std::make_unique<Range>();
  range->data = data;
  range->older = ranges_.load();
  ranges_.store(range.get());
  all_.push_back(std::move(range));
}

// To a range without copies where none of the areas is: the segment's own pages are there, and
// stay.
absl::Status MappedRanges::lead_elsewhere(std::span<const Area> areas) {
  std::byte* const newest = newest_data_.load();
  const auto uses = [&](const Range& range) {
    return std::any_of(areas.begin(), areas.end(),
                       [&](const Area& area) { return is_in(range.data, size_bytes_, area.data); });
  };
  if (!uses(*range_of(newest))) return absl::OkStatus();
  for (const auto& range : all_) {
    if (range->data == newest || !range->copied.empty() || uses(*range)) continue;
    newest_data_.store(range->data);
    return absl::OkStatus();
  }
  std::byte* const made = map_again({0, size_bytes_}, writable_, nullptr);
  if (made == nullptr) return no_memory(size_bytes_, errno);
  add_range(made);
  newest_data_.store(made);
  return absl::OkStatus();
}

// In one step, as all see it: who looks there meanwhile sees the one or the other.
absl::Status MappedRanges::copy(Range& range, Offsets pages) {
  const std::uint64_t size_bytes = pages.to - pages.from;
  std::byte* const there = range.data + pages.from;
  void* const made =
      mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) return no_memory(size_bytes, errno);
  std::memcpy(made, there, size_bytes);
  if (madvise(made, size_bytes, MADV_DONTFORK) != 0 || mprotect(made, size_bytes, PROT_READ) != 0 ||
      mremap(made, size_bytes, size_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, there) == MAP_FAILED) {
    const int error = errno;
    munmap(made, size_bytes);
    // A move that failed may have unmapped what was there.
    map_again(pages, writable_, there);
    return no_memory(size_bytes, error);
  }
  range.copied[pages.from] = pages.to;
  return absl::OkStatus();
}

absl::Status MappedRanges::keep_copies(std::span<const Area> areas) {
  const wire::MutexLock lock(mutex_);
  if (auto status = lead_elsewhere(areas); !status.ok()) return status;
  std::vector<Range*> done;
  for (const Area& area : areas) {
    Range& range = *range_of(area.data);
    const Offsets wanted = pages_of(range, area);
    ++range.areas;
    done.push_back(&range);
    for (std::uint64_t from = wanted.from; from < wanted.to;) {
      // What has been copied already was held then as it is now.
      auto next = range.copied.upper_bound(from);
      if (next != range.copied.begin() && std::prev(next)->second > from) {
        from = std::prev(next)->second;
        continue;
      }
      const std::uint64_t to =
          next == range.copied.end() ? wanted.to : std::min(wanted.to, next->first);
      if (auto status = copy(range, {from, to}); !status.ok()) {
        for (Range* begun : done) remove_area(*begun);
        return status;
      }
      from = to;
    }
  }
  return absl::OkStatus();
}

void MappedRanges::let_go(const std::byte* data) {
  if (fork_generation_ != fork_generation()) return;
  const wire::MutexLock lock(mutex_);
  remove_area(*range_of(data));
}

// Pages that cannot be put back stay copies, and their range serves no more leases.
void MappedRanges::remove_area(Range& range) {
  if (--range.areas != 0) return;
  for (auto pages = range.copied.begin(); pages != range.copied.end();) {
    const Offsets copied{pages->first, pages->second};
    const bool is_back = map_again(copied, writable_, range.data + copied.from) != nullptr;
    pages = is_back ? range.copied.erase(pages) : std::next(pages);
  }
}

}  // namespace memlease::internal
