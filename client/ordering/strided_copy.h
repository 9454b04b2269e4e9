// Copies between layouts, of an array or a region of it and of C order. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "client/ordering/element_layout.h"

namespace memlease::internal {

// Rows of as many bytes, without gaps inside of a row and equally far from each other, on both
// sides of a copy. No pitch is smaller than a row.
struct Rows {
  std::size_t to = 0;  // of the first row, in bytes from the first byte of its side
  std::size_t from = 0;
  std::size_t bytes = 0;  // of one row
  std::size_t count = 1;
  std::size_t to_pitch = 0;  // from one row to the next
  std::size_t from_pitch = 0;
};

// Calls fn for all rows of a copy between two layouts of the same shape and element, as few times
// as there can be.
void for_each_rows(const ElementLayout& to, const ElementLayout& from,
                   absl::FunctionRef<void(const Rows&)> fn);
// `array` points to an array's first element, of all or some of which the layout is.
void copy_out(const ElementLayout& layout, const std::byte* array, std::byte* packed);
void copy_in(const ElementLayout& layout, const std::byte* packed, std::byte* array);

}  // namespace memlease::internal
