// Where an array, or a region of it, has its elements. Pure functions.
#pragma once

#include <memlease/region.h>

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "wire/array_spec.h"

namespace memlease::internal {

// Of all elements of an array of a valid kind.
ElementLayout layout_of(const wire::ArrayKind& kind);
// Of a region of it. kInvalidArgument: it does not fit, which says the array's name.
absl::StatusOr<ElementLayout> layout_of(const wire::ArrayKind& kind, std::string_view name,
                                        const Region& region);

// Of the same elements in C order without gaps, from the first byte on.
ElementLayout packed_layout(const ElementLayout& layout);
// Bytes of all elements, without gaps.
std::uint64_t element_bytes(const ElementLayout& layout);
// Bytes from the first element to the end of the last one; 0 if there is none.
std::uint64_t extent_bytes(const ElementLayout& layout);
// Of the same shape: are the elements as far from each other?
bool same_strides(const ElementLayout& a, const ElementLayout& b);

}  // namespace memlease::internal
