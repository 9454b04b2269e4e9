#include "client/arrays/fault_table.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <utility>

namespace memlease::internal {
namespace {

constexpr std::uint32_t kEntries = 4096;
// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): a handler has no other way
constinit std::array<std::atomic<const FaultTable::Array*>, kEntries> entries{};
constinit std::atomic<std::uint32_t> next_entry{0};  // where a free one is likely
// And what threads are about to take: who finds as many looks for none.
constinit std::atomic<std::uint32_t> taken_entries{0};
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

}  // namespace

void FaultTable::add(Array& array) {
  if (taken_entries.fetch_add(1) < kEntries) {
    const std::uint32_t first = next_entry.fetch_add(1, std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < kEntries; ++i) {
      const std::uint32_t at = (first + i) % kEntries;
      const Array* free = entries[at].load(std::memory_order_relaxed);
      if (free != nullptr || !entries[at].compare_exchange_strong(free, &array)) continue;
      array.entry_ = at;
      return;
    }
  }
  taken_entries.fetch_sub(1);
}

void FaultTable::remove(Array& array) {
  if (array.entry_ == kNone) return;
  entries[std::exchange(array.entry_, kNone)].store(nullptr);
  taken_entries.fetch_sub(1);
}

FaultTable::Place FaultTable::find(const void* address) {
  for (const auto& entry : entries) {
    Place place;
    if (const Array* const array = entry.load(); array != nullptr) {
      if (array->find_place(address, place)) return place;
    }
  }
  return {};
}

}  // namespace memlease::internal
