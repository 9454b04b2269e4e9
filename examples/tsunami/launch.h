/// Launches kernels on a GPU: a kernel is a struct whose at(i, ...) does the i-th of `count` pieces
/// of work. This one is for nvcc. The tests have another, which needs no GPU and takes notice of
/// what each kernel says that it touches.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

template <class T>
const T* reads(const T* data, std::size_t /*count*/) {
  return data;
}
template <class T>
T* writes(T* data, std::size_t /*count*/) {
  return data;
}

template <class Kernel, class... Arguments>
__global__ void run(std::size_t count, Arguments... arguments) {
  const std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
  if (i < count) Kernel::at(i, arguments...);
}

/// Returns CUDA's error.
template <class Kernel, class... Arguments>
int launch(const char* /*name*/, std::size_t count, cudaStream_t stream, Arguments... arguments) {
  constexpr unsigned kThreads = 128;
  const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  run<Kernel><<<blocks, kThreads, 0, stream>>>(count, arguments...);
  return cudaGetLastError();
}
