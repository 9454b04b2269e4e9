// The daemon's half of GPU memory, on the CUDA stand-in.
#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/device/cuda_device_backend.h"
#include "tests/support/fakecuda/fakecuda.h"
#include "tests/support/fakecuda/private_world.h"
#include "tests/support/fakecuda/test_kernels.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using wire::code_of;
using wire::ErrorCode;

constexpr std::uint64_t kGranule = std::uint64_t{2} << 20;

class CudaBackend : public ::testing::Test {
 protected:
  CudaDeviceBackend& first() {
    auto found = CudaDeviceBackend::all();
    EXPECT_TRUE(found.ok()) << found.status();
    backends_ = std::move(*found);
    return *backends_.front();
  }

  fakecuda::PrivateWorld world;

 private:
  std::vector<std::unique_ptr<CudaDeviceBackend>> backends_;
};

TEST_F(CudaBackend, ThereIsOneForEachGpuUnderItsUuid) {
  FAKECUDA_STAND_IN_ONLY();
  const auto found = CudaDeviceBackend::all();
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->size(), 2U);
  for (const auto& backend : *found) {
    EXPECT_THAT(backend->device(), MatchesRegex("GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"));
  }
  EXPECT_NE(found->at(0)->device(), found->at(1)->device());
}

TEST_F(CudaBackend, GpusThatCannotShareAreLeftOut) {
  FAKECUDA_STAND_IN_ONLY();
  world->set(fakecuda::Knob::kIpcEvents, 0);
  const auto found = CudaDeviceBackend::all();
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(found->empty());
}

TEST_F(CudaBackend, AMissingOrOldDriverIsSaidToBeWrong) {
  FAKECUDA_STAND_IN_ONLY();
  world->set(fakecuda::Knob::kDriverVersion, 12040);
  const auto found = CudaDeviceBackend::all();
  EXPECT_EQ(code_of(found.status()), ErrorCode::kUnsupported);
  EXPECT_THAT(wire::message_of(found.status()), HasSubstr("CUDA 12.4, and GPU arrays need 13.0"));
  world->set(fakecuda::Knob::kDriverVersion, 0);
  EXPECT_THAT(wire::message_of(CudaDeviceBackend::all().status()), HasSubstr("no NVIDIA driver"));
}

TEST_F(CudaBackend, SegmentsHaveAHandleAndNothingThatTheDaemonSees) {
  auto segment = first().create_segment(kGranule, wire::ReserveKept::kAll);
  ASSERT_TRUE(segment.ok()) << segment.status();
  EXPECT_EQ((*segment)->size_bytes(), kGranule);
  EXPECT_NE((*segment)->handle(), nullptr);
  EXPECT_EQ((*segment)->data(), nullptr);
  EXPECT_EQ(code_of((*segment)->export_fd(false).status()), ErrorCode::kUnsupported);
}

TEST_F(CudaBackend, WhatTheGpuLacksIsOutOfMemoryAndWhatIsGivenBackIsThereAgain) {
  FAKECUDA_STAND_IN_ONLY();
  CudaDeviceBackend& backend = first();
  {
    const auto most = backend.create_segment(std::uint64_t{1} << 30, wire::ReserveKept::kAll);
    ASSERT_TRUE(most.ok()) << most.status();
    const auto more = backend.create_segment(kGranule, wire::ReserveKept::kAll);
    EXPECT_EQ(code_of(more.status()), ErrorCode::kOutOfMemory);
    EXPECT_THAT(wire::message_of(more.status()), HasSubstr(backend.device()));
  }
  EXPECT_TRUE(backend.create_segment(std::uint64_t{1} << 30, wire::ReserveKept::kAll).ok());
}

TEST_F(CudaBackend, AFailureHalfwayKeepsNothing) {
  FAKECUDA_STAND_IN_ONLY();
  CudaDeviceBackend& backend = first();
  for (const char* const call :
       {"cudaMemsetAsync", "cudaStreamSynchronize", "cudaIpcGetMemHandle"}) {
    world->fail(call, 999);
    EXPECT_EQ(code_of(backend.create_segment(kGranule, wire::ReserveKept::kAll).status()),
              ErrorCode::kInternal)
        << call;
  }
}

}  // namespace
}  // namespace memlease::server
