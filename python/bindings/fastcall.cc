#include "python/bindings/fastcall.h"

#include <cmath>
#include <limits>
#include <string>

#include "python/bindings/package_parts.h"

namespace memlease::python {
namespace {

py::type_error wrong_call(const char* function, const std::string& what) {
  return py::type_error(std::string(function) + "() " + what);
}

std::size_t index_of(PyObject* name, std::span<const char* const> parameters) {
  std::size_t index = 0;
  while (index < parameters.size() &&
         PyUnicode_CompareWithASCIIString(name, parameters[index]) != 0) {
    ++index;
  }
  return index;
}

// An argument of earlier versions says what has become of it, any other which ones there are.
std::string no_argument(PyObject* name, std::span<const char* const> parameters) {
  std::string what = "has no argument " + std::string(py::repr(name));
  if (PyUnicode_CompareWithASCIIString(name, "allow_pins") == 0) {
    return what + ": publishing never fails because of views any more, so leave it out";
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    what += (i == 0 ? "; it has " : ", ") + std::string(parameters[i]);
  }
  return what;
}

// Passes on what it has no Python error for, and what making one throws.
void set_error_of_current() {
  try {
    throw;
  } catch (const Error& error) {
    set_python_error(error);
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const py::builtin_exception& error) {
    error.set_error();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
}

}  // namespace

void set_current_error() noexcept {
  try {
    unless_ended(set_error_of_current);
  } catch (...) {
    PyErr_SetString(PyExc_SystemError,
                    "memlease: no Python error could be made of a C++ exception");
  }
}

void FastCall::bind(std::span<const char* const> parameters, Py_ssize_t most_positional,
                    std::span<PyObject*> values) const {
  if (positional > most_positional) {
    const auto next = static_cast<std::size_t>(most_positional);
    std::string what = "takes at most " + std::to_string(next) +
                       (next == 1 ? " positional argument" : " positional arguments");
    if (most_positional == 0) {
      what = parameters.empty() ? "takes no arguments" : "takes keyword arguments only";
    }
    if (next < parameters.size()) {
      what += ", for example " + std::string(parameters[next]) + "=...";
    }
    throw wrong_call(function, what);
  }
  const auto store = [&](std::size_t index, PyObject* value) {
    values[index] = Py_IsNone(value) != 0 ? nullptr : value;
  };
  for (Py_ssize_t i = 0; i < positional; ++i) store(static_cast<std::size_t>(i), arguments[i]);
  const Py_ssize_t named = keywords == nullptr ? 0 : PyTuple_GET_SIZE(keywords);
  for (Py_ssize_t i = 0; i < named; ++i) {
    PyObject* const name = PyTuple_GET_ITEM(keywords, i);
    const std::size_t index = index_of(name, parameters);
    if (index == parameters.size()) {
      throw wrong_call(function, no_argument(name, parameters));
    }
    if (index < static_cast<std::size_t>(positional)) {
      throw wrong_call(function, "got '" + std::string(parameters[index]) + "' twice");
    }
    store(index, arguments[positional + i]);
  }
}

std::uint64_t to_version(PyObject* value, const char* argument) {
  if (value == nullptr) return 0;
  const auto number = py::reinterpret_steal<py::object>(PyNumber_Index(value));
  if (!number) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw py::error_already_set();
    PyErr_Clear();
    throw py::type_error(std::string(argument) + "=" + std::string(py::repr(value)) +
                         " is not a version number: give an int, such as lease.version");
  }
  const std::uint64_t version = PyLong_AsUnsignedLongLong(number.ptr());
  if (PyErr_Occurred() == nullptr) return version;
  PyErr_Clear();  // an OverflowError
  throw InvalidArgument(
      std::string(argument) + "=" + std::string(py::repr(number)) + " is not a version number",
      "versions count from 1 and fit into 64 bits");
}

Stream to_stream(PyObject* stream) {
  if (stream == nullptr) return {};
  const py::object handle = package_parts().handle_of(py::reinterpret_borrow<py::object>(stream));
  return Stream::from_handle(handle.cast<std::uintptr_t>());
}

Timeout to_timeout(PyObject* seconds, const char* argument) {
  if (seconds == nullptr || Py_IsNone(seconds) != 0) return std::nullopt;
  double value = PyFloat_AsDouble(seconds);
  if (value == -1 && PyErr_Occurred() != nullptr) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) == 0 &&
        PyErr_ExceptionMatches(PyExc_OverflowError) == 0) {
      throw py::error_already_set();
    }
    PyErr_Clear();
    value = std::numeric_limits<double>::quiet_NaN();
  }
  if (std::isnan(value) || value < 0) {
    throw InvalidArgument(std::string(argument) + " must be a number of seconds, 0 or more, got " +
                              std::string(py::repr(seconds)),
                          "float('inf') means no end, and None the default");
  }
  const std::chrono::duration<double> length(value);
  constexpr std::chrono::duration<double> kLongest = std::chrono::hours(24 * 365 * 100);
  if (length >= kLongest) return kForever;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(length);
}

void add_methods(py::handle type, std::span<PyMethodDef> methods) {
  for (PyMethodDef& method : methods) {
    const auto added = py::reinterpret_steal<py::object>(
        PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(type.ptr()), &method));
    if (!added) throw py::error_already_set();
    type.attr(method.ml_name) = added;
  }
}

}  // namespace memlease::python
