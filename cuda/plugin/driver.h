// The driver's functions that the runtime has no equal of: which context is a thread's current one,
// without making any, the thread's capture mode, and words that streams write and
// wait for. Found through the runtime by name, so that the
// plug-in links no driver. Thread-safe.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace memlease::cuda {

struct Driver {
  CUresult(CUDAAPI* device_get)(CUdevice* device, int ordinal);
  CUresult(CUDAAPI* device_get_attribute)(int* value, CUdevice_attribute attribute,
                                          CUdevice device);
  CUresult(CUDAAPI* primary_context_retain)(CUcontext* context, CUdevice device);
  CUresult(CUDAAPI* context_get_current)(CUcontext* context);
  CUresult(CUDAAPI* context_set_current)(CUcontext context);
  CUresult(CUDAAPI* context_get_device)(CUdevice* device);
  CUresult(CUDAAPI* stream_get_context)(CUstream stream, CUcontext* context);
  CUresult(CUDAAPI* pointer_get_attribute)(void* data, CUpointer_attribute attribute,
                                           CUdeviceptr address);
  CUresult(CUDAAPI* stream_write_value)(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                        unsigned flags);
  CUresult(CUDAAPI* stream_wait_value)(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                       unsigned flags);
  CUresult(CUDAAPI* exchange_capture_mode)(CUstreamCaptureMode* mode);
};

// Null after an error: there is no driver, it is too old, or lacks one of them. Tried again then.
cudaError_t find_driver(const Driver*& driver);

// The numbers are the same.
inline cudaError_t error_of(CUresult result) { return static_cast<cudaError_t>(result); }

}  // namespace memlease::cuda
