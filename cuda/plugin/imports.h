// The client's half of libmemlease_cuda.so: memory of the daemon's, and the caller's
// streams. cuda/plugin.h says what each promises. Called through the table that plugin.cc makes, by
// client/cuda/cuda_importer. Thread-safe.
//
// Each returns 0 or a cudaError_t. An error is not left as the calling thread's last one, unless it
// is of a device that has failed. What a pointer parameter points to counts after 0 alone, unless
// more is said.
//
// Blocks until the device is idle: synchronize_device(). May block: unregister_pages(), and copies
// from pageable memory. The others do not wait for the device's work.
#pragma once

#include <cstdint>

#include "cuda/plugin.h"

namespace memlease::cuda {

std::int32_t open_memory(std::int32_t ordinal, const memlease_cuda_handle* handle, void** address);
std::int32_t close_memory(std::int32_t ordinal, void* address, const memlease_cuda_handle* handle);

std::int32_t stream_device(void* stream, std::int32_t* ordinal);
std::int32_t is_capturing(std::int32_t ordinal, void* stream, std::int32_t* capturing);
std::int32_t create_stream(std::int32_t ordinal, void** stream);
std::int32_t synchronize_device(std::int32_t ordinal);

std::int32_t orders_by_words(std::int32_t ordinal, std::int32_t* does);
std::int32_t write_word(std::int32_t ordinal, void* word, std::uint64_t value, void* stream);
std::int32_t wait_for_word(std::int32_t ordinal, const void* word, std::uint64_t value,
                           void* stream);
std::int32_t check_device(std::int32_t ordinal, void* stream);
// *mark is null after an error. A mark is closed once, complete or not.
std::int32_t mark(std::int32_t ordinal, void* stream, void** mark);
std::int32_t close_mark(std::int32_t ordinal, void* mark);
std::int32_t query(std::int32_t ordinal, void* mark);
std::int32_t order(std::int32_t ordinal, void* before, void* after);

std::int32_t copy(std::int32_t ordinal, void* to, const void* from, std::uint64_t size_bytes,
                  void* stream);
std::int32_t copy_rows(std::int32_t ordinal, const memlease_cuda_rows* rows, void* stream);
std::int32_t register_pages(std::int32_t ordinal, void* pages, std::uint64_t size_bytes,
                            std::int32_t read_only);
std::int32_t unregister_pages(std::int32_t ordinal, void* pages);
// *ordinal is -1 after an error, too.
std::int32_t pointer_device(const void* address, std::int32_t* ordinal);

}  // namespace memlease::cuda
