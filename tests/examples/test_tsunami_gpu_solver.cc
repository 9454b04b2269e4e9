/// The tsunami example's GPU solver, its kernels run by the CUDA stand-in: the same bits as the
/// host's, and nothing that its streams do not order.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "examples/tsunami/gpu_solver.h"
#include "tests/examples/tsunami_bay.h"
#include "tests/support/fakecuda/private_world.h"

namespace tsunami {
namespace {

class GpuSolver : public testing::TestWithParam<Edge> {
 protected:
  fakecuda::PrivateWorld world_;
};
INSTANTIATE_TEST_SUITE_P(Edges, GpuSolver, testing::Values(Edge::kOpen, Edge::kWall));

TEST_P(GpuSolver, GivesTheBitsOfTheHostsSolver) {
  world_->set(fakecuda::Knob::kDelayUs, 20);  // so that what is not waited for comes too late
  HostSolver on_host = sea(GetParam());
  const auto on_gpu = make_gpu_solver(on_host, 0);
  for (int i = 0; i < 60; ++i) ASSERT_EQ(step(*on_gpu), step(on_host)) << "step " << i;

  const std::vector<float> expected = surface_on_host(on_host);
  const std::vector<float> found = surface_on_gpu(*on_gpu);
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
