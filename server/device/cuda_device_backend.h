// A GPU's memory by CUDA's legacy IPC: cudaMalloc, and handles of 64 bytes. The daemon has a
// context on the GPU for it, and gives it no work but zeroing fresh memory. Thread-safe.
// server/core/device_backend.h says what each method promises.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cuda/loader.h"
#include "server/core/device_backend.h"
#include "server/core/shared_memory.h"

namespace memlease::server {

class CudaDeviceBackend : public DeviceBackend {
 public:
  // One for each GPU that this process sees and that can share memory: none is no error.
  // kUnsupported without the plug-in or a driver; a later call looks again. Loads the plug-in and
  // asks CUDA, which may take long: called by Gpus, without the daemon's lock.
  static absl::StatusOr<std::vector<std::unique_ptr<CudaDeviceBackend>>> all();

  CudaDeviceBackend(const memlease_cuda_table& cuda, cuda::Gpu gpu)
      : cuda_(cuda), gpu_(std::move(gpu)) {}

  std::string device() const override { return gpu_.uuid; }
  std::string name() const override { return gpu_.name; }
  std::uint64_t total_bytes() const override { return gpu_.total_bytes; }
  SegmentSizes segment_sizes() const override;
  std::uint64_t alignment_bytes(std::uint64_t size_bytes) const override;
  // Memory that goes is freed as it is destroyed, which may wait for the GPU. It has no descriptor
  // and no address of the host's: clients open it by its handle.
  absl::StatusOr<std::unique_ptr<SharedMemory>> create_segment(std::uint64_t size_bytes,
                                                               wire::ReserveKept kept) override;
  bool takes_descriptors() const override { return false; }
  bool has_events() const override { return true; }
  void process_exited(pid_t pid) override;
  void checker_release(std::uint64_t key) override;
  void checker_saw(const wire::Word& word) override;

 private:
  const memlease_cuda_table& cuda_;
  const cuda::Gpu gpu_;
};

}  // namespace memlease::server
