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

}  // namespace memlease::python
