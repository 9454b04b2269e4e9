// DLPack exports of leased memory. Nothing here knows Python: a tensor's context holds a
// memlease::Pin, so its deleter may run on any thread, without the GIL, and after the interpreter.
#pragma once

#include <dlpack/dlpack.h>
#include <memlease/dtype.h>
#include <memlease/lease.h>

#include <cstdint>
#include <vector>

static_assert(DLPACK_MAJOR_VERSION == 1 && DLPACK_MINOR_VERSION >= 1,
              "memlease needs dlpack.h 1.1 or a later 1.x: it brings the float8 types");

namespace memlease::views {

// Elements in memory, and what keeps them there.
struct Block {
  void* data = nullptr;  // first element
  DLDevice device = {kDLCPU, 0};
  DType dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides_bytes;
  bool readonly = false;
  bool copied = false;  // made for this export alone
  Pin pin;
};

// A new block in host memory, in C order, writable, owned by its pin alone. `copied` is set: its
// maker is to fill it.
Block make_block(DType dtype, std::vector<std::int64_t> shape);
std::uint64_t size_bytes_of(const Block& block);  // of its elements
// Such a block with the elements of `block`, which is in host memory, too.
Block copy_of(const Block& block);

// Both own the block's pin until their deleter runs, once. They throw memlease::Error Unsupported
// where a stride is no multiple of the element (DLPack counts strides in elements).
DLManagedTensorVersioned* export_versioned(Block block);
// This form cannot say "read-only": the caller answers for that.
DLManagedTensor* export_unversioned(Block block);

}  // namespace memlease::views
