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
    "T",      "all",     "any",     "argmax",  "argmin",  "astype", "clip",      "copy",
    "cumsum", "dot",     "flat",    "flatten", "imag",    "item",   "itemsize",  "max",
    "mean",   "min",     "nonzero", "prod",    "ravel",   "real",   "reshape",   "round",
    "std",    "squeeze", "sum",     "strides", "tobytes", "tolist", "transpose", "var"};

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
      const py::object& elements = wanted == "fill" ? lease.numpy() : lease.elements();
      return PyObject_GetAttrString(elements.ptr(), static_cast<const char*>(name));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::Unsupported) throw;
      throw py::attribute_error(std::string(static_cast<const char*>(name)) + ": " + error.what());
    }
  });
}

// NumPy's functions with a lease among what they read or write (`out=lease`): with its array.
inline PyObject* call_ufunc(PyObject* /*self*/, PyObject* arguments, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    const py::args given = py::reinterpret_borrow<py::args>(arguments);
    if (given.size() < 2) throw py::type_error("__array_ufunc__() takes a ufunc and its method");
    py::tuple inputs(given.size() - 2);
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = operand(given[i + 2].ptr());
    py::dict options;
    const bool fills = keywords == nullptr || PyDict_GetItemString(keywords, "where") == nullptr;
    if (keywords != nullptr) {
      for (const auto& [name, value] : py::reinterpret_borrow<py::dict>(keywords)) {
        if (!py::isinstance<py::tuple>(value)) {
          options[name] = operand(value.ptr());
          continue;
        }
        const auto outputs = py::reinterpret_borrow<py::tuple>(value);
        py::tuple arrays(outputs.size());
        for (std::size_t i = 0; i < arrays.size(); ++i) {
          arrays[i] = operand(outputs[i].ptr(), fills);
        }
        options[name] = arrays;
      }
    }
    const py::object method = py::getattr(given[0], given[1]);
    return PyObject_Call(method.ptr(), inputs.ptr(), options.ptr());
  });
}

template <typename Lease>
PyObject* to_bytes(PyObject* self, PyObject* /*nothing*/) {
  return guarded([&] {
    return PyObject_CallMethod(lease_of<Lease>(self).elements().ptr(), "tobytes", nullptr);
  });
}

// For pickle and copy.
inline PyObject* refuse_pickle(PyObject* /*self*/, PyObject* /*protocol*/) {
  PyErr_SetString(
      PyExc_TypeError,
      "a lease belongs to its process and cannot be pickled or copied: pickle the array "
      "handle and call read() on it there, or take lease.array.copy()");
  return nullptr;
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
