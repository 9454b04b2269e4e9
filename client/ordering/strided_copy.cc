#include "client/ordering/strided_copy.h"

#include <cstring>
#include <vector>

namespace memlease::internal {
namespace {

// The bytes that the innermost dimensions have without gaps on both sides, and how many dimensions
// are left.
struct Row {
  std::size_t bytes = 0;
  std::size_t outer_dims = 0;
};

Row longest_row(const ElementLayout& to, const ElementLayout& from) {
  Row row{to.itemsize, to.shape.size()};
  while (row.outer_dims > 0) {
    const std::size_t dim = row.outer_dims - 1;
    const auto next = static_cast<std::int64_t>(row.bytes);
    if (to.shape[dim] != 1 && (to.strides_bytes[dim] != next || from.strides_bytes[dim] != next)) {
      break;
    }
    row.bytes *= static_cast<std::size_t>(to.shape[dim]);
    row.outer_dims = dim;
  }
  return row;
}

void copy(const ElementLayout& to_layout, std::byte* to, const ElementLayout& from_layout,
          const std::byte* from) {
  for_each_rows(to_layout, from_layout, [&](const Rows& rows) {
    for (std::size_t i = 0; i < rows.count; ++i) {
      std::memcpy(to + rows.to + i * rows.to_pitch, from + rows.from + i * rows.from_pitch,
                  rows.bytes);
    }
  });
}

}  // namespace

void for_each_rows(const ElementLayout& to, const ElementLayout& from,
                   absl::FunctionRef<void(const Rows&)> fn) {
  if (element_bytes(to) == 0) return;
  const Row row = longest_row(to, from);
  Rows rows{0, 0, row.bytes, 1, row.bytes, row.bytes};
  std::size_t outer_dims = row.outer_dims;
  if (outer_dims > 0) {
    --outer_dims;
    rows.count = static_cast<std::size_t>(to.shape[outer_dims]);
    rows.to_pitch = static_cast<std::size_t>(to.strides_bytes[outer_dims]);
    rows.from_pitch = static_cast<std::size_t>(from.strides_bytes[outer_dims]);
  }
  std::vector<std::int64_t> index(outer_dims, 0);
  for (;;) {
    std::int64_t to_offset = to.offset_bytes;
    std::int64_t from_offset = from.offset_bytes;
    for (std::size_t i = 0; i < outer_dims; ++i) {
      to_offset += index[i] * to.strides_bytes[i];
      from_offset += index[i] * from.strides_bytes[i];
    }
    rows.to = static_cast<std::size_t>(to_offset);
    rows.from = static_cast<std::size_t>(from_offset);
    fn(rows);
    std::size_t dim = outer_dims;
    while (dim > 0 && ++index[dim - 1] == to.shape[dim - 1]) index[--dim] = 0;
    if (dim == 0) return;
  }
}

void copy_out(const ElementLayout& layout, const std::byte* array, std::byte* packed) {
  copy(packed_layout(layout), packed, layout, array);
}

void copy_in(const ElementLayout& layout, const std::byte* packed, std::byte* array) {
  copy(layout, array, packed_layout(layout), packed);
}

}  // namespace memlease::internal
