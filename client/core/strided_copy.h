// Copies between an array's layout and plain C order. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "proto/wire/array_spec.h"

namespace memlease::internal {

// Bytes of all elements, without gaps.
std::uint64_t element_bytes(const wire::ArraySpec& spec);
// `array` points to the first element.
void copy_out(const wire::ArraySpec& spec, const std::byte* array, std::byte* packed);
void copy_in(const wire::ArraySpec& spec, const std::byte* packed, std::byte* array);

}  // namespace memlease::internal
