// What people want to know: who holds which bytes since when. Read from the clients' own pages, so
// it costs them nothing, and it is as true as they are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/core/broker.h"

namespace memlease::server {

struct HolderReport {
  const Session* session = nullptr;
  const Array* array = nullptr;
  std::vector<std::uint64_t> versions;  // that it reads now
  bool writer = false;
  bool writing = false;
  bool subscribed = false;
  std::uint64_t since_unix_ms = 0;
};

struct ArrayReport {
  std::uint64_t version = 0;
  std::uint32_t readers = 0;  // sessions that hold a slot now
  std::uint32_t subscribers = 0;
  std::uint32_t held_slots = 0;       // by readers
  std::uint64_t empty_writes = 0;     // that ended without anybody having asked for their bytes
  std::uint64_t copied_versions = 0;  // that were brought here from the array's other places
  const Session* writer = nullptr;    // nullptr = the array has none
  std::vector<std::uint64_t> slot_versions;
};

// Bit s: some reader holds slot s.
std::uint64_t held_slots_of(const Broker& broker, const Array& array);
std::uint64_t current_version(const Broker& broker, const Array& array);  // 0 = none
std::vector<HolderReport> holders_of(const Broker& broker, const Array& array);
ArrayReport report_of(const Broker& broker, const Array& array);

}  // namespace memlease::server
