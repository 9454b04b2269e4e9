// What makes a lease array-like to NumPy, pandas, PyArrow and JAX beside the protocols of its
// bytes: its extents, its dtype, length and iteration. None of it needs the lease to be live, but
// for the iteration's steps.
#pragma once

#include <Python.h>

#include <cstring>

#include "python/bindings/fastcall.h"
#include "python/bindings/lease.h"
#include "python/bindings/package_parts.h"

namespace memlease::python {

template <typename Lease>
const std::vector<std::int64_t>& shape_of(PyObject* self) {
  return lease_of<Lease>(self).array().shape;
}

template <typename Lease>
std::int64_t size_of(PyObject* self) {
  std::int64_t size = 1;
  for (const std::int64_t extent : shape_of<Lease>(self)) size *= extent;
  return size;
}

template <typename Lease>
PyObject* get_ndim(PyObject* self, void* /*closure*/) {
  return PyLong_FromSize_t(shape_of<Lease>(self).size());
}

template <typename Lease>
PyObject* get_size(PyObject* self, void* /*closure*/) {
  return PyLong_FromLongLong(size_of<Lease>(self));
}

template <typename Lease>
PyObject* get_nbytes(PyObject* self, void* /*closure*/) {
  const std::uint32_t itemsize = lease_of<Lease>(self).array().dtype.itemsize_bytes();
  return PyLong_FromLongLong(size_of<Lease>(self) * itemsize);
}

// NumPy's dtype, or the name where nothing installed has that type: as Array.dtype.
template <typename Lease>
PyObject* get_dtype(PyObject* self, void* /*closure*/) {
  return guarded([&] {
    return package_parts().dtype_for_users(lease_of<Lease>(self).dtype()).release().ptr();
  });
}

template <typename Lease>
int set_array(PyObject* self, PyObject* value, void* /*closure*/) {
  return guarded([&] {
    if (value == nullptr) throw py::attribute_error("the array of a lease cannot be deleted");
    lease_of<Lease>(self).set_array_attribute(value);
    return 0;
  });
}

template <typename Lease>
Py_ssize_t length(PyObject* self) {
  const auto& shape = shape_of<Lease>(self);
  if (!shape.empty()) return static_cast<Py_ssize_t>(shape.front());
  PyErr_SetString(PyExc_TypeError, "a lease of one element without axes has no length");
  return -1;
}

// A lease is true as any object that is there: its length has no say. But of one element its value
// may be meant, as in `while not stop.read()`, which would go on for ever.
template <typename Lease>
int truth(PyObject* self) {
  if (size_of<Lease>(self) != 1) return 1;
  PyErr_SetString(PyExc_ValueError,
                  "the truth of a lease of one element is ambiguous: lease.item() is its value, "
                  "and `lease is not None` tells whether there is one");
  return -1;
}

// A mask would be lost. NumPy's classes of masked arrays are known by their name, as it may not be
// loaded.
inline bool is_masked(PyObject* source) {
  const py::handle bases(Py_TYPE(source)->tp_mro);
  for (const py::handle base : py::reinterpret_borrow<py::tuple>(bases)) {
    const auto* const type = reinterpret_cast<PyTypeObject*>(base.ptr());
    if (std::strcmp(type->tp_name, "MaskedArray") == 0) return true;
  }
  return false;
}

inline void refuse_mask(PyObject* source) {
  if (source == nullptr || Py_TYPE(source)->tp_base == nullptr || PyFloat_CheckExact(source) ||
      PyLong_CheckExact(source) || !is_masked(source)) {
    return;
  }
  throw InvalidArgument("the source is a masked array, and memlease keeps no masks",
                        "give source.filled(value)");
}

}  // namespace memlease::python
