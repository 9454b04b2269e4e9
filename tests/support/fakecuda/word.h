// Words of memory that streams write and wait for (cuStreamWriteValue64 and its like), in any
// memory that the device can touch, across processes.
#pragma once

#include <cuda_runtime_api.h>

#include "tests/support/fakecuda/layout.h"

namespace fakecuda {

class Runtime;
class Stream;

// `bytes` is 4 or 8. `flags` as the driver's.
cudaError_t write_word(Runtime& runtime, Stream& stream, const void* address, u64 value,
                       std::size_t bytes, unsigned flags);
// The host has seen what is there, 8 bytes, in memory that need not be registered.
void saw_word(Runtime& runtime, const void* address);
cudaError_t wait_word(Runtime& runtime, Stream& stream, const void* address, u64 value,
                      std::size_t bytes, unsigned flags);

}  // namespace fakecuda
