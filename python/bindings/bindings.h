// The parts of memlease._core, the extension module. Everything here needs the GIL unless it says
// otherwise; whatever may wait or call the daemon gives the GIL up meanwhile. All files convert
// containers alike, by stl.h: where one did not, the linker could take its idea of std::vector.
#pragma once

#include <memlease/memlease.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "python/bindings/gil.h"

namespace memlease::python {

namespace py = pybind11;

void bind_errors(py::module_& module);
void bind_views(py::module_& module);
void bind_dlpack(py::module_& module);
void bind_leases(py::module_& module);
void bind_follower(py::module_& module);
void bind_arrays(py::module_& module);
void bind_clients(py::module_& module);
void bind_imports(py::module_& module);
void bind_sycl_usm(py::module_& module);

// Sets the Python exception for `error`: the class of memlease.errors with its name.
void set_python_error(const Error& error);

// 1, and one more in each forked child.
std::uint32_t fork_number();

// ConnectOptions::check_interrupt of every client. Called without the GIL by waiting threads;
// throws the exception that a Python signal handler raised (KeyboardInterrupt).
void check_interrupt();

// A shape or strides.
inline py::tuple to_tuple(const std::vector<std::int64_t>& numbers) {
  return py::tuple(py::cast(numbers));
}

// Runs `call` without the GIL.
template <typename Call>
decltype(auto) without_gil(Call&& call) {
  const GilRelease released;
  return std::forward<Call>(call)();
}

}  // namespace memlease::python
