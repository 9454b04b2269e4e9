// NumPy arrays over memory of ours, made by NumPy's C API. py::array would look that up without the
// GIL for a moment, in a destructor: a thread whom the interpreter's end meets there cannot be
// unwound, and the process aborts.
#pragma once

#include <cstdint>
#include <vector>

#include "python/bindings/bindings.h"

namespace memlease::python {

// Over `data`, which lives as long as `base`: writable, unless that is an array that is not.
// `strides` are in bytes. Imports NumPy. Throws what that and NumPy raise.
py::object numpy_array(const py::object& dtype, const std::vector<std::int64_t>& shape,
                       const std::vector<std::int64_t>& strides, const void* data,
                       const py::object& base);

// Has an array of NumPy's exactly this dtype, as the same object, and this shape?
bool has_dtype_and_shape(PyObject* array, const py::object& dtype,
                         const std::vector<std::int64_t>& shape);
// The elements of an array of NumPy's own class, not a subclass, that is in C order without gaps
// and has exactly this dtype and shape: they can be copied as they are. Null data for anything
// else.
struct PackedElements {
  void* data = nullptr;
  std::uint64_t size_bytes = 0;
  bool writable = false;
};
PackedElements packed_elements(PyObject* object, const py::object& dtype,
                               const std::vector<std::int64_t>& shape, std::uint64_t size_bytes);
// Is it an array of NumPy's own class? Imports nothing.
bool is_numpy_array(PyObject* object);

}  // namespace memlease::python
