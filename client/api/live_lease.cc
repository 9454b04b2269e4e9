#include "client/api/live_lease.h"

#include "client/api/throw.h"
#include "client/arrays/pin.h"
#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::internal {

OpenArray& live_state(OpenArray* state, std::string_view end) {
  if (state == nullptr) {
    throw_error(wire::make_error(
        wire::ErrorCode::kClosed, fmt::format("this lease has ended: {}", end),
        "Take a new one. What is to outlive a lease is kept by what was made from it: in Python "
        "lease.array or a copy of it, in C++ lease.pin()."));
  }
  if (state->forked()) check(state->session().usable());
  return *state;
}

Pin pin_of(OpenArray& state, std::uint32_t slot, const std::byte* data,
           std::weak_ptr<const void>& known) {
  if (Pin pin = known.lock()) return pin;
  Pin pin = make_pin(state, slot, data);
  known = pin;
  return pin;
}

ElementLayout part_for_buffer(const OpenArray& array, const Region& region,
                              std::uint64_t size_bytes) {
  ElementLayout part = value_or_throw(layout_of(array.kind(), array.name(), region));
  const std::uint64_t expected = element_bytes(part);
  if (size_bytes == expected) return part;
  throw_error(
      wire::make_error(wire::ErrorCode::kInvalidArgument,
                       fmt::format("{}'{}' ({}) has {} bytes of elements, the buffer {}",
                                   region.axes().empty() ? "" : "the region of ", array.name(),
                                   wire::describe(array.kind()), expected, size_bytes),
                       "Give a C-ordered buffer of all elements."));
}

}  // namespace memlease::internal
