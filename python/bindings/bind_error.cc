#include <exception>
#include <utility>

#include "python/bindings/endless_wait.h"
#include "python/bindings/package_parts.h"

namespace memlease::python {
namespace {

// What type(message, hint) would return, but by no bytecode: in the middle of that the
// interpreter's end may overtake this thread and end it by an unwinding, which may not come through
// the handler of an exception of C++ that all this runs in.
py::object instance_of(const py::object& type, const Error& error) {
  auto* const made = reinterpret_cast<PyTypeObject*>(type.ptr());
  const py::tuple arguments = py::make_tuple(error.what());
  auto instance = py::reinterpret_steal<py::object>(made->tp_new(made, arguments.ptr(), nullptr));
  if (!instance) throw py::error_already_set();
  auto* const os_error = reinterpret_cast<PyTypeObject*>(PyExc_OSError);
  auto* const any_error = reinterpret_cast<PyTypeObject*>(PyExc_BaseException);
  const auto initialise = (PyType_IsSubtype(made, os_error) != 0 ? os_error : any_error)->tp_init;
  if (initialise(instance.ptr(), arguments.ptr(), nullptr) != 0) throw py::error_already_set();
  instance.attr("message") = error.message();
  instance.attr("hint") = error.hint();
  return instance;
}

}  // namespace

void set_python_error(const Error& error) {
  try {
    const py::object type = package_parts().error_types[py::int_(static_cast<int>(error.code()))];
    py::set_error(type, instance_of(type, error));
  } catch (py::error_already_set& other) {
    other.restore();
  }
}

void check_interrupt() {
  if (Py_IsInitialized() == 0) return;
  const GilAcquire acquired;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  // Who has called this catches all there is, which that unwinding may not come through.
  unless_ended([] { EndlessWait::look(); });
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
