// A CUDA stream of the caller's. Standard library only, C++17.
#pragma once

#include <memlease/version.h>

#include <cstdint>

struct CUstream_st;  // what a cudaStream_t points to

namespace memlease {

// Not owning; the stream must live until the call that it is given to has returned. For a host
// array streams mean nothing.
class MEMLEASE_API Stream {
 public:
  constexpr Stream() noexcept = default;  // none: the host waits instead
  // A cudaStream_t, also cudaStreamLegacy and cudaStreamPerThread. Throws InvalidArgument for null:
  // that means one stream or another, depending on how the caller was compiled.
  Stream(CUstream_st* stream);  // NOLINT(google-explicit-constructor): it is the same thing
  // As the array protocols pass it: 1 = legacy, 2 = the calling thread's, else a handle.
  static Stream from_handle(std::uintptr_t handle);

  constexpr explicit operator bool() const noexcept { return handle_ != 0; }
  constexpr std::uintptr_t handle() const noexcept { return handle_; }
  friend constexpr bool operator==(Stream a, Stream b) noexcept { return a.handle_ == b.handle_; }
  friend constexpr bool operator!=(Stream a, Stream b) noexcept { return a.handle_ != b.handle_; }

 private:
  std::uintptr_t handle_ = 0;
};

// A stream to hand to a producer of elements on cuda:N, as this process numbers its GPUs, before
// they are copied by Array::put(): `wanted` if it is given, else one of the library's, which lives
// as long as the process and is never 1 or 2. Throws InvalidArgument if `wanted` is of another
// device or captures a graph, and Unsupported if no such GPU is visible. Thread-safe; waits for
// nothing.
MEMLEASE_API Stream stream_on(int device_ordinal, Stream wanted = {});

}  // namespace memlease
