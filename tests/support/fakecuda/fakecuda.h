/* What the stand-in offers beside CUDA's own functions, to tests and test kernels. Plain C, so that
   ctypes can call it too. Those that return cudaError_t return a CUDA error. */
#pragma once

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Only the stand-in has it: tells that the real library was not loaded by mistake. */
int fakecuda_abi(void);

/* Memory that a kernel touches. */
enum fakecuda_access { FAKECUDA_READ = 1, FAKECUDA_WRITE = 2, FAKECUDA_READ_WRITE = 3 };
// NOLINTBEGIN(modernize-use-using): this is C
typedef struct fakecuda_range {
  void* address;
  size_t bytes;
  int access;
} fakecuda_range;
/* Gets where each range can be touched, for as long as it runs, and a copy of its arguments. */
typedef void (*fakecuda_kernel)(void* const* ranges, const void* arguments);
// NOLINTEND(modernize-use-using)
cudaError_t fakecuda_launch(cudaStream_t stream, const char* name, fakecuda_kernel kernel,
                            const fakecuda_range* ranges, size_t range_count, const void* arguments,
                            size_t argument_bytes);
/* For a kernel or a host function that waits: not 0 once it should give up, as its process or
 * device goes down. */
int fakecuda_cancelled(void);

/* A touch by the host: tells the checker, and returns where the bytes are; NULL if they are not in
   one allocation. */
void* fakecuda_touch(const void* address, size_t bytes, int access);

/* The stream pauses. */
cudaError_t fakecuda_pause(cudaStream_t stream, uint64_t us);
/* Waits until the stream has nothing to do, without the host learning of what it did: fixes an
   order in time that the checker does not know of. */
cudaError_t fakecuda_drain(cudaStream_t stream);

/* What one host side tells another by means that the checker does not see: a row that is published
   and read, a message. Release before it becomes visible, acquire after it was seen. */
void fakecuda_release(uint64_t key, uint64_t value);
void fakecuda_acquire(uint64_t key, uint64_t value);
/* The caller has seen the 8 bytes that are there now, which a stream may have written. */
void fakecuda_saw(const void* word);
/* The caller knows that this process has ended, and its work with it: from now on that is before
   whatever anybody does. */
void fakecuda_observe_exit(uint32_t pid);

/* How often this process has called a function of CUDA's. */
uint64_t fakecuda_calls(const char* function);

/* One of the caller's streams lives as long as its process, on purpose: no leak. */
void fakecuda_keep_stream(void);

/* Leaves the world as the end of the process does; a later call enters a new one. No other thread
   may use CUDA meanwhile, and no handle or address stays good. */
void fakecuda_detach(void);

#ifdef __cplusplus
}
#endif
