// The calling thread's device for the length of a call; the caller's own one afterwards.
#pragma once

#include <cuda_runtime_api.h>

namespace memlease::cuda {

class OnDevice {
 public:
  explicit OnDevice(int ordinal) {
    if (error_ = cudaGetDevice(&before_); error_ != cudaSuccess) return;
    if (before_ != ordinal) error_ = cudaSetDevice(ordinal);
    changed_ = error_ == cudaSuccess && before_ != ordinal;
  }
  ~OnDevice() {
    if (changed_) (void)cudaSetDevice(before_);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  cudaError_t error() const { return error_; }

 private:
  int before_ = 0;
  bool changed_ = false;
  cudaError_t error_ = cudaSuccess;
};

}  // namespace memlease::cuda
