#include "python/bindings/cuda_array.h"
#include "python/bindings/fastcall.h"
#include "python/bindings/view.h"

namespace memlease::python {
namespace {

int get_bytes(PyObject* self, Py_buffer* buffer, int flags) {
  const auto& bytes = *py::cast<const SlotBytes*>(py::handle(self));
  if (bytes.idle) {
    PyErr_SetString(PyExc_BufferError, "memlease: the lease of these bytes has ended");
    return -1;
  }
  return PyBuffer_FillInfo(buffer, self, bytes.data, static_cast<Py_ssize_t>(bytes.size_bytes),
                           bytes.readonly ? 1 : 0, flags);
}

int get_lease_buffer(PyObject* self, Py_buffer* buffer, int flags) {
  buffer->obj = nullptr;
  return guarded([&] {
    py::cast<const LeaseBuffer&>(py::handle(self)).fill(self, buffer, flags);
    return 0;
  });
}

// For who expects the pair (address, readonly) as "data" of __array_interface__.
void refuse_pair(const py::args& /*arguments*/) {
  throw py::type_error(
      "\"data\" of a lease's __array_interface__ is a buffer, which keeps the bytes as an address "
      "could not; the address is lease.ctypes.data");
}

}  // namespace

void bind_views(py::module_& module) {
  py::class_<SlotBytes> bytes(module, "SlotBytes",
                              py::custom_type_setup([](PyHeapTypeObject* type) {
                                type->ht_type.tp_as_buffer = &type->as_buffer;
                                type->as_buffer.bf_getbuffer = &get_bytes;
                              }),
                              "The bytes of one slot, pinned: the base of NumPy arrays over it.");
  bytes.def("__getitem__", &refuse_pair, "TypeError: it is a buffer.")
      .def("__iter__", &refuse_pair, "TypeError: it is a buffer.");
  const py::class_<LeaseBuffer> buffer(module, "LeaseBuffer",
                                       py::custom_type_setup([](PyHeapTypeObject* type) {
                                         type->ht_type.tp_as_buffer = &type->as_buffer;
                                         type->as_buffer.bf_getbuffer = &get_lease_buffer;
                                         type->as_buffer.bf_releasebuffer = &release_buffer;
                                       }),
                                       "A lease for consumers of the buffer protocol.");
  py::class_<CudaArraySource>(module, "CudaArraySource",
                              "A lease for consumers of the CUDA array interface, with options.")
      .def_property_readonly("__cuda_array_interface__", &CudaArraySource::interface,
                             "As a lease's, by the options of `cuda_array`.");
}

}  // namespace memlease::python
