#include "python/bindings/bindings.h"
#include "python/bindings/package_parts.h"

// What Python calls, where it stands here for a name that is given to pybind11's: that would wait
// in a subinterpreter for the lock that it holds itself.
#define PyInit__core init_in_main_interpreter
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
#undef PyInit__core

// NOLINTNEXTLINE(bugprone-reserved-identifier): Python wants this name
extern "C" PYBIND11_EXPORT PyObject* PyInit__core() {
  if (PyInterpreterState_Get() == PyInterpreterState_Main()) return init_in_main_interpreter();
  PyErr_SetString(PyExc_ImportError,
                  "memlease cannot be used in a subinterpreter: import it in the main interpreter, "
                  "or in a process of its own");
  return nullptr;
}
