// The driver's functions by their base names.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

namespace fakecuda {

class Runtime;

// As cudaGetDriverEntryPointByVersion: success also if there is no such function, and `result`
// tells; a null `result` makes that an error. `per_thread`: the _ptsz variant, where there is one.
cudaError_t entry_point(Runtime& runtime, const char* symbol, void** function, unsigned version,
                        bool per_thread, cudaDriverEntryPointQueryResult* result);
// Those with a default stream, for each meaning of it; null if there is none of that name.
template <bool PerThread>
void* driver_stream_function(std::string_view symbol);
template <>
void* driver_stream_function<false>(std::string_view symbol);
template <>
void* driver_stream_function<true>(std::string_view symbol);

}  // namespace fakecuda
