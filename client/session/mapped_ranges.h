// Where a segment's bytes are in this process: the range of addresses that leases get from now on,
// and former ranges. There the views of versions that this process has let go (release_views) go
// on to see what they saw, in copies of its own: the pages behind their addresses are replaced. A
// copy lives as long as its views; then the segment's own pages are there again, so that the range
// can serve leases once more.
//
// Whoever holds a slot sees the same bytes by either kind of pages, at the address of any range. So
// nobody who reads needs to know when they are replaced.
//
// Thread-safe. A forked child has none of it: its addresses are reserved there, and fault.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "client/session/fork_guard.h"
#include "wire/mutex.h"
#include "wire/own_fd.h"

namespace memlease::internal {

class MappedRanges : public std::enable_shared_from_this<MappedRanges> {
 public:
  // Bytes of one slot, at an address that data() has led to. Somebody holds the slot.
  struct Area {
    const std::byte* data = nullptr;
    std::uint64_t size_bytes = 0;
  };

  // Takes over a mapping that forked children do not inherit, of whole pages of page_bytes. Where
  // these are huge, `file` must be what is mapped: Linux makes a second mapping of other pages from
  // the first one, but of huge ones only from their file.
  MappedRanges(std::byte* first, std::uint64_t size_bytes, std::uint64_t page_bytes, bool writable,
               wire::UniqueFd file = {});
  ~MappedRanges();
  MappedRanges(const MappedRanges&) = delete;
  MappedRanges& operator=(const MappedRanges&) = delete;

  // Of the range that leases are to use.
  std::byte* data() const { return newest_data_.load(); }
  std::uint64_t page_bytes() const { return page_bytes_; }
  // The place in the segment of an address of any range. For signal handlers, too.
  std::optional<std::uint64_t> offset_of(const void* address) const;

  // Maps the pages that a part of the segment lies on once more, for the caller alone, who unmaps
  // them: no view is ever there, so that they are never replaced. Forked children do not have them.
  // Writable if this process may write the file; `pages.data` is null if there is no room, or the
  // program has closed the file of huge pages.
  struct Pages {
    std::byte* data = nullptr;
    std::uint64_t size_bytes = 0;
    std::uint64_t offset = 0;  // of the part, from `data`
    bool writable = false;
  };
  Pages map_once_more(std::uint64_t offset, std::uint64_t size_bytes) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Can its pages be replaced? Where they are written, only those that it has for itself.
  bool can_keep(const Area& area) const;
  // Leads all further leases elsewhere, and puts copies behind the areas, each until let_go() of
  // its address. Nobody may write into the areas meanwhile. kOutOfMemory: it has done nothing.
  absl::Status keep_copies(std::span<const Area> areas) ABSL_LOCKS_EXCLUDED(mutex_);
  // The last view of an area that has been copied has gone.
  void let_go(const std::byte* data) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Range {
    std::byte* data = nullptr;
    const Range* older = nullptr;
    std::map<std::uint64_t, std::uint64_t> copied;  // from, to: offsets of whole pages
    std::uint64_t areas = 0;                        // that need them
  };
  // A slot of more than this begins at a multiple of it, and has its last page for itself.
  static constexpr std::uint64_t kSmallPage = 4096;
  struct Offsets {  // of whole pages
    std::uint64_t from = 0;
    std::uint64_t to = 0;
  };
  Offsets pages_of(const Range& range, const Area& area) const;
  // One more mapping of the segment's own pages, at `wanted` or anywhere; nullptr with errno.
  std::byte* map_again(Offsets pages, bool writable, std::byte* wanted) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Range* range_of(const void* address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status lead_elsewhere(std::span<const Area> areas) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void add_range(std::byte* data) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status copy(Range& range, Offsets pages) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void remove_area(Range& range) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void reserve();  // in a forked child

  const std::uint64_t size_bytes_;
  const std::uint64_t page_bytes_;
  const bool writable_;
  wire::OwnFd file_;  // none where it is not needed; changes in a forked child alone
  const std::uint32_t fork_generation_;
  std::atomic<std::byte*> newest_data_;
  std::atomic<const Range*> ranges_{nullptr};  // the one that was added last; none is ever removed

  // Orders the changes of the page tables, which it is held over: by release_views(), by the ends
  // of views that it has let go, and by the first copy of a slot on a GPU; by no other read or
  // write.
  mutable wire::Mutex mutex_;
  std::vector<std::unique_ptr<Range>> all_ ABSL_GUARDED_BY(mutex_);
  const ForkObserver reserve_;
};

}  // namespace memlease::internal
