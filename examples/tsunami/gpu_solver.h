/// The solver whose work a GPU does, by the kernels of kernels.h. Where the build found no nvcc
/// (no_gpu.cc) both calls throw std::runtime_error, which says so.
#pragma once

#include <memory>
#include <string>

#include "host_solver.h"

namespace tsunami {

/// Which GPU of this process a rank takes: `device` is "cuda:N", rank r takes the (N + r)-th and
/// begins again after the last. Throws std::runtime_error if there is none.
int gpu_of_rank(const std::string& device, int rank);

/// Begins with the state of `start`. The host waits for the GPU once a step, in stable_step_s():
/// for the longest step, and for the rows that neighbours want. Throws std::runtime_error.
std::unique_ptr<Solver> make_gpu_solver(const HostSolver& start, int gpu);

}  // namespace tsunami
