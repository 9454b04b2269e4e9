// The daemon's half of libmemlease_cuda.so: memory and events that other processes open. See
// cuda/plugin.h for what each promises.
#pragma once

#include <cstdint>

#include "cuda/plugin.h"

namespace memlease::cuda {

std::int32_t allocate(std::int32_t ordinal, std::uint64_t size_bytes, void** address,
                      memlease_cuda_handle* handle);
std::int32_t deallocate(std::int32_t ordinal, void* address, const memlease_cuda_handle* handle);
std::int32_t create_event(std::int32_t ordinal, void** event, memlease_cuda_handle* handle);
std::int32_t destroy_event(std::int32_t ordinal, void* event);
std::int32_t re_record(std::int32_t ordinal, void* event);

}  // namespace memlease::cuda
