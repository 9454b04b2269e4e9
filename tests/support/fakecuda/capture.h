// Which streams of this process capture a graph, and what that forbids to whom: as CUDA documents
// cudaThreadExchangeStreamCaptureMode, and the programming guide prohibited operations. A call that
// is forbidden is refused, and the captures that it conflicts with are lost. Thread-safe.
//
// No work can be captured here: what a capturing stream is given is refused.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <string_view>
#include <vector>

#include "tests/support/fakecuda/layout.h"

namespace fakecuda {

class Runtime;
class Stream;

// Is this one of those that CUDA calls potentially unsafe? By the function's base name. CUDA has no
// list; what nobody is known to do during a capture counts as one.
bool potentially_unsafe(std::string_view function);

// The calling thread's mode.
cudaError_t exchange_capture_mode(const Runtime& runtime, cudaStreamCaptureMode* mode);

class Captures {
 public:
  // On the calling thread. The legacy stream cannot be captured.
  cudaError_t begin(Stream& stream, cudaStreamCaptureMode mode);
  // 901 if the capture has been lost.
  cudaError_t end(Stream& stream);
  // The stream goes away.
  void forget(Stream& stream);
  cudaStreamCaptureStatus status(const Stream& stream) const;

  // What a potentially unsafe call is answered, by the modes of its thread and of the captures.
  cudaError_t refuse_unsafe();
  // What a call is answered that conflicts, in any mode, with the capture of each stream that
  // `concerns`: `error` if there is one.
  using Concerns = std::function<bool(const Stream&)>;
  cudaError_t refuse(const Concerns& concerns, cudaError_t error);
  bool any(const Concerns& concerns) const;

 private:
  struct Capture {
    Stream* stream;
    cudaStreamCaptureMode mode;
    u64 thread;
    bool lost;
  };
  std::vector<Capture>::iterator find(const Stream& stream);

  std::atomic<u32> count_ = 0;  // so that who has none need not lock
  mutable std::mutex mutex_;    // guards what follows
  std::vector<Capture> captures_;
};

}  // namespace fakecuda
