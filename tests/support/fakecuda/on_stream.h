// For the API files that are compiled twice: plainly, and with CUDA_API_PER_THREAD_DEFAULT_STREAM,
// which makes CUDA's headers rename each function to its _ptsz or _ptds variant. The two differ in
// what the stream 0 is.
#pragma once

#include "tests/support/fakecuda/call.h"
#include "tests/support/fakecuda/stream.h"

namespace fakecuda {

// In an unnamed namespace, as it differs between the two.
namespace {

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
constexpr bool kPerThread = true;
#else
constexpr bool kPerThread = false;
#endif

template <class Work>
cudaError_t on_stream(Runtime& runtime, cudaStream_t handle, const Work& work) {
  std::shared_ptr<Stream> stream;
  const cudaError_t error = runtime.find(handle, kPerThread, stream);
  return error == cudaSuccess ? work(*stream) : error;
}

}  // namespace
}  // namespace fakecuda

// An expression on `it`, the stream of a handle.
#define FAKECUDA_ON(handle, expression)                                                            \
  fakecuda::on_stream(runtime, handle, [&]([[maybe_unused]] fakecuda::Stream& it) -> cudaError_t { \
    return expression;                                                                             \
  })
