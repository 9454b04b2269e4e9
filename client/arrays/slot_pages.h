// The bytes of an array's slots as this process has them mapped: once for reading, and a second
// time for writing, from the first write on. A device's bytes are mapped once, for both.
//
// A view of a write lease may outlive its publication, and what it then wrote would change what
// others read. So the pages of such a slot can be protected until the view has gone, which holds
// the slot meanwhile: nobody else could come to use these pages.
//
// Thread-safe where nothing else is said.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/arrays/added_slots.h"
#include "client/arrays/lazily.h"
#include "client/arrays/registered_slots.h"
#include "client/arrays/slot_place.h"
#include "client/ordering/gpu_array.h"
#include "client/ordering/gpu_use.h"
#include "client/session/known_array.h"
#include "client/session/mapping_cache.h"
#include "wire/board.h"

namespace memlease::internal {

// Pages that cannot be written; or none. There are as many as leave the process half of the
// mappings that the kernel lets it have (vm.max_map_count), or 16,384 if that is less: each splits
// one in three.
struct ProtectedPages {
  std::byte* data = nullptr;
  std::size_t size_bytes = 0;
  explicit operator bool() const { return data != nullptr; }
  // While their slot is still held. False if the kernel has no room for one more range: then the
  // slot must stay held, since who writes it next would fault.
  bool make_writable() const;
  // Its pages have been replaced.
  void forget();
};

// Where a host array's slots are, and what these are mapped by as long as it is kept. Fetches what
// this process does not have yet; a wait for the daemon ends with what `interrupt` says. kInternal:
// a slot does not fit its file.
struct MappedSlots {
  std::vector<SlotPlace> places;
  std::vector<std::shared_ptr<Mapping>> segments;
};
absl::StatusOr<MappedSlots> map_slots_of(const KnownArray& known, MappingCache& mappings,
                                         Access access, InterruptCheck interrupt);

class SlotPages {
 public:
  // All of it outlives this.
  SlotPages(const KnownArray& known, const wire::BoardRecord& board, MappingCache& mappings,
            ImportCache& imports)
      : known_(known), board_(board), mappings_(mappings), imports_(imports) {}
  SlotPages(const SlotPages&) = delete;
  SlotPages& operator=(const SlotPages&) = delete;

  // One of the three before all else. `gpu` outlives this.
  void set_device(GpuArray& gpu);
  absl::Status map_for_reading(InterruptCheck interrupt);
  // There are no bytes here, and no lease; and why.
  void set_out_of_reach(absl::Status why);
  const absl::Status& reach() const { return reach_; }
  // Under the array's write lock. A repeat does nothing.
  absl::Status map_for_writing(InterruptCheck interrupt);

  // A lease keeps what it got: the next one may be led to another range of addresses.
  std::byte* read_data(std::uint32_t slot) const { return read_place(slot).data(); }
  // After map_for_writing().
  std::byte* write_data(std::uint32_t slot) const { return write_place(slot).data(); }
  // Where a regular slot of the host was mapped for reading. It may be so no more.
  const std::byte* likely_data(std::uint32_t slot) const {
    return slot < regular_.size() ? regular_[slot].mapped_at : nullptr;
  }
  // map_slot() would have nothing to do.
  bool mapped_at_once(std::uint32_t slot) const {
    if (slot >= regular_.size()) {
      const Added* const added = added_.if_made();
      return added != nullptr && added->read.mapped(slot);
    }
    return !maps_added_.load(std::memory_order_relaxed) || !stale();
  }
  // On a device also a slot's events: the one to read only to who holds it, with his row.
  absl::Status map_slot(std::uint32_t slot, InterruptCheck interrupt);
  absl::Status map_slot_to_write(std::uint32_t slot, InterruptCheck interrupt);

  // For a copy on a GPU from a slot that is held, or `to` one that is in writing, both mapped; as
  // RegisteredSlots::begin_copy(). nullptr on a device.
  RegisteredBytes begin_copy(std::uint32_t slot, bool to, std::uint64_t copied_bytes,
                             Importer& importer, bool& refused);

  // Nobody has a slot, or will have one: unmaps the host's.
  void unmap();
  // What a device's added slots keep open, and what is registered of the host's, likewise.
  OpenMemory take_open();

  // In a write of the slot, to which the lease has `data`: from here on a write to the pages that
  // it has for itself ends the process. None: it has none, it is a device's, or `refused`: there is
  // no room for one more range.
  ProtectedPages protect(std::uint32_t slot, std::byte* data, bool& refused) const;

  // The ranges in which a slot that is held has this address; nullptr for a device's.
  MappedRanges* ranges_of(std::uint32_t slot, const void* address) const;

  // Of which slot is this address? layout.most if of none. For signal handlers, too. `for_writing`:
  // by the mapping for that.
  std::uint32_t slot_at(const void* address, bool& for_writing) const;

 private:
  struct Regular {
    SlotPlace read;
    SlotPlace write;                       // none before map_for_writing()
    const std::byte* mapped_at = nullptr;  // for reading; of the host
  };
  // Where the array may have others, from the first that is met on.
  struct Added {
    AddedSlots read;
    AddedSlots write;
  };
  wire::SlotLayout layout() const { return known_.layout(); }
  SlotPlace read_place(std::uint32_t slot) const {
    return slot < regular_.size() ? regular_[slot].read : added_.if_made()->read.place(slot);
  }
  SlotPlace write_place(std::uint32_t slot) const {
    return slot < regular_.size() ? regular_[slot].write : added_.if_made()->write.place(slot);
  }
  Added& added();
  AddedSlots::Open open_added(Access access) const;
  // Those from this number on, for the caller to unregister.
  OpenMemory forget_registered(std::uint32_t number);
  bool stale() const {
    const Added* const added = added_.if_made();
    return added != nullptr && (added->read.stale() || added->write.stale());
  }
  void forget_gone();
  void close(AddedSlots::Memory gone);
  absl::Status map_added(AddedSlots& added, std::uint32_t slot, InterruptCheck interrupt);

  absl::StatusOr<std::vector<SlotPlace>> map_all(Access access, InterruptCheck interrupt);

  const KnownArray& known_;
  const wire::BoardRecord& board_;
  MappingCache& mappings_;
  ImportCache& imports_;
  std::vector<std::shared_ptr<Mapping>> segments_;  // of the regular slots, of the host
  GpuArray* gpu_ = nullptr;                         // of a device's array
  absl::InlinedVector<Regular, 1> regular_;
  bool mapped_for_writing_ = false;
  absl::Status reach_;
  // Added slots are mapped, so that each read and write looks whether they have gone.
  std::atomic<bool> maps_added_{false};
  Lazily<Added> added_;
  Lazily<RegisteredSlots> registered_;
};

}  // namespace memlease::internal
