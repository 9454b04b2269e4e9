// Functions of the host that a stream calls. They may not use CUDA: what they call answers 800.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

namespace fakecuda {

class Stream;

cudaError_t launch_host_function(Stream& stream, std::function<void()> function);

}  // namespace fakecuda
