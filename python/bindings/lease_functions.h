// NumPy's functions with leases among what they read or write: they are given the leases' arrays.
#pragma once

#include <Python.h>

#include <algorithm>
#include <initializer_list>
#include <string>

#include "python/bindings/fastcall.h"
#include "python/bindings/lease_numbers.h"

namespace memlease::python {

// A ufunc, also with `out=lease`.
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

// What a function is given in place of this: leases may be in lists and tuples, too.
inline py::object without_leases(py::handle given, bool fills) {
  const bool is_list = PyList_Check(given.ptr()) != 0;
  if (!is_list && PyTuple_Check(given.ptr()) == 0) return operand(given.ptr(), fills);
  py::list items;
  for (const py::handle item : given) items.append(without_leases(item, false));
  if (is_list) return items;
  return py::tuple(items);
}

inline bool is_one_of(const std::string& name, std::initializer_list<const char*> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Of write leases: any other function of NumPy, as np.copyto(lease, x) and np.dot(a, b, out=lease),
// many of which take nothing but arrays. Read leases are taken by their buffers: what has this
// method is kept as it is by libraries that compute later, when the lease has ended.
inline PyObject* call_function(PyObject* /*self*/, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    if (count != 4) throw py::type_error("__array_function__() takes 4 arguments");
    const py::handle function(arguments[0]);
    const auto given = py::reinterpret_borrow<py::tuple>(arguments[2]);
    const auto keywords = py::reinterpret_borrow<py::dict>(arguments[3]);
    const auto name = py::getattr(function, "__name__").cast<std::string>();
    // They ask for attributes alone.
    if (is_one_of(name, {"shape", "ndim", "size", "iscomplexobj", "isrealobj"})) {
      const py::object plain = py::getattr(function, "_implementation");
      return PyObject_Call(plain.ptr(), given.ptr(), keywords.ptr());
    }
    // Of an array that is filled, or not looked into, the current bytes need not be there.
    const bool looks = !is_one_of(name, {"zeros_like", "ones_like", "empty_like", "full_like"});
    const bool fills = !keywords.contains("where");
    const bool copies = fills && given.size() < 4 && name == "copyto";
    const auto is_filled = [&](const py::handle keyword) {
      return fills && (keyword.equal(py::str("out")) || keyword.equal(py::str("dst")));
    };
    // What is filled comes last: until then its bytes are the current ones for what reads it, too.
    py::dict named;
    for (const auto& [keyword, value] : keywords) {
      if (!is_filled(keyword)) named[keyword] = without_leases(value, !looks);
    }
    py::tuple values(given.size());
    for (std::size_t i = values.size(); i-- > 0;) {
      values[i] = without_leases(given[i], !looks || (copies && i == 0));
    }
    for (const auto& [keyword, value] : keywords) {
      if (is_filled(keyword)) named[keyword] = without_leases(value, true);
    }
    return PyObject_Call(function.ptr(), values.ptr(), named.ptr());
  });
}

}  // namespace memlease::python
