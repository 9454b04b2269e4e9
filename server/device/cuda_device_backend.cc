#include "server/device/cuda_device_backend.h"

#include <cstring>
#include <utility>

#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

// What shares memory by the granule of the driver exposes whole granules.
constexpr std::uint64_t kGranule = std::uint64_t{2} << 20;

wire::DeviceHandle handle_of(const memlease_cuda_handle& from) {
  wire::DeviceHandle handle;
  static_assert(sizeof handle == sizeof from.bytes);
  std::memcpy(handle.data(), from.bytes, sizeof from.bytes);
  return handle;
}

class CudaMemory : public SharedMemory {
 public:
  CudaMemory(const memlease_cuda_table& cuda, std::int32_t ordinal, void* address,
             std::uint64_t size_bytes, const memlease_cuda_handle& exported)
      : cuda_(cuda),
        ordinal_(ordinal),
        address_(address),
        size_bytes_(size_bytes),
        exported_(exported),
        handle_(handle_of(exported)) {}
  ~CudaMemory() override { (void)cuda_.deallocate(ordinal_, address_, &exported_); }

  std::uint64_t size_bytes() const override { return size_bytes_; }
  absl::StatusOr<wire::SharedFd> export_fd(bool /*writable*/) override {
    return wire::make_error(wire::ErrorCode::kUnsupported,
                            "this GPU memory is shared by its handle and has no descriptor",
                            "Import it by a call.");
  }
  const wire::DeviceHandle* handle() const override { return &handle_; }
  std::byte* data() override { return nullptr; }

 private:
  const memlease_cuda_table& cuda_;
  const std::int32_t ordinal_;
  void* const address_;
  const std::uint64_t size_bytes_;
  const memlease_cuda_handle exported_;
  const wire::DeviceHandle handle_;
};

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<CudaDeviceBackend>>> CudaDeviceBackend::all() {
  const auto cuda = cuda::load_plugin();
  if (!cuda.ok()) return cuda.status();
  const auto gpus = cuda::visible_gpus(**cuda);
  if (!gpus.ok()) return gpus.status();
  std::vector<std::unique_ptr<CudaDeviceBackend>> backends;
  for (const cuda::Gpu& gpu : *gpus) {
    if (gpu.ipc) backends.push_back(std::make_unique<CudaDeviceBackend>(**cuda, gpu));
  }
  return backends;
}

DeviceBackend::SegmentSizes CudaDeviceBackend::segment_sizes() const {
  return {std::uint64_t{64} << 20, std::uint64_t{512} << 20, kGranule};
}

std::uint64_t CudaDeviceBackend::alignment_bytes(std::uint64_t /*size_bytes*/) const { return 512; }

absl::StatusOr<std::unique_ptr<SharedMemory>> CudaDeviceBackend::create_segment(
    std::uint64_t size_bytes, wire::ReserveKept /*kept*/) {
  void* address = nullptr;
  memlease_cuda_handle handle{};
  const std::int32_t error = cuda_.allocate(gpu_.ordinal, size_bytes, &address, &handle);
  if (error != MEMLEASE_CUDA_OK) {
    return cuda::cuda_error(
        cuda_, error, fmt::format("allocating {} bytes on {}", size_bytes, gpu_.uuid),
        "Withdraw arrays, end other programs on this GPU (nvidia-smi), or create "
        "a smaller array.");
  }
  return std::make_unique<CudaMemory>(cuda_, gpu_.ordinal, address, size_bytes, handle);
}

void CudaDeviceBackend::process_exited(pid_t pid) {
  if (cuda_.exited != nullptr) cuda_.exited(static_cast<std::uint32_t>(pid));
}

void CudaDeviceBackend::checker_saw(const wire::Word& word) {
  if (cuda_.saw != nullptr) cuda_.saw(&word);
}

void CudaDeviceBackend::checker_release(std::uint64_t key) {
  if (cuda_.release != nullptr) cuda_.release(key, 0);
}

}  // namespace memlease::server
