/// A small sea for the tests of the tsunami example's GPU solver.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include "examples/tsunami/host_solver.h"

namespace tsunami {

inline constexpr std::size_t kBayRows = 24;
inline constexpr std::size_t kBayColumns = 30;

/// A bay: deep in the west, land in the east, so that cells flood and fall dry.
inline std::vector<float> bay() {
  std::vector<float> bed(kBayRows * kBayColumns);
  for (std::size_t i = 0; i < bed.size(); ++i) {
    const double east = static_cast<double>(i % kBayColumns) / kBayColumns;
    const double north = static_cast<double>(i / kBayColumns) / kBayRows;
    bed[i] = static_cast<float>(-120 + 140 * east + 15 * std::sin(11 * north + 5 * east));
  }
  return bed;
}

inline HostSolver sea(Edge edge) {
  HostSolver solver(
      {.rows = kBayRows, .columns = kBayColumns, .dx_m = 500, .dy_m = 450, .edge = edge}, bay());
  for (std::size_t r = 8; r < 16; ++r) {
    for (std::size_t c = 5; c < 12; ++c) solver.at(r, c).depth_m += 20;
  }
  return solver;
}

/// Advances, and returns the step's length.
inline double step(Solver& solver) {
  const double step_s = solver.stable_step_s();
  solver.close_south();
  solver.close_north();
  solver.advance(step_s);
  return step_s;
}

inline std::vector<float> surface_on_host(Solver& solver) {
  std::vector<float> values(solver.rows() * solver.columns());
  solver.write_surface(values.data());
  return values;
}

/// What the solver writes on the GPU, fetched.
inline std::vector<float> surface_on_gpu(Solver& solver) {
  std::vector<float> values(solver.rows() * solver.columns());
  const std::size_t size_bytes = values.size() * sizeof(float);
  void* data = nullptr;
  EXPECT_EQ(cudaMalloc(&data, size_bytes), cudaSuccess);
  solver.write_surface(static_cast<float*>(data));
  EXPECT_EQ(cudaMemcpyAsync(values.data(), data, size_bytes, cudaMemcpyDefault, solver.stream()),
            cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(solver.stream()), cudaSuccess);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
  return values;
}

}  // namespace tsunami
