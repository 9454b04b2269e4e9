/// The tsunami example's GPU solver, its kernels run by the CUDA stand-in: the same bits as the
/// host's, and nothing that its streams do not order.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "examples/tsunami/gpu_solver.h"
#include "tests/support/fakecuda/private_world.h"

namespace tsunami {
namespace {

constexpr std::size_t kRows = 24;
constexpr std::size_t kColumns = 30;

/// A bay: deep in the west, land in the east, so that cells flood and fall dry.
std::vector<float> bay() {
  std::vector<float> bed(kRows * kColumns);
  for (std::size_t i = 0; i < bed.size(); ++i) {
    const double east = static_cast<double>(i % kColumns) / kColumns;
    const double north = static_cast<double>(i / kColumns) / kRows;
    bed[i] = static_cast<float>(-120 + 140 * east + 15 * std::sin(11 * north + 5 * east));
  }
  return bed;
}

HostSolver sea(Edge edge) {
  HostSolver solver({.rows = kRows, .columns = kColumns, .dx_m = 500, .dy_m = 450, .edge = edge},
                    bay());
  for (std::size_t r = 8; r < 16; ++r) {
    for (std::size_t c = 5; c < 12; ++c) solver.at(r, c).depth_m += 20;
  }
  return solver;
}

/// Advances, and returns the step's length.
double step(Solver& solver) {
  const double step_s = solver.stable_step_s();
  solver.close_south();
  solver.close_north();
  solver.advance(step_s);
  return step_s;
}

class GpuSolver : public testing::TestWithParam<Edge> {
 protected:
  /// What the solver writes on the GPU, fetched.
  static std::vector<float> surface(Solver& solver) {
    std::vector<float> values(kRows * kColumns);
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

  fakecuda::PrivateWorld world_;
};
INSTANTIATE_TEST_SUITE_P(Edges, GpuSolver, testing::Values(Edge::kOpen, Edge::kWall));

TEST_P(GpuSolver, GivesTheBitsOfTheHostsSolver) {
  world_->set(fakecuda::Knob::kDelayUs, 20);  // so that what is not waited for comes too late
  HostSolver on_host = sea(GetParam());
  const auto on_gpu = make_gpu_solver(on_host, 0);
  for (int i = 0; i < 60; ++i) ASSERT_EQ(step(*on_gpu), step(on_host)) << "step " << i;

  std::vector<float> expected(kRows * kColumns);
  on_host.write_surface(expected.data());
  const std::vector<float> found = surface(*on_gpu);
  EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0);
  const auto dry = std::ranges::count_if(found, [](float value) { return std::isnan(value); });
  EXPECT_GT(dry, 0);
  EXPECT_LT(static_cast<std::size_t>(dry), found.size());
}

TEST_P(GpuSolver, SaysThatThereIsNoSuchGpu) {
  EXPECT_EQ(gpu_of_rank("cuda:0", 0), 0);
  for (const char* device : {"cuda:99", "cuda:", "cuda:0x", "gpu", ""}) {
    EXPECT_THROW(gpu_of_rank(device, 0), std::runtime_error) << device;
  }
}

TEST(NoGpu, IsSaidWithWhatToDo) {
  try {
    gpu_of_rank("cuda:0", 0);
    FAIL() << "there is no world of GPUs here";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("leave --device out"), std::string::npos);
  }
}

}  // namespace
}  // namespace tsunami
