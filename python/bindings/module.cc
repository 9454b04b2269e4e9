#include "python/bindings/bindings.h"
#include "python/bindings/package_parts.h"

PYBIND11_MODULE(_core, module) {
  using namespace memlease::python;
  module.doc() = "memlease's C++ client for Python; use the package memlease.";
  module.attr("__version__") = MEMLEASE_VERSION;
  bind_package_parts(module);
  bind_errors(module);
  bind_views(module);
  bind_dlpack(module);
  bind_leases(module);
  bind_follower(module);
  bind_arrays(module);
  bind_clients(module);
  bind_imports(module);
  bind_sycl_usm(module);
}
