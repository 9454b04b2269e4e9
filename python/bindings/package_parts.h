// What the package memlease gives the bindings when it is imported, so that they import nothing of
// it. Needs the GIL.
#pragma once

#include "python/bindings/bindings.h"

namespace memlease::python {

struct PackageParts {
  py::object error_types;           // dict: number of an ErrorCode -> exception
  py::object warn_of_views;         // (text): as ViewAlive
  py::object log_empty_write;       // (name of the array)
  py::object log_wait;              // (text)
  py::object long_waits;            // after_s: when to call note(name of the array)
  py::object require_numpy;         // () -> numpy, or says why it cannot be had
  py::object numpy_dtype;           // (name) -> numpy.dtype
  py::object dtype_for_users;       // (name) -> numpy.dtype, or the name
  py::object array_interface;       // (dtype, shape, strides) -> dict
  py::object cuda_array_interface;  // (dtype, shape, strides) -> dict
  py::object jax_array;             // (lease) -> callable without arguments
  py::object export_order;          // (version, host_wait, no_stream) -> (host_waits, names_stream)
  py::object gpu_source_of;         // (source, name, dtype, shape) -> GpuSource or None
  py::object usm_elements;          // (source in USM) -> numpy.ndarray, on the host
  py::object export_usm;            // (lease, strides, syclobj, usm_type, copy) -> UsmExport
  py::object handle_of;             // (stream) -> int
  py::object next_lease;            // (Follower) -> awaitable of a ReadLease
};

// Set before a user can call anything.
const PackageParts& package_parts();

void bind_package_parts(py::module_& module);

}  // namespace memlease::python
