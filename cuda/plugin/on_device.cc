#include "cuda/plugin/on_device.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace memlease::cuda {
namespace {

// 0, 1 and 2 are the default streams.
bool is_named(const void* stream) { return reinterpret_cast<std::uintptr_t>(stream) > 2; }

// The device's primary context as it was retained before, or null.
std::atomic<CUcontext>* retained(int ordinal) {
  constexpr std::size_t kMost = 128;  // more than a machine has
  static std::array<std::atomic<CUcontext>, kMost> contexts{};
  const auto index = static_cast<std::size_t>(ordinal);
  return ordinal >= 0 && index < kMost ? &contexts[index] : nullptr;
}

}  // namespace

OnDevice::OnDevice(int ordinal) {
  begin();
  if (error_ == cudaSuccess) set_primary(ordinal);
}

OnDevice::OnDevice(int ordinal, void* stream) {
  begin();
  if (error_ != cudaSuccess) return;
  CUcontext context = nullptr;
  if (!is_named(stream)) {
    set_primary(ordinal);
  } else if (error_ =
                 error_of(driver_->stream_get_context(static_cast<CUstream>(stream), &context));
             error_ == cudaSuccess) {
    set(context);
  }
}

OnDevice::OnDevice() { begin(); }

OnDevice::~OnDevice() {
  if (current_ != before_) (void)driver_->context_set_current(before_);
  if (relaxed_) (void)driver_->exchange_capture_mode(&mode_);
}

void OnDevice::begin() {
  if (error_ = find_driver(driver_); error_ != cudaSuccess) return;
  if (error_ = error_of(driver_->context_get_current(&before_)); error_ != cudaSuccess) return;
  current_ = before_;
  error_ = error_of(driver_->exchange_capture_mode(&mode_));
  relaxed_ = error_ == cudaSuccess;
}

void OnDevice::set(CUcontext context) {
  if (context == current_) return;
  error_ = error_of(driver_->context_set_current(context));
  if (error_ == cudaSuccess) current_ = context;
}

void OnDevice::set_primary(int ordinal) {
  std::atomic<CUcontext>* const known = retained(ordinal);
  if (known == nullptr) {
    error_ = cudaErrorInvalidDevice;
    return;
  }
  if (CUcontext context = known->load(); context != nullptr) {
    if (set(context); error_ == cudaSuccess) return;
  }
  // The first time, or the caller has reset the device.
  CUdevice device = 0;
  CUcontext context = nullptr;
  error_ = error_of(driver_->device_get(&device, ordinal));
  if (error_ == cudaSuccess) error_ = error_of(driver_->primary_context_retain(&context, device));
  if (error_ != cudaSuccess) return;
  known->store(context);
  set(context);
}

}  // namespace memlease::cuda
