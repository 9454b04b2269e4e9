// What people want to know: who holds which bytes since when. Read from the clients' own pages, so
// it costs them nothing, and it is as true as they are.
//
// Called by the services, the line for systemctl status and the metrics, with the core under the
// daemon's mutex. Changes nothing, makes no call and cannot fail. `array` is one of the broker's
// catalog. Clients go on meanwhile: what one report says of several words need not have been true
// at one moment. Pointers in a report are into the broker, and valid until that is called again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/core/broker.h"

namespace memlease::server {

// What one session has of an array. It is among the holders as long as it has the array open, also
// where it holds nothing now.
struct HolderReport {
  const Session* session = nullptr;
  const Array* array = nullptr;
  std::vector<std::uint64_t> versions;  // that it reads now, ascending
  bool writer = false;                  // it has writer ownership
  bool writing = false;                 // between begin and end of a write
  bool subscribed = false;              // it is on the board's list of readers
  std::uint64_t since_unix_ms = 0;      // when it opened the array
};

struct ArrayReport {
  std::uint64_t version = 0;          // the current one; 0 = none
  std::uint32_t readers = 0;          // sessions that hold a slot now
  std::uint32_t subscribers = 0;      // sessions on the board's list of readers
  std::uint32_t held_slots = 0;       // by readers
  std::uint64_t empty_writes = 0;     // that ended without anybody having asked for their bytes
  std::uint64_t copied_versions = 0;  // that were brought here from the array's other places
  const Session* writer = nullptr;    // nullptr = the array has none
  std::vector<std::uint64_t> slot_versions;  // by slot; 0 = none
};

// Bit s: some reader holds slot s.
std::uint64_t held_slots_of(const Broker& broker, const Array& array);
std::uint64_t current_version(const Broker& broker, const Array& array);  // 0 = none
// One for each session that has the array open.
std::vector<HolderReport> holders_of(const Broker& broker, const Array& array);
ArrayReport report_of(const Broker& broker, const Array& array);

}  // namespace memlease::server
