// What tests of the stand-in share: a world each, and CUDA's objects that go away by themselves.
#pragma once

#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fakecuda/fakecuda.h"
#include "tests/support/fakecuda/private_world.h"
#include "tests/support/fakecuda/test_kernels.h"

namespace fakecuda::testing {

using What = Finding::What;

// One granule, in words of 8 bytes: memory that can be exported.
inline constexpr std::size_t kWords = kGranularity / 8;

// A call that must succeed.
#define CUDA_OK(call) ASSERT_EQ(static_cast<int>(call), 0) << cudaGetErrorName(cudaGetLastError())

class Fakecuda : public ::testing::Test {
 protected:
  std::uint64_t* allocate(std::size_t words = kWords) {
    void* address = nullptr;
    EXPECT_EQ(cudaMalloc(&address, words * 8), cudaSuccess);
    return static_cast<std::uint64_t*>(address);
  }
  cudaStream_t new_stream(unsigned flags = cudaStreamNonBlocking) {
    cudaStream_t stream = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, flags), cudaSuccess);
    return stream;
  }
  cudaEvent_t new_event(unsigned flags = cudaEventDisableTiming) {
    cudaEvent_t event = nullptr;
    EXPECT_EQ(cudaEventCreateWithFlags(&event, flags), cudaSuccess);
    return event;
  }
  // The first word, read by a copy that waits.
  std::uint64_t first_of(const std::uint64_t* data) {
    std::uint64_t value = 0;
    EXPECT_EQ(cudaMemcpy(&value, data, 8, cudaMemcpyDeviceToHost), cudaSuccess);
    return value;
  }

  // Keeps streams waiting until it is opened, at the latest at its end.
  class Gate {
   public:
    Gate() {
      void* flag = nullptr;
      EXPECT_EQ(cudaHostAlloc(&flag, 4, cudaHostAllocMapped), cudaSuccess);
      flag_ = static_cast<std::uint32_t*>(flag);
      *flag_ = 0;
    }
    ~Gate() {
      open();
      EXPECT_EQ(cudaFreeHost(flag_), cudaSuccess);
    }
    Gate(const Gate&) = delete;
    Gate& operator=(const Gate&) = delete;
    void hold(cudaStream_t stream) { EXPECT_EQ(tk_gate(flag_, stream), 0); }
    void open() { __atomic_store_n(flag_, 1, __ATOMIC_SEQ_CST); }

   private:
    std::uint32_t* flag_ = nullptr;
  };

  PrivateWorld world;
};

// The one finding there is, for a test that planted it.
inline Finding only(const std::vector<Finding>& findings) {
  EXPECT_EQ(findings.size(), 1U) << describe(findings);
  return findings.empty() ? Finding{} : findings.front();
}

MATCHER_P(Is, what, std::string("is ") + name_of(what)) { return arg.what == what; }

}  // namespace fakecuda::testing
