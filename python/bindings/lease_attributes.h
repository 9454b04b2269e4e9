// NumPy's attributes that leases have, too, as those of their array; and what leases answer where
// they cannot do as asked.
#pragma once

#include <Python.h>

#include <array>
#include <string>
#include <string_view>

#include "python/bindings/fastcall.h"
#include "python/bindings/lease.h"
#include "python/bindings/lease_numbers.h"

namespace memlease::python {

// Those that people and libraries ask an array for first.
inline constexpr std::array kOfArray{
    "T",      "all",          "any",     "argmax", "argmin",   "argpartition", "argsort",
    "astype", "byteswap",     "choose",  "clip",   "compress", "conj",         "conjugate",
    "copy",   "ctypes",       "cumprod", "cumsum", "diagonal", "dot",          "flags",
    "flat",   "flatten",      "imag",    "item",   "itemsize", "max",          "mean",
    "min",    "nonzero",      "prod",    "ravel",  "real",     "repeat",       "reshape",
    "round",  "searchsorted", "squeeze", "std",    "strides",  "sum",          "swapaxes",
    "take",   "tobytes",      "tofile",  "tolist", "trace",    "transpose",    "var",
    "view"};
// Of write leases alone: what changes all of it in place.
inline constexpr std::array kInPlace{"fill", "partition", "sort"};
// Those of write leases that may be assigned to, as `lease.real = x`.
inline constexpr std::array kAssignable{"flat", "imag", "real"};

// `name`: one of these. AttributeError for a lease of a GPU, as libraries look what there is.
template <typename Lease>
PyObject* get_of_array(PyObject* self, void* name) {
  return guarded([&] {
    try {
      const std::string_view wanted = static_cast<const char*>(name);
      auto& lease = lease_of<Lease>(self);
      if (wanted == "itemsize") return PyLong_FromLong(lease.array().dtype.itemsize_bytes());
      if (wanted == "strides") {
        return py::tuple(py::cast(lease.array().strides_bytes)).release().ptr();
      }
      const bool reads = wanted != "fill" && wanted != "flags";
      const py::object& elements = reads ? lease.elements() : lease.numpy();
      return PyObject_GetAttrString(elements.ptr(), static_cast<const char*>(name));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::Unsupported) throw;
      throw py::attribute_error(std::string(static_cast<const char*>(name)) + ": " + error.what());
    }
  });
}

inline int set_of_array(PyObject* self, PyObject* value, void* name) {
  return guarded([&] {
    const py::object& elements = lease_of<WriteLease>(self).elements();
    if (PyObject_SetAttrString(elements.ptr(), static_cast<const char*>(name), value) != 0) {
      throw py::error_already_set();
    }
    return 0;
  });
}

template <typename Lease>
PyObject* to_bytes(PyObject* self, PyObject* /*nothing*/) {
  return guarded([&] {
    return PyObject_CallMethod(lease_of<Lease>(self).elements().ptr(), "tobytes", nullptr);
  });
}

// With a format, of its elements: NumPy takes one for an array without axes.
template <typename Lease>
PyObject* format(PyObject* self, PyObject* format) {
  return guarded([&] {
    if (PyUnicode_Check(format) != 0 && PyUnicode_GET_LENGTH(format) == 0) {
      return PyObject_Str(self);
    }
    return PyObject_Format(lease_of<Lease>(self).elements().ptr(), format);
  });
}

// For copy.copy() and copy.deepcopy(), which Matplotlib's set_ydata() calls, and which would ask
// pickle without these: a NumPy array.
template <typename Lease>
PyObject* copy_elements(PyObject* self, PyObject* /*memo*/) {
  return guarded(
      [&] { return PyObject_CallMethod(lease_of<Lease>(self).elements().ptr(), "copy", nullptr); });
}

inline PyObject* refuse_pickle(PyObject* /*self*/, PyObject* /*protocol*/) {
  PyErr_SetString(PyExc_TypeError,
                  "a lease belongs to its process and cannot be pickled: pickle the array handle "
                  "and call read() on it there, or pickle lease.array.copy()");
  return nullptr;
}

// A read lease's elements are those of a version, which never change.
inline int refuse_item(PyObject* /*self*/, PyObject* /*key*/, PyObject* /*value*/) {
  PyErr_SetString(PyExc_ValueError,
                  "assignment destination is read-only: a published version does not change; write "
                  "the next one, as by: with array.update() as lease: lease[0] = x");
  return -1;
}

// A write lease has no buffer. NumPy asks for one first, forgets this error, and takes __array__.
inline int refuse_buffer(PyObject* /*self*/, Py_buffer* buffer, int /*flags*/) {
  buffer->obj = nullptr;
  PyErr_SetString(PyExc_BufferError,
                  "a write lease gives no buffer by itself: take lease.memoryview(), or give "
                  "lease.array");
  return -1;
}

}  // namespace memlease::python
