// What every call of the plug-in's table puts around its work, for its length alone.
//
// The calling thread's context: the runtime makes a context on the thread's device, often GPU 0,
// for a thread that has none, and cudaSetDevice() makes one wherever it leads, also on the way
// back. So the context is set and put back by the driver, whatever the caller's was: a primary one,
// another one, or none.
//
// The thread's capture mode: in any other than the relaxed one, much of what is called here would
// be refused while another thread captures a graph in the global mode, and lose that capture.
#pragma once

#include "cuda/plugin/driver.h"

namespace memlease::cuda {

class OnDevice {
 public:
  // In the primary context of the device, which is made if there is none, and kept for good.
  explicit OnDevice(int ordinal);
  // In the stream's own context, for what belongs to that: 1 and 2 are those of the device's
  // primary one.
  OnDevice(int ordinal, void* stream);
  // In the caller's context, or none: for the driver's functions that need none.
  OnDevice();
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  cudaError_t error() const { return error_; }
  // If there is no error.
  const Driver& driver() const { return *driver_; }

 private:
  void begin();
  void set(CUcontext context);
  void set_primary(int ordinal);

  const Driver* driver_ = nullptr;
  cudaError_t error_ = cudaSuccess;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;  // afterwards: the caller's
  bool relaxed_ = false;
  CUcontext before_ = nullptr;
  CUcontext current_ = nullptr;
};

}  // namespace memlease::cuda
