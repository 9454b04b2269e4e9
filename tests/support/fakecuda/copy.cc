#include "tests/support/fakecuda/copy.h"

#include <cstring>
#include <vector>

#include "tests/support/fakecuda/runtime.h"
#include "tests/support/fakecuda/stream.h"

namespace fakecuda {
namespace {

// One end of a copy: memory that the device knows, or pageable memory of the host.
struct End {
  char* address = nullptr;
  bool known = false;
  bool on_device = false;
  std::size_t pitch = 0;
};

End end_at(Runtime& runtime, const void* address, std::size_t pitch) {
  const MappingPtr mapping = runtime.memory.find(address);
  return {static_cast<char*>(const_cast<void*>(address)), mapping != nullptr,
          mapping != nullptr && mapping->on_device(), pitch};
}

class CopyOperation : public Operation {
 public:
  CopyOperation(const char* name, End to, End from, std::size_t width, std::size_t rows)
      : Operation(name), to_(to), from_(from), width_(width), rows_(rows) {
    if (from_.known) return;
    staged_.resize(width_ * rows_);
    for (std::size_t row = 0; row < rows_; ++row) {
      std::memcpy(staged_.data() + row * width_, from_.address + row * from_.pitch, width_);
    }
    from_ = {staged_.data(), false, false, width_};
  }

  void run(Stream& stream) override {
    for (std::size_t row = 0; row < rows_; ++row) {
      MappingPtr keep_from;
      MappingPtr keep_to;
      char* from = from_.address + row * from_.pitch;
      char* to = to_.address + row * to_.pitch;
      if (from_.known) from = stream.access(from, width_, Access::kRead, keep_from);
      if (to_.known) to = stream.access(to, width_, Access::kWrite, keep_to);
      std::memmove(to, from, width_);
    }
  }

 private:
  const End to_;
  End from_;
  const std::size_t width_;
  const std::size_t rows_;
  std::vector<char> staged_;
};

class FillOperation : public Operation {
 public:
  FillOperation(const char* name, void* to, int value, std::size_t bytes)
      : Operation(name), to_(to), value_(value), bytes_(bytes) {}
  void run(Stream& stream) override {
    MappingPtr keep;
    std::memset(stream.access(to_, bytes_, Access::kWrite, keep), value_, bytes_);
  }

 private:
  void* const to_;
  const int value_;
  const std::size_t bytes_;
};

// Does the kind that the caller states contradict what the addresses are?
bool contradicts(cudaMemcpyKind kind, const End& to, const End& from) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return to.on_device || from.on_device;
    case cudaMemcpyHostToDevice:
      return !to.on_device || from.on_device;
    case cudaMemcpyDeviceToHost:
      return to.on_device || !from.on_device;
    case cudaMemcpyDeviceToDevice:
      return !to.on_device || !from.on_device;
    case cudaMemcpyDefault:
      break;
  }
  return false;
}

}  // namespace

cudaError_t copy(Runtime& runtime, Stream& stream, const Copy& copy) {
  return copy_rows(runtime, stream, copy, copy.bytes, copy.bytes, 1);
}

cudaError_t copy_rows(Runtime& runtime, Stream& stream, const Copy& copy, std::size_t to_pitch,
                      std::size_t from_pitch, std::size_t rows) {
  if (copy.bytes == 0 || rows == 0) return cudaSuccess;
  if (copy.to == nullptr || copy.from == nullptr) return cudaErrorInvalidValue;
  if (to_pitch < copy.bytes || from_pitch < copy.bytes) return cudaErrorInvalidPitchValue;
  const End to = end_at(runtime, copy.to, to_pitch);
  const End from = end_at(runtime, copy.from, from_pitch);
  if (contradicts(copy.kind, to, from)) return cudaErrorInvalidValue;
  // Staging is no work of a stream's.
  if (!to.known || !from.known) {
    const cudaError_t refused = runtime.captures.refuse_unsafe();
    if (refused != cudaSuccess) return refused;
  }
  const cudaError_t error =
      stream.enqueue(std::make_unique<CopyOperation>(copy.name, to, from, copy.bytes, rows));
  if (error != cudaSuccess) return error;
  // Staged bytes may still be on their way; between devices, nothing waits.
  const bool waits =
      !to.known || (copy.blocking && from.known && !(to.on_device && from.on_device));
  return waits ? stream.synchronize() : cudaSuccess;
}

cudaError_t fill(Runtime& runtime, Stream& stream, const char* name, void* to, int value,
                 std::size_t bytes) {
  if (bytes == 0) return cudaSuccess;
  if (runtime.memory.find(to) == nullptr) return cudaErrorInvalidValue;
  return stream.enqueue(std::make_unique<FillOperation>(name, to, value, bytes));
}

}  // namespace fakecuda
