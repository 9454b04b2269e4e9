// What read and write leases have in common.
#pragma once

#include <memlease/lease.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "client/arrays/open_array.h"
#include "client/ordering/element_layout.h"

namespace memlease::internal {

// The array of a lease that has not ended, in the process that took it. `end`: what ends one.
OpenArray& live_state(OpenArray* state, std::string_view end);

// One pin a lease is enough: its copies count themselves.
Pin pin_of(OpenArray& state, std::uint32_t slot, const std::byte* data,
           std::weak_ptr<const void>& known);

// A region, for a copy to or from a buffer of so many bytes; throws InvalidArgument.
ElementLayout part_for_buffer(const OpenArray& array, const Region& region,
                              std::uint64_t size_bytes);

// For destructors. What an exception says is lost: the lease has ended all the same.
template <typename End>
void quietly(End end) noexcept {
  try {
    end();
  } catch (...) {
    return;
  }
}

}  // namespace memlease::internal
