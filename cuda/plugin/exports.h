// The daemon's half of libmemlease_cuda.so: memory that other processes open. See
// cuda/plugin.h for what each promises.
#pragma once

#include <cstdint>

#include "cuda/plugin.h"

namespace memlease::cuda {

std::int32_t allocate(std::int32_t ordinal, std::uint64_t size_bytes, void** address,
                      memlease_cuda_handle* handle);
std::int32_t deallocate(std::int32_t ordinal, void* address, const memlease_cuda_handle* handle);

}  // namespace memlease::cuda
