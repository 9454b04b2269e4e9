// Copies between an array's layout and plain C order. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "wire/array_spec.h"

namespace memlease::internal {

// Bytes of all elements, without gaps.
std::uint64_t element_bytes(const wire::ArraySpec& spec);
// Calls fn(offset in the array, offset in the packed bytes, bytes) for each block that has no gaps
// in either.
void for_each_block(const wire::ArraySpec& spec,
                    absl::FunctionRef<void(std::size_t, std::size_t, std::size_t)> fn);
// `array` points to the first element.
void copy_out(const wire::ArraySpec& spec, const std::byte* array, std::byte* packed);
void copy_in(const wire::ArraySpec& spec, const std::byte* packed, std::byte* array);

}  // namespace memlease::internal
