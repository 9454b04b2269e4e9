/// The tsunami example's kernels as nvcc compiles them, on a GPU. `./dev gpu run` runs this where
/// there is one; ctest does not know it. The same without a GPU is test_tsunami_gpu_solver.cc.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "examples/tsunami/gpu_solver.h"
#include "tests/examples/tsunami_bay.h"

namespace tsunami {
namespace {

// Not bit for bit: CUDA's hypot and cbrt, in the friction, may differ from the host's in the last
// bit, and shores make more of that.
constexpr double kNear = 1e-6;

TEST(TsunamiOnAGpu, AgreesWithTheHost) {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess) GTEST_SKIP() << "no GPU here";
  for (const Edge edge : {Edge::kOpen, Edge::kWall}) {
    HostSolver on_host = sea(edge);
    const auto on_gpu = make_gpu_solver(on_host, 0);
    for (int i = 0; i < 200; ++i) {
      const double expected_s = step(on_host);
      ASSERT_NEAR(step(*on_gpu), expected_s, kNear * expected_s) << "step " << i;
    }
    const std::vector<float> expected = surface_on_host(on_host);
    const std::vector<float> found = surface_on_gpu(*on_gpu);
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(std::isnan(found[i]), std::isnan(expected[i])) << "cell " << i;
      if (std::isnan(found[i])) continue;
      ASSERT_NEAR(static_cast<double>(found[i]), static_cast<double>(expected[i]), 1e-3)
          << "cell " << i;
    }
  }
}

}  // namespace
}  // namespace tsunami
