// Stands in for gpu_solver.cc in a build without nvcc.
#include <stdexcept>

#include "gpu_solver.h"

namespace tsunami {
namespace {

[[noreturn]] void refuse() {
  throw std::runtime_error(
      "this build computes on the host alone, as CMake found no nvcc of CUDA 13: install CUDA's "
      "toolkit in /usr/local/cuda, or point CUDA_PATH to it, delete build/release/CMakeCache.txt "
      "and build again; or leave --device out");
}

}  // namespace

int gpu_of_rank(const std::string& /*device*/, int /*rank*/) { refuse(); }

std::unique_ptr<Solver> make_gpu_solver(const HostSolver& /*start*/, int /*gpu*/) { refuse(); }

}  // namespace tsunami
