// A stream that has nothing to do and waits for nobody.
#pragma once

#include <cuda_runtime_api.h>

namespace memlease::cuda {

// One of the current context. Not thread-safe. What it has been given is done after its end, too.
class IdleStream {
 public:
  IdleStream() { error_ = cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking); }
  ~IdleStream() {
    if (error_ == cudaSuccess) (void)cudaStreamDestroy(stream_);
  }
  IdleStream(const IdleStream&) = delete;
  IdleStream& operator=(const IdleStream&) = delete;

  cudaError_t error() const { return error_; }
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
  cudaError_t error_;
};

}  // namespace memlease::cuda
