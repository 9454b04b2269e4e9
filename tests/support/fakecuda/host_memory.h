// Host memory that the device can touch: allocated by CUDA, or the caller's own, registered.
// Registered memory of a shared file is the same memory to the checker in every process.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "tests/support/fakecuda/layout.h"

namespace fakecuda {

class Context;
class Runtime;

cudaError_t allocate_host(Context& context, void** address, std::size_t bytes, unsigned flags);
cudaError_t release_host(Context& context, void* address);
cudaError_t register_host(Context& context, void* address, std::size_t bytes, unsigned flags);
cudaError_t unregister_host(Context& context, void* address);
// How the checker names the shared file's byte that is mapped there; false: none is.
bool name_of_shared(const void* address, u64& allocation, u64& offset);
cudaError_t host_device_pointer(Runtime& runtime, void** device, void* host);
cudaError_t host_flags(Runtime& runtime, unsigned* flags, void* host);

}  // namespace fakecuda
