// Elements of another library in a GPU's memory, on their way into an array.
#pragma once

#include <string>
#include <vector>

#include "python/bindings/bindings.h"

namespace memlease::python {

struct PyGpuSource {
  std::string dtype;
  std::vector<std::int64_t> shape;
  GpuSource source;
};

// The last copy dies on any thread, with the GIL or without.
std::shared_ptr<const void> keep_alive(py::object object);

}  // namespace memlease::python
