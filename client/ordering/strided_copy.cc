#include "client/ordering/strided_copy.h"

#include <cstring>
#include <vector>

namespace memlease::internal {
namespace {

// How many inner dimensions stand in C order without gaps, and the bytes of one such block.
struct Block {
  std::size_t outer_dims = 0;
  std::size_t bytes = 0;
};

Block innermost_block(const wire::ArraySpec& spec, const std::vector<std::int64_t>& strides) {
  Block block{spec.shape.size(), spec.dtype.itemsize_bytes()};
  while (block.outer_dims > 0) {
    const std::size_t dim = block.outer_dims - 1;
    if (spec.shape[dim] != 1 && strides[dim] != static_cast<std::int64_t>(block.bytes)) break;
    block.bytes *= static_cast<std::size_t>(spec.shape[dim]);
    block.outer_dims = dim;
  }
  return block;
}

}  // namespace

void for_each_block(const wire::ArraySpec& spec,
                    absl::FunctionRef<void(std::size_t, std::size_t, std::size_t)> fn) {
  if (element_bytes(spec) == 0) return;
  const std::vector<std::int64_t> strides = wire::strides_bytes_of(spec);
  const Block block = innermost_block(spec, strides);
  std::vector<std::int64_t> index(block.outer_dims, 0);
  std::size_t packed = 0;
  for (;;) {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < block.outer_dims; ++i) offset += index[i] * strides[i];
    fn(static_cast<std::size_t>(offset), packed, block.bytes);
    packed += block.bytes;
    std::size_t dim = block.outer_dims;
    while (dim > 0 && ++index[dim - 1] == spec.shape[dim - 1]) index[--dim] = 0;
    if (dim == 0) return;
  }
}

std::uint64_t element_bytes(const wire::ArraySpec& spec) {
  std::uint64_t bytes = spec.dtype.itemsize_bytes();
  for (const std::int64_t extent : spec.shape) bytes *= static_cast<std::uint64_t>(extent);
  return bytes;
}

void copy_out(const wire::ArraySpec& spec, const std::byte* array, std::byte* packed) {
  for_each_block(spec, [&](std::size_t from, std::size_t to, std::size_t bytes) {
    std::memcpy(packed + to, array + from, bytes);
  });
}

void copy_in(const wire::ArraySpec& spec, const std::byte* packed, std::byte* array) {
  for_each_block(spec, [&](std::size_t to, std::size_t from, std::size_t bytes) {
    std::memcpy(array + to, packed + from, bytes);
  });
}

}  // namespace memlease::internal
