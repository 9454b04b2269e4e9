#include "client/views/dlpack_view.h"

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "client/views/strides.h"

namespace memlease::views {
namespace {

// A tensor and all that its pointers point to.
template <typename Tensor>
struct Context {
  Tensor tensor{};
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  // in elements
  Pin pin;
};

template <typename Tensor>
void delete_context(Tensor* tensor) {
  delete static_cast<Context<Tensor>*>(tensor->manager_ctx);
}

std::int64_t size_of(const Block& block) {
  std::int64_t size = 1;
  for (const std::int64_t extent : block.shape) size *= extent;
  return size;
}

template <typename Tensor>
Tensor* export_block(Block block) {
  auto context = std::make_unique<Context<Tensor>>();
  context->strides = strides_in_elements(block.strides_bytes, block.dtype, "DLPack");
  DLTensor& tensor = context->tensor.dl_tensor;
  tensor.data = size_of(block) == 0 ? nullptr : block.data;
  context->shape = std::move(block.shape);
  context->pin = std::move(block.pin);
  tensor.device = block.device;
  tensor.ndim = static_cast<std::int32_t>(context->shape.size());
  tensor.dtype = {block.dtype.code, block.dtype.bits, block.dtype.lanes};
  tensor.shape = context->shape.data();
  tensor.strides = context->strides.data();
  tensor.byte_offset = 0;
  context->tensor.deleter = &delete_context<Tensor>;
  context->tensor.manager_ctx = context.get();
  return &context.release()->tensor;
}

// Copies the elements below `dim` one by one, in C order, and returns where the next one goes.
std::byte* copy_elements(const Block& block, std::size_t dim, const std::byte* from,
                         std::byte* to) {
  const std::size_t itemsize = block.dtype.itemsize_bytes();
  if (dim == block.shape.size()) {
    std::memcpy(to, from, itemsize);
    return to + itemsize;
  }
  for (std::int64_t i = 0; i < block.shape[dim]; ++i) {
    to = copy_elements(block, dim + 1, from + i * block.strides_bytes[dim], to);
  }
  return to;
}

}  // namespace

std::uint64_t size_bytes_of(const Block& block) {
  return static_cast<std::uint64_t>(size_of(block)) * block.dtype.itemsize_bytes();
}

Block make_block(DType dtype, std::vector<std::int64_t> shape) {
  Block block;
  block.dtype = dtype;
  block.shape = std::move(shape);
  block.copied = true;
  block.strides_bytes = c_order_strides(block.shape, dtype);
  constexpr std::align_val_t kAlignment{256};
  const std::shared_ptr<std::byte> bytes(
      static_cast<std::byte*>(::operator new(size_bytes_of(block), kAlignment)),
      [](std::byte* p) { ::operator delete(p, kAlignment); });
  block.data = bytes.get();
  block.pin = bytes;
  return block;
}

Block copy_of(const Block& block) {
  Block copy = make_block(block.dtype, block.shape);
  if (size_of(block) > 0) {
    if (copy.strides_bytes == block.strides_bytes) {
      std::memcpy(copy.data, block.data, size_bytes_of(block));
    } else {
      copy_elements(block, 0, static_cast<const std::byte*>(block.data),
                    static_cast<std::byte*>(copy.data));
    }
  }
  return copy;
}

DLManagedTensorVersioned* export_versioned(Block block) {
  const std::uint64_t flags = (block.readonly ? DLPACK_FLAG_BITMASK_READ_ONLY : 0UL) |
                              (block.copied ? DLPACK_FLAG_BITMASK_IS_COPIED : 0UL);
  DLManagedTensorVersioned* tensor = export_block<DLManagedTensorVersioned>(std::move(block));
  tensor->version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  tensor->flags = flags;
  return tensor;
}

DLManagedTensor* export_unversioned(Block block) {
  return export_block<DLManagedTensor>(std::move(block));
}

}  // namespace memlease::views
