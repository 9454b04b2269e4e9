// The events of an array's slots, or of a reader's row, by the slot: those of the regular slots
// from the start, those of added slots from this process's first use of a slot of that number. They
// stay until the end, also where the slot has gone.
//
// Thread-safe. Who holds a slot, or has marked it, finds its event without a lock.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "client/ordering/importer.h"
#include "client/ordering/row_events.h"
#include "wire/session_pages.h"

namespace memlease::internal {

class EventTable {
 public:
  EventTable() = default;
  explicit EventTable(RowEvents regular) { start(std::move(regular)); }
  ~EventTable() {
    for (auto& event : events_) delete event.load();
  }
  EventTable(const EventTable&) = delete;
  EventTable& operator=(const EventTable&) = delete;

  // Once, before the first find().
  void start(RowEvents regular) {
    for (std::size_t slot = 0; slot < regular.size(); ++slot) {
      events_[slot].store(regular[slot].release());
    }
  }
  // Of an added slot. Where another thread was faster its event stays, and this one is closed.
  void add(std::uint32_t slot, std::unique_ptr<DeviceEvent> event) {
    DeviceEvent* none = nullptr;
    if (events_[slot].compare_exchange_strong(none, event.get())) {
      static_cast<void>(event.release());
    }
  }
  // nullptr: this process has not used the slot.
  DeviceEvent* find(std::uint32_t slot) const { return events_[slot].load(); }

 private:
  std::array<std::atomic<DeviceEvent*>, wire::kMaxSlots> events_{};
};

}  // namespace memlease::internal
