// The CUDA array interface with options.
#pragma once

#include <functional>
#include <utility>

#include "python/bindings/bindings.h"

namespace memlease::python {

// A lease as a producer of the interface, which it makes at each access. Under the GIL.
class CudaArraySource {
 public:
  // `make` holds the lease's Python object.
  explicit CudaArraySource(std::function<py::dict()> make) : make_(std::move(make)) {}
  py::dict interface() const { return make_(); }

 private:
  std::function<py::dict()> make_;
};

}  // namespace memlease::python
