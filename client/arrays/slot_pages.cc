#include "client/arrays/slot_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

namespace memlease::internal {

bool ProtectedPages::make_writable() const {
  return data == nullptr || mprotect(data, size_bytes, PROT_READ | PROT_WRITE) == 0;
}

void SlotPages::set_device(const std::vector<std::byte*>& data) {
  read_ = data;
  write_ = data;
  is_device_ = true;
  mapped_for_writing_ = true;
}

absl::Status SlotPages::map_for_reading(ArrayPages& pages, MappingCache& mappings) {
  auto mapped = pages.map_slots(answer_, Access::kRead);
  if (!mapped.ok()) return mapped.status();
  read_ = std::move(mapped->data);
  write_.resize(read_.size());
  if (!layout_.grows()) return absl::OkStatus();
  const auto added = [&](Access access) {
    return std::make_unique<AddedSlots>(mappings, pages.board(), layout_, answer_.slot_bytes,
                                        access);
  };
  added_read_ = added(Access::kRead);
  added_write_ = added(Access::kWrite);
  return absl::OkStatus();
}

// Into the elements that are there: a signal handler may be looking at them.
absl::Status SlotPages::map_for_writing(ArrayPages& pages) {
  if (mapped_for_writing_) return absl::OkStatus();
  auto mapped = pages.map_slots(answer_, Access::kWrite);
  if (!mapped.ok()) return mapped.status();
  std::copy(mapped->data.begin(), mapped->data.end(), write_.begin());
  page_bytes_ = mapped->page_bytes;
  mapped_for_writing_ = true;
  return absl::OkStatus();
}

void SlotPages::forget_gone() {
  if (!stale()) return;
  const bool to_read = added_read_->forget_gone();
  const bool to_write = added_write_->forget_gone();
  if (!to_read && !to_write) maps_added_.store(false);
}

absl::Status SlotPages::map_added(AddedSlots& added, std::uint32_t slot, InterruptCheck interrupt) {
  auto status = added.map(slot, interrupt);
  if (status.ok()) maps_added_.store(true);
  return status;
}

absl::Status SlotPages::map_slot(std::uint32_t slot, InterruptCheck interrupt) {
  if (mapped_at_once(slot)) return absl::OkStatus();
  forget_gone();
  return slot < read_.size() ? absl::OkStatus() : map_added(*added_read_, slot, interrupt);
}

absl::Status SlotPages::map_slot_to_write(std::uint32_t slot, InterruptCheck interrupt) {
  if (added_write_ == nullptr) return absl::OkStatus();
  forget_gone();
  return slot < write_.size() ? absl::OkStatus() : map_added(*added_write_, slot, interrupt);
}

ProtectedPages SlotPages::protect(std::uint32_t slot, bool& refused) const {
  refused = false;
  if (is_device_) return {};
  std::byte* const data = write_data(slot);
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t first = (begin + page_bytes_ - 1) / page_bytes_ * page_bytes_;
  const std::uintptr_t end = (begin + answer_.slot_bytes) / page_bytes_ * page_bytes_;
  if (end <= first) return {};
  const ProtectedPages pages{data + (first - begin), end - first};
  refused = mprotect(pages.data, pages.size_bytes, PROT_READ) != 0;
  return refused ? ProtectedPages() : pages;
}

std::uint32_t SlotPages::slot_at(const void* address, bool& for_writing) const {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const auto is_in = [&](const std::byte* data) {
    const auto begin = reinterpret_cast<std::uintptr_t>(data);
    return begin != 0 && at >= begin && at - begin < answer_.slot_bytes;
  };
  const std::uint32_t most = added_read_ == nullptr ? layout_.regular : layout_.most;
  for (std::uint32_t slot = 0; slot < most; ++slot) {
    for_writing = is_in(write_data(slot));
    if (for_writing || is_in(read_data(slot))) return slot;
  }
  return layout_.most;
}

}  // namespace memlease::internal
