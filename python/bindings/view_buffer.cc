// The buffer protocol of leases (PEP 3118).
#include <utility>

#include "python/bindings/view.h"

namespace memlease::python {
namespace {

// What a buffer's pointers point to, and its pin.
struct BufferContext {
  std::vector<Py_ssize_t> shape;
  std::vector<Py_ssize_t> strides;
  std::string format;
  Pin pin;
};

bool is_contiguous(const ArrayViews& array, char order) {
  Py_buffer buffer{};
  buffer.itemsize = array.dtype.itemsize_bytes();
  buffer.ndim = static_cast<int>(array.shape.size());
  buffer.shape = const_cast<Py_ssize_t*>(array.shape.data());
  buffer.strides = const_cast<Py_ssize_t*>(array.strides_bytes.data());
  buffer.len = buffer.itemsize;
  for (const std::int64_t extent : array.shape) buffer.len *= extent;
  return PyBuffer_IsContiguous(&buffer, order) != 0;
}

bool asks(int flags, int what) { return (flags & what) == what; }

void check_request(const ArrayViews& array, bool readonly, int flags) {
  if (buffer_format_of(array.dtype).empty()) {
    throw py::buffer_error("memlease: the buffer protocol has no " + name_of(array.dtype) +
                           "; take '" + array.name + "' by DLPack, as torch.from_dlpack(lease)");
  }
  if (readonly && asks(flags, PyBUF_WRITABLE)) {
    throw py::buffer_error("memlease: a read lease of '" + array.name +
                           "' gives no writable buffer; write the next version in write()");
  }
  const bool fits = (!asks(flags, PyBUF_C_CONTIGUOUS) || is_contiguous(array, 'C')) &&
                    (!asks(flags, PyBUF_F_CONTIGUOUS) || is_contiguous(array, 'F')) &&
                    (!asks(flags, PyBUF_ANY_CONTIGUOUS) || is_contiguous(array, 'A')) &&
                    (asks(flags, PyBUF_STRIDES) || is_contiguous(array, 'C'));
  if (!fits) {
    throw py::buffer_error("memlease: '" + array.name +
                           "' has other strides than this consumer can take; copy it first");
  }
}

}  // namespace

void LeaseViews::fill_buffer(void* data, Pin pin, py::handle exporter, Py_buffer* buffer,
                             int flags) {
  check_request(array_, readonly_, flags);
  auto context = std::make_unique<BufferContext>(
      BufferContext{{array_.shape.begin(), array_.shape.end()},
                    {array_.strides_bytes.begin(), array_.strides_bytes.end()},
                    buffer_format_of(array_.dtype),
                    counted(std::move(pin), &ExportCounts::buffers)});
  buffer->buf = data;
  buffer->itemsize = array_.dtype.itemsize_bytes();
  buffer->len = buffer->itemsize;
  for (const Py_ssize_t extent : context->shape) buffer->len *= extent;
  buffer->readonly = readonly_ ? 1 : 0;
  buffer->format = asks(flags, PyBUF_FORMAT) ? context->format.data() : nullptr;
  // Without extents it is a row of bytes, which hashlib, for one, requires.
  buffer->ndim = asks(flags, PyBUF_ND) ? static_cast<int>(context->shape.size()) : 1;
  buffer->shape = asks(flags, PyBUF_ND) ? context->shape.data() : nullptr;
  buffer->strides = asks(flags, PyBUF_STRIDES) ? context->strides.data() : nullptr;
  buffer->suboffsets = nullptr;
  buffer->internal = context.release();
  buffer->obj = exporter.inc_ref().ptr();
}

void release_buffer(PyObject* /*exporter*/, Py_buffer* buffer) {
  delete static_cast<BufferContext*>(buffer->internal);
}

}  // namespace memlease::python
