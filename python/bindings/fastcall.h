// What entry points written against Python's C API need: the calls that loops make often, which
// pybind11's argument matching would slow down several times.
#pragma once

#include <span>
#include <type_traits>

#include "python/bindings/bindings.h"
#include "python/bindings/gil.h"

namespace memlease::python {

// For PyMethodDef, which knows one signature and a flag that tells which one is meant.
template <typename Result, typename... Arguments>
PyCFunction c_function(Result (*function)(Arguments...)) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

// Sets the Python error for the C++ exception that is being handled.
void set_current_error() noexcept;

// The result of `body`; if it throws, the Python error is set, and the C API's value for that
// returned.
template <typename Body>
auto guarded(Body&& body) noexcept {
  using Result = decltype(body());
  try {
    return unless_ended(body);
  } catch (...) {
    set_current_error();
    if constexpr (std::is_pointer_v<Result>) {
      return static_cast<Result>(nullptr);
    } else {
      return Result{-1};
    }
  }
}

// A call by METH_FASTCALL | METH_KEYWORDS.
struct FastCall {
  const char* function;
  PyObject* const* arguments;  // the positional ones, then those of `keywords`
  Py_ssize_t positional;
  PyObject* keywords;  // a tuple of names, or null

  // Fills `values` in the order of `parameters`, the first `most_positional` of which may go
  // without their name. Null for what was left out or is None. Throws TypeError.
  void bind(std::span<const char* const> parameters, Py_ssize_t most_positional,
            std::span<PyObject*> values) const;
};

// Borrowed objects; null gives the default. They throw TypeError and InvalidArgument.
std::uint64_t to_version(PyObject* value, const char* argument);  // default: 0
Timeout to_timeout(PyObject* seconds, const char* argument);      // a number of seconds, or None
Stream to_stream(PyObject* stream);  // as memlease.stream takes it; default: none

// Methods with signatures that inspect finds, which pybind11's have not. The table outlives `type`.
void add_methods(py::handle type, std::span<PyMethodDef> methods);

}  // namespace memlease::python
