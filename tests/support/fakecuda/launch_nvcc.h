// Launches kernels on hardware. Its sibling is launch_stand_in.h.
#pragma once

#include <cuda_runtime.h>

#define TK_DEVICE __device__

template <class T>
T* writes(T* data, size_t) {
  return data;
}
template <class T>
T* changes(T* data, size_t) {
  return data;
}
template <class T>
const T* reads(const T* data, size_t) {
  return data;
}

__device__ inline void add_one(uint64_t* count) {
  atomicAdd(reinterpret_cast<unsigned long long*>(count), 1ULL);
}
// By one thread alone; others see each step.
__device__ inline void add_one_visibly(uint64_t* count) {
  volatile uint64_t* seen = count;
  *seen = *seen + 1;
  __threadfence_system();
}
__device__ inline uint32_t look(const uint32_t* flag) {
  return *static_cast<const volatile uint32_t*>(flag);
}
__device__ inline bool gives_up() { return false; }
__device__ inline uint64_t now_ns() {
  unsigned long long ns = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

template <class Kernel, class... Arguments>
__global__ void run(size_t count, Arguments... arguments) {
  const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < count;
       i += step) {
    Kernel::at(i, arguments...);
  }
}

template <class Kernel, class... Arguments>
int launch(const char*, size_t count, cudaStream_t stream, Arguments... arguments) {
  if (count == 0) return cudaSuccess;
  (void)cudaGetLastError();  // another call's
  constexpr unsigned kThreads = 256;
  const size_t blocks = (count + kThreads - 1) / kThreads;
  run<Kernel><<<static_cast<unsigned>(blocks < 1024 ? blocks : 1024), kThreads, 0, stream>>>(
      count, arguments...);
  return cudaGetLastError();
}

// What launches itself, as users call it.
template <class Kernel, class... Arguments>
int launch_library(const char*, cudaStream_t stream, const Arguments&... arguments) {
  try {
    Kernel::on(arguments..., stream);
    return cudaSuccess;
  } catch (const std::runtime_error&) {
    return cudaErrorLaunchFailure;
  }
}
