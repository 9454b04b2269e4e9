#include "client/arrays/slot_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <fstream>
#include <map>
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

absl::StatusOr<MappedSlots> map_slots_of(const KnownArray& known, MappingCache& mappings,
                                         Access access, InterruptCheck interrupt) {
  MappedSlots mapped;
  std::map<std::uint32_t, std::shared_ptr<Mapping>> segments;
  for (const wire::FileRange& at : known.slots) {
    auto& segment = segments[wire::to_int(at.file)];
    if (segment == nullptr) {
      auto mapping = mappings.get(at.file, wire::FileKind::kSegment, interrupt, access);
      if (!mapping.ok()) return mapping.status();
      segment = *std::move(mapping);
      mapped.segments.push_back(segment);
    }
    if (!segment->contains(at.offset, known.slot_bytes, 1)) {
      return wire::defect("a slot lies outside of its segment");
    }
    mapped.places.push_back({segment->ranges().get(), at.offset});
  }
  return mapped;
}

void SlotPages::set_device(GpuArray& gpu) {
  for (std::byte* data : gpu.slot_data()) {
    regular_.push_back({SlotPlace::of_device(data), SlotPlace::of_device(data), nullptr});
  }
  gpu_ = &gpu;
  mapped_for_writing_ = true;
}

absl::StatusOr<std::vector<SlotPlace>> SlotPages::map_all(Access access, InterruptCheck interrupt) {
  auto mapped = map_slots_of(known_, mappings_, access, interrupt);
  if (!mapped.ok()) return mapped.status();
  for (auto& segment : mapped->segments) segments_.push_back(std::move(segment));
  return std::move(mapped->places);
}

absl::Status SlotPages::map_for_reading(InterruptCheck interrupt) {
  const auto mapped = map_all(Access::kRead, interrupt);
  if (!mapped.ok()) return mapped.status();
  regular_.resize(mapped->size());
  for (std::size_t slot = 0; slot < mapped->size(); ++slot) {
    regular_[slot].read = (*mapped)[slot];
    regular_[slot].mapped_at = (*mapped)[slot].data();
  }
  return absl::OkStatus();
}

AddedSlots::Open SlotPages::open_added(Access access) const {
  using Opened = absl::StatusOr<AddedSlots::Opened>;
  if (gpu_ != nullptr) {
    return [&gpu = *gpu_](std::uint32_t /*slot*/, wire::FileRange at,
                          InterruptCheck interrupt) -> Opened {
      auto opened = gpu.open_added(at, interrupt);
      if (!opened.ok()) return opened.status();
      return AddedSlots::Opened{SlotPlace::of_device(opened->data), std::move(opened->memory)};
    };
  }
  return [&mappings = mappings_, access, slot_bytes = known_.slot_bytes](
             std::uint32_t /*slot*/, wire::FileRange at, InterruptCheck interrupt) -> Opened {
    auto mapping = mappings.get(at.file, wire::FileKind::kSegment, interrupt, access);
    if (!mapping.ok()) return mapping.status();
    if (!(*mapping)->contains(at.offset, slot_bytes, 1)) {
      return wire::defect("an added slot lies outside of its segment");
    }
    return AddedSlots::Opened{{(*mapping)->ranges().get(), at.offset}, std::move(*mapping)};
  };
}

SlotPages::Added& SlotPages::added() {
  return added_.get([this] {
    const auto slots = [this](Access access) {
      return AddedSlots(open_added(access), board_, layout());
    };
    return std::unique_ptr<Added>(new Added{slots(Access::kRead), slots(Access::kWrite)});
  });
}

void SlotPages::set_out_of_reach(absl::Status why) {
  regular_.resize(known_.kind->slots);
  reach_ = std::move(why);
}

// Into the elements that are there: a signal handler may be looking at them.
absl::Status SlotPages::map_for_writing(InterruptCheck interrupt) {
  if (mapped_for_writing_) return absl::OkStatus();
  auto mapped = map_all(Access::kWrite, interrupt);
  if (!mapped.ok()) return mapped.status();
  for (std::size_t slot = 0; slot < mapped->size(); ++slot) regular_[slot].write = (*mapped)[slot];
  mapped_for_writing_ = true;
  return absl::OkStatus();
}

OpenMemory SlotPages::forget_registered(std::uint32_t number) {
  RegisteredSlots* const registered = registered_.if_made();
  return registered == nullptr ? OpenMemory() : registered->forget_from(number);
}

void SlotPages::forget_gone() {
  if (!stale()) return;
  Added& added = *added_.if_made();
  imports_.close_later(forget_registered(added.read.count()));
  for (AddedSlots* slots : {&added.read, &added.write}) close(slots->forget_gone());
  if (!added.read.any() && !added.write.any()) maps_added_.store(false);
}

// The host's is unmapped here.
void SlotPages::close(AddedSlots::Memory gone) {
  if (gpu_ != nullptr) gpu_->close_gone(std::move(gone));
}

void SlotPages::unmap() {
  if (gpu_ != nullptr) return;
  segments_.clear();
  Added* const added = added_.if_made();
  if (added == nullptr) return;
  for (AddedSlots* slots : {&added->read, &added->write}) close(slots->forget_all());
}

OpenMemory SlotPages::take_open() {
  OpenMemory memory = forget_registered(0);
  Added* const added = added_.if_made();
  if (gpu_ == nullptr || added == nullptr) return memory;
  for (AddedSlots* slots : {&added->read, &added->write}) {
    AddedSlots::Memory all = slots->forget_all();
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
  return slot < regular_.size() ? absl::OkStatus() : map_added(added().read, slot, interrupt);
}

absl::Status SlotPages::map_slot_to_write(std::uint32_t slot, InterruptCheck interrupt) {
  if (!layout().grows()) return absl::OkStatus();
  if (slot < regular_.size() && mapped_at_once(slot)) return absl::OkStatus();
  forget_gone();
  if (slot < regular_.size() || added().write.mapped(slot)) return absl::OkStatus();
  return map_added(added().write, slot, interrupt);
}

RegisteredBytes SlotPages::begin_copy(std::uint32_t slot, bool to, std::uint64_t copied_bytes,
                                      Importer& importer, bool& refused) {
  refused = false;
  if (gpu_ != nullptr) return nullptr;
  RegisteredSlots::Slot bytes{
      slot, 0, {}, to ? write_place(slot) : read_place(slot), known_.slot_bytes};
  if (slot < regular_.size()) {
    bytes.file = known_.slots[slot].file;
  } else {
    bytes.place_word = added().read.place_word(slot);
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
  const std::uint64_t rest = ranges.can_keep({data, known_.slot_bytes}) ? page_bytes - 1 : 0;
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t first = (begin + page_bytes - 1) / page_bytes * page_bytes;
  const std::uintptr_t end = (begin + known_.slot_bytes + rest) / page_bytes * page_bytes;
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
    if (place.has(address, std::max<std::uint64_t>(known_.slot_bytes, 1))) return place.ranges;
  }
  return nullptr;
}

std::uint32_t SlotPages::slot_at(const void* address, bool& for_writing) const {
  const std::uint32_t most = added_.if_made() == nullptr ? layout().regular : layout().most;
  for (std::uint32_t slot = 0; slot < most; ++slot) {
    for_writing = write_place(slot).has(address, known_.slot_bytes);
    if (for_writing || read_place(slot).has(address, known_.slot_bytes)) return slot;
  }
  return layout().most;
}

}  // namespace memlease::internal
