#include <memlease/stream.h>

#include "client/core/raise.h"
#include "proto/wire/error.h"

namespace memlease {

Stream::Stream(CUstream_st* stream)
    : Stream(from_handle(reinterpret_cast<std::uintptr_t>(stream))) {}

Stream Stream::from_handle(std::uintptr_t handle) {
  if (handle == 0) {
    internal::raise(wire::make_error(
        wire::ErrorCode::kInvalidArgument,
        "stream 0 is ambiguous: the legacy or the per-thread default stream, depending on how a "
        "program was compiled",
        "Pass cudaStreamLegacy (1), cudaStreamPerThread (2), or a stream that you have created."));
  }
  Stream stream;
  stream.handle_ = handle;
  return stream;
}

}  // namespace memlease
