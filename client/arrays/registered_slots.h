// The slots of a host array that this process copies to and from on GPUs, with their pages
// registered for that: a copy on a device then has no detour by pageable memory, and does not block
// inside of the driver. Each slot is registered at its first copy and stays so until it, or the
// array, goes: registering takes longer than a copy.
//
// What is registered is one more mapping of the slot. The addresses that leases get will not do:
// their pages may be replaced under a view, or protected, and a device would go on with the old
// ones. Both directions use the one mapping, so that a slot is locked once.
//
// Thread-safe; pages are mapped and registered without the lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "client/arrays/slot_place.h"
#include "client/ordering/gpu_use.h"
#include "client/ordering/importer.h"
#include "wire/ids.h"
#include "wire/mutex.h"

namespace memlease::internal {

// A slot's bytes for one copy on a device: until this is given up, which is when the copy has been
// seen to be done, the pages stay registered. Not to be given up under a mutex.
using RegisteredBytes = std::shared_ptr<std::byte>;

class RegisteredSlots {
 public:
  // Smaller slots are copied as they are: the driver moves so few bytes by itself.
  static constexpr std::uint64_t kSmallestBytes = std::uint64_t{64} << 10;
  // A slot is registered whole, which reads and locks all its pages: not for a copy of less than
  // one byte in so many.
  static constexpr std::uint64_t kMostOfOne = 4;

  struct Slot {
    std::uint32_t number = 0;
    std::uint64_t place_word = 0;  // of an added one, the board's; 0: a regular one
    wire::FileId file{0};
    SlotPlace at;
    std::uint64_t size_bytes = 0;
  };
  // For a copy of so many bytes from the slot, which somebody of this process holds, or `to` it,
  // which is in writing. nullptr: copy by the address that leases get, as the slot is small, or is
  // not registered yet and the copy is of a small part of it, or it cannot be registered: there is
  // no room to map it once more, or the driver refuses. That is not tried again; `refused`: it was
  // for the first time.
  RegisteredBytes begin_copy(const Slot& slot, bool to, std::uint64_t copied_bytes,
                             Importer& importer, bool& refused) ABSL_LOCKS_EXCLUDED(mutex_);

  // Forgets the slots from this number on, and gives them away, for ImportCache::close_later().
  // Nobody holds them any more.
  OpenMemory forget_from(std::uint32_t number) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Registered;
  struct Known {
    std::uint64_t place_word = 0;
    std::shared_ptr<const Registered> pages;
  };
  std::shared_ptr<const Registered> find(const Slot& slot, bool& given_up);
  void keep(const Slot& slot, std::shared_ptr<const Registered> made);
  bool give_up();

  wire::Mutex mutex_;
  std::map<std::uint32_t, Known> known_ ABSL_GUARDED_BY(mutex_);  // by numbers
  OpenMemory of_nobody_ ABSL_GUARDED_BY(mutex_);                  // which no copy finds any more
  bool given_up_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace memlease::internal
