#include "server/core/event_set.h"

namespace memlease::server {

EventSet::EventSet(DeviceBackend& backend, FileTable& files, wire::FileRange at,
                   std::uint32_t slots)
    : backend_(&backend),
      at_(at),
      words_(reinterpret_cast<const wire::EventWords*>(files.data(at))),
      slots_(slots) {
  files.never_revoke(at.file);
}

bool EventSet::complete(std::uint32_t slot) const {
  if (empty()) return true;
  if (!words_[slot].is_complete()) return false;
  backend_->checker_saw(words_[slot].complete);
  return true;
}

std::uint64_t EventSet::incomplete() const {
  static_assert(wire::kMaxSlots <= 64);
  std::uint64_t slots = 0;
  for (std::uint32_t slot = 0; slot < slots_; ++slot) {
    slots |= std::uint64_t{!complete(slot)} << slot;
  }
  return slots;
}

bool EventSet::any_lost() const {
  for (std::uint32_t slot = 0; slot < slots_; ++slot) {
    if (words_[slot].is_lost()) return true;
  }
  return false;
}

void EventSet::release(const FileTable& files) const {
  if (all_complete()) return;
  files.change(at_, [&](std::byte* bytes) {
    auto* const words = reinterpret_cast<wire::EventWords*>(bytes);
    for (std::uint32_t slot = 0; slot < slots_; ++slot) {
      words[slot].complete.store(words[slot].recorded.load());
    }
  });
}

}  // namespace memlease::server
