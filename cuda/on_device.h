// The calling thread's device for the length of a call; the caller's own one afterwards.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace memlease::cuda {

class OnDevice {
 public:
  explicit OnDevice(int ordinal) { set(ordinal); }
  // For a call that takes a stream: a default stream (1, 2) is that of the array's device,
  // whichever is the caller's current one; any other one knows its device.
  OnDevice(int ordinal, const void* stream) {
    constexpr std::uintptr_t kPerThread = 2;
    if (reinterpret_cast<std::uintptr_t>(stream) <= kPerThread) set(ordinal);
  }
  ~OnDevice() {
    if (changed_) (void)cudaSetDevice(before_);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  cudaError_t error() const { return error_; }

 private:
  void set(int ordinal) {
    if (error_ = cudaGetDevice(&before_); error_ != cudaSuccess) return;
    if (before_ != ordinal) error_ = cudaSetDevice(ordinal);
    changed_ = error_ == cudaSuccess && before_ != ordinal;
  }

  int before_ = 0;
  bool changed_ = false;
  cudaError_t error_ = cudaSuccess;
};

}  // namespace memlease::cuda
