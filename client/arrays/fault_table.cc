#include "client/arrays/fault_table.h"

#include <array>
#include <atomic>
#include <cstddef>

namespace memlease::internal {
namespace {

constexpr std::size_t kEntries = 4096;
// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): a handler has no other way
constinit std::array<std::atomic<const FaultTable::Array*>, kEntries> entries{};
constinit std::atomic<std::size_t> next_entry{0};  // where a free one is likely
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

}  // namespace

void FaultTable::add(const Array& array) {
  const std::size_t first = next_entry.fetch_add(1, std::memory_order_relaxed);
  for (std::size_t i = 0; i < kEntries; ++i) {
    const Array* expected = nullptr;
    if (entries[(first + i) % kEntries].compare_exchange_strong(expected, &array)) return;
  }
}

void FaultTable::remove(const Array& array) {
  for (auto& entry : entries) {
    const Array* expected = &array;
    if (entry.compare_exchange_strong(expected, nullptr)) return;
  }
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
