#include <exception>
#include <utility>

#include "python/bindings/package_parts.h"

namespace memlease::python {
void set_python_error(const Error& error) {
  try {
    const py::object type = package_parts().error_types[py::int_(static_cast<int>(error.code()))];
    py::set_error(type, type(error.message(), error.hint()));
  } catch (py::error_already_set& other) {
    other.restore();
  }
}

void check_interrupt() {
  if (Py_IsInitialized() == 0) return;
  const GilAcquire acquired;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

void bind_errors(py::module_& module) {
  module.def("_error_name", [](int code) { return name_of(static_cast<ErrorCode>(code)); });
  py::register_local_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(std::move(pointer));
    } catch (const Error& error) {
      set_python_error(error);
    }
  });
}

}  // namespace memlease::python
