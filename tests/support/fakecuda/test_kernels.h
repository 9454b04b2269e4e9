/* Kernels for tests: one source for hardware (nvcc) and for the stand-in. Plain C, so that ctypes
   can call them too. Each returns a CUDA error; the stream comes last. */
#pragma once

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

int tk_fill(uint64_t* data, size_t count, uint64_t value, cudaStream_t stream);
int tk_add(uint64_t* data, size_t count, uint64_t value, cudaStream_t stream);
int tk_copy(uint64_t* to, const uint64_t* from, size_t count, cudaStream_t stream);
/* Elements of 3 dimensions, whose strides are in bytes. */
struct tk_cells { /* NOLINT(readability-identifier-naming): as its functions */
  void* data;
  int64_t shape[3];
  int64_t strides[3];
};
/* The kernels of memlease/kernels.h, on uint64_t; those that are copied are float. */
int tk_cells_fill(const struct tk_cells* to, uint64_t value, cudaStream_t stream);
int tk_cells_copy(const struct tk_cells* from, const struct tk_cells* to, cudaStream_t stream);
int tk_cells_add_index_tuple(const struct tk_cells* on, cudaStream_t stream);
/* Adds to *mismatches, which the device can touch, how many are not `expected`. */
int tk_check(const uint64_t* data, size_t count, uint64_t expected, uint64_t* mismatches,
             cudaStream_t stream);
/* Keeps the stream busy. */
int tk_spin(uint64_t us, cudaStream_t stream);
/* Keeps the stream busy, and counts up meanwhile, for others to see. */
int tk_count(uint64_t* counter, uint64_t us, cudaStream_t stream);
/* Keeps the stream waiting until *flag, in pinned host memory, is not 0; for 30 s at most, so that
   no GPU is left spinning for a test that has gone wrong. */
int tk_gate(const uint32_t* flag, cudaStream_t stream);
/* Notes the time, which is the same one for all processes on a GPU. */
int tk_stamp(uint64_t* ns, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
