#include "client/arrays/slot_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "client/session/fork_guard.h"
#include "wire/error.h"

namespace memlease::internal {

namespace {

// Of the process, as the kernel counts its mappings.
constinit std::atomic<std::uint32_t> protected_ranges{0};

constexpr std::uint32_t kMost = 16'384;

std::uint32_t most_protected() {
  static const std::uint32_t most = [] {
    std::uint32_t mappings = 65'530;  // Linux's default
    std::ifstream("/proc/sys/vm/max_map_count") >> mappings;
    return std::min(mappings / 4, kMost);
  }();
  return most;
}

bool count_protected() {
  static const ForkObserver none_in_a_child([] { protected_ranges.store(0); });
  if (protected_ranges.fetch_add(1) < most_protected()) return true;
  protected_ranges.fetch_sub(1);
  return false;
}

}  // namespace

bool ProtectedPages::make_writable() const {
  if (data == nullptr) return true;
  if (mprotect(data, size_bytes, PROT_READ | PROT_WRITE) != 0) return false;
  protected_ranges.fetch_sub(1);
  return true;
}

void ProtectedPages::forget() {
  if (data == nullptr) return;
  protected_ranges.fetch_sub(1);
  *this = {};
}

void SlotPages::set_device(ArrayPages& pages, GpuArray& gpu) {
  for (std::byte* data : gpu.slot_data()) read_.push_back(SlotPlace::of_device(data));
  write_ = read_;
  gpu_ = &gpu;
  mapped_for_writing_ = true;
  if (!layout_.grows()) return;
  const auto added = [&] {
    const auto open = [&gpu](std::uint32_t /*slot*/, wire::FileRange at,
                             InterruptCheck interrupt) -> absl::StatusOr<AddedSlots::Opened> {
      auto opened = gpu.open_added(at, interrupt);
      if (!opened.ok()) return opened.status();
      return AddedSlots::Opened{SlotPlace::of_device(opened->data), std::move(opened->memory)};
    };
    return std::make_unique<AddedSlots>(open, pages.board(), layout_);
  };
  added_read_ = added();
  added_write_ = added();
}

absl::Status SlotPages::map_for_reading(ArrayPages& pages, MappingCache& mappings,
                                        InterruptCheck interrupt) {
  auto mapped = pages.map_slots(answer_, Access::kRead, interrupt);
  if (!mapped.ok()) return mapped.status();
  read_ = std::move(*mapped);
  write_.resize(read_.size());
  if (!layout_.grows()) return absl::OkStatus();
  const auto added = [&](Access access) {
    const auto open = [&mappings, access, slot_bytes = answer_.slot_bytes](
                          std::uint32_t /*slot*/, wire::FileRange at,
                          InterruptCheck check) -> absl::StatusOr<AddedSlots::Opened> {
      auto mapping = mappings.get(at.file, wire::FileKind::kSegment, check, access);
      if (!mapping.ok()) return mapping.status();
      if (!(*mapping)->contains(at.offset, slot_bytes, 1)) {
        return wire::defect("an added slot lies outside of its segment");
      }
      return AddedSlots::Opened{{(*mapping)->ranges().get(), at.offset}, std::move(*mapping)};
    };
    return std::make_unique<AddedSlots>(open, pages.board(), layout_);
  };
  added_read_ = added(Access::kRead);
  added_write_ = added(Access::kWrite);
  return absl::OkStatus();
}

void SlotPages::set_out_of_reach() {
  read_.resize(layout_.regular);
  write_.resize(layout_.regular);
}

// Into the elements that are there: a signal handler may be looking at them.
absl::Status SlotPages::map_for_writing(ArrayPages& pages, InterruptCheck interrupt) {
  if (mapped_for_writing_) return absl::OkStatus();
  auto mapped = pages.map_slots(answer_, Access::kWrite, interrupt);
  if (!mapped.ok()) return mapped.status();
  std::copy(mapped->begin(), mapped->end(), write_.begin());
  mapped_for_writing_ = true;
  return absl::OkStatus();
}

OpenMemory SlotPages::forget_registered(std::uint32_t number) {
  RegisteredSlots* const registered = registered_.if_made();
  return registered == nullptr ? OpenMemory() : registered->forget_from(number);
}

void SlotPages::forget_gone() {
  if (!stale()) return;
  imports_.close_later(forget_registered(added_read_->count()));
  for (AddedSlots* added : {added_read_.get(), added_write_.get()}) {
    close(added->forget_gone());
  }
  if (!added_read_->any() && !added_write_->any()) maps_added_.store(false);
}

// The host's is unmapped here.
void SlotPages::close(AddedSlots::Memory gone) {
  if (gpu_ != nullptr) gpu_->close_gone(std::move(gone));
}

void SlotPages::unmap(ArrayPages& pages) {
  if (gpu_ != nullptr) return;
  pages.unmap_slots();
  for (AddedSlots* added : {added_read_.get(), added_write_.get()}) {
    if (added != nullptr) close(added->forget_all());
  }
}

OpenMemory SlotPages::take_open() {
  OpenMemory memory = forget_registered(0);
  if (gpu_ == nullptr) return memory;
  for (AddedSlots* added : {added_read_.get(), added_write_.get()}) {
    if (added == nullptr) continue;
    AddedSlots::Memory all = added->forget_all();
    memory.insert(memory.end(), all.begin(), all.end());
  }
  return memory;
}

absl::Status SlotPages::map_added(AddedSlots& added, std::uint32_t slot, InterruptCheck interrupt) {
  auto before = added.map(slot, interrupt);
  if (!before.ok()) return before.status();
  maps_added_.store(true);
  close(std::move(*before));
  return absl::OkStatus();
}

absl::Status SlotPages::map_slot(std::uint32_t slot, InterruptCheck interrupt) {
  if (mapped_at_once(slot)) return absl::OkStatus();
  forget_gone();
  return slot < read_.size() ? absl::OkStatus() : map_added(*added_read_, slot, interrupt);
}

absl::Status SlotPages::map_slot_to_write(std::uint32_t slot, InterruptCheck interrupt) {
  if (added_write_ == nullptr) return absl::OkStatus();
  if (slot < write_.size() && mapped_at_once(slot)) return absl::OkStatus();
  forget_gone();
  if (slot < write_.size() || added_write_->mapped(slot)) return absl::OkStatus();
  return map_added(*added_write_, slot, interrupt);
}

RegisteredBytes SlotPages::begin_copy(std::uint32_t slot, bool to, std::uint64_t copied_bytes,
                                      Importer& importer, bool& refused) {
  refused = false;
  if (gpu_ != nullptr) return nullptr;
  RegisteredSlots::Slot bytes{
      slot, 0, {}, to ? write_place(slot) : read_place(slot), answer_.slot_bytes};
  if (slot < layout_.regular) {
    bytes.file = answer_.slots[slot].file;
  } else {
    bytes.place_word = added_read_->place_word(slot);
    bytes.file = wire::unpack_place(bytes.place_word).file;
  }
  return registered_.get().begin_copy(bytes, to, copied_bytes, importer, refused);
}

ProtectedPages SlotPages::protect(std::uint32_t slot, std::byte* data, bool& refused) const {
  refused = false;
  if (gpu_ != nullptr) return {};
  const MappedRanges& ranges = *write_place(slot).ranges;
  const std::uint64_t page_bytes = ranges.page_bytes();
  // Its last page is protected whole where nobody else has the rest of it.
  const std::uint64_t rest = ranges.can_keep({data, answer_.slot_bytes}) ? page_bytes - 1 : 0;
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t first = (begin + page_bytes - 1) / page_bytes * page_bytes;
  const std::uintptr_t end = (begin + answer_.slot_bytes + rest) / page_bytes * page_bytes;
  if (end <= first) return {};
  const ProtectedPages pages{data + (first - begin), end - first};
  refused = !count_protected();
  if (refused) return {};
  refused = mprotect(pages.data, pages.size_bytes, PROT_READ) != 0;
  if (!refused) return pages;
  protected_ranges.fetch_sub(1);
  return {};
}

MappedRanges* SlotPages::ranges_of(std::uint32_t slot, const void* address) const {
  for (const SlotPlace& place : {read_place(slot), write_place(slot)}) {
    if (place.has(address, std::max<std::uint64_t>(answer_.slot_bytes, 1))) return place.ranges;
  }
  return nullptr;
}

std::uint32_t SlotPages::slot_at(const void* address, bool& for_writing) const {
  const std::uint32_t most = added_read_ == nullptr ? layout_.regular : layout_.most;
  for (std::uint32_t slot = 0; slot < most; ++slot) {
    for_writing = write_place(slot).has(address, answer_.slot_bytes);
    if (for_writing || read_place(slot).has(address, answer_.slot_bytes)) return slot;
  }
  return layout_.most;
}

}  // namespace memlease::internal
