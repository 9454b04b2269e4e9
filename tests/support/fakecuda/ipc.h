// Handles of memory and events for other processes, with the rules and the traps of CUDA's legacy
// IPC. Thread-safe.
#pragma once

#include <cuda_runtime_api.h>

namespace fakecuda {

class Context;

cudaError_t export_memory(Context& context, cudaIpcMemHandle_t* handle, const void* address);
cudaError_t import_memory(Context& context, void** address, const cudaIpcMemHandle_t& handle,
                          unsigned flags);
cudaError_t close_memory(Context& context, void* address);
cudaError_t export_event(Context& context, cudaIpcEventHandle_t* handle, cudaEvent_t event);
cudaError_t import_event(Context& context, cudaEvent_t* event, const cudaIpcEventHandle_t& handle);

}  // namespace fakecuda
