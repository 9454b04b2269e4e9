#include "python/bindings/package_parts.h"

#include <utility>

namespace memlease::python {
namespace {

// Never destroyed: leases may end after the interpreter.
PackageParts& the_parts() {
  static auto* const parts = new PackageParts;
  return *parts;
}

}  // namespace

const PackageParts& package_parts() { return the_parts(); }

void bind_package_parts(py::module_& module) {
  module.def(
      "set_package_parts",
      [](py::object error_types, py::object warn_of_views, py::object log_empty_write,
         py::object log_wait, py::object long_waits, py::object require_numpy,
         py::object numpy_dtype, py::object dtype_for_users, py::object array_interface,
         py::object cuda_array_interface, py::object jax_array, py::object export_order,
         py::object gpu_source_of, py::object usm_elements, py::object export_usm,
         py::object handle_of, py::object next_lease) {
        the_parts() = {std::move(error_types),     std::move(warn_of_views),
                       std::move(log_empty_write), std::move(log_wait),
                       std::move(long_waits),      std::move(require_numpy),
                       std::move(numpy_dtype),     std::move(dtype_for_users),
                       std::move(array_interface), std::move(cuda_array_interface),
                       std::move(jax_array),       std::move(export_order),
                       std::move(gpu_source_of),   std::move(usm_elements),
                       std::move(export_usm),      std::move(handle_of),
                       std::move(next_lease)};
      },
      py::kw_only(), py::arg("error_types"), py::arg("warn_of_views"), py::arg("log_empty_write"),
      py::arg("log_wait"), py::arg("long_waits"), py::arg("require_numpy"), py::arg("numpy_dtype"),
      py::arg("dtype_for_users"), py::arg("array_interface"), py::arg("cuda_array_interface"),
      py::arg("jax_array"), py::arg("export_order"), py::arg("gpu_source_of"),
      py::arg("usm_elements"), py::arg("export_usm"), py::arg("handle_of"), py::arg("next_lease"),
      "What the bindings call of the package; the package calls this when it is imported.");
}

}  // namespace memlease::python
