#include "client/cuda/cuda_importer.h"

#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "client/session/fork_guard.h"
#include "fmt/format.h"
#include "wire/error.h"
#include "wire/held_mutexes.h"

namespace memlease::internal {
namespace {

using wire::ErrorCode;

// NOLINTNEXTLINE(performance-no-int-to-ptr): it was one; array protocols pass streams as numbers
void* pointer_of(Stream stream) { return reinterpret_cast<void*>(stream.handle()); }

memlease_cuda_handle handle_of(const wire::DeviceHandle& from) {
  memlease_cuda_handle handle;
  std::memcpy(handle.bytes, from.data(), from.size());
  return handle;
}

class CudaMemory : public DeviceMemory {
 public:
  CudaMemory(CudaImporter& importer, void* address, std::uint64_t size_bytes,
             const memlease_cuda_handle& handle)
      : importer_(importer), address_(address), size_bytes_(size_bytes), handle_(handle) {}
  ~CudaMemory() override {
    if (fork_generation_ == fork_generation()) {
      wire::expect_no_mutex_held("the closing of a GPU's memory");
      (void)importer_.cuda().close_memory(importer_.ordinal(), address_, &handle_);
    }
  }

  std::byte* data() const override { return static_cast<std::byte*>(address_); }
  std::uint64_t size_bytes() const override { return size_bytes_; }

 private:
  CudaImporter& importer_;
  void* const address_;
  const std::uint64_t size_bytes_;
  const memlease_cuda_handle handle_;
  const std::uint32_t fork_generation_ = fork_generation();
};

bool is_of_capture(std::int32_t code) {
  return code >= MEMLEASE_CUDA_FIRST_OF_CAPTURE && code <= MEMLEASE_CUDA_LAST_OF_CAPTURE;
}

class CudaMark : public StreamMark {
 public:
  CudaMark(CudaImporter& importer, void* event) : importer_(importer), event_(event) {}
  ~CudaMark() override {
    if (fork_generation_ == fork_generation()) {
      (void)importer_.cuda().close_mark(importer_.ordinal(), event_);
    }
  }

  absl::StatusOr<bool> complete() override {
    const std::int32_t code = importer_.cuda().query(importer_.ordinal(), event_);
    // A capture that forbids the question says nothing of the mark.
    if (code == MEMLEASE_CUDA_NOT_READY || is_of_capture(code)) return false;
    if (code == MEMLEASE_CUDA_OK) return true;
    return importer_.error(code, "asking for an event");
  }

 private:
  CudaImporter& importer_;
  void* const event_;
  const std::uint32_t fork_generation_ = fork_generation();
};

class CudaPages : public RegisteredPages {
 public:
  CudaPages(CudaImporter& importer, std::byte* pages) : importer_(importer), pages_(pages) {}
  ~CudaPages() override {
    if (fork_generation_ == fork_generation()) {
      wire::expect_no_mutex_held("the end of a registration of pages");
      (void)importer_.cuda().unregister_pages(importer_.ordinal(), pages_);
    }
  }

 private:
  CudaImporter& importer_;
  std::byte* const pages_;
  const std::uint32_t fork_generation_ = fork_generation();
};

constexpr const char* kMemoryApart =
    "Usually the daemon and this process are in PID namespaces of their own: start the containers "
    "of both with --pid=host (Kubernetes: hostPID). If not: restart this process.";
constexpr const char* kOutsideOfCapture =
    "Take and end leases outside of the capture: a graph cannot wait for versions that come later.";

// What opening memory of the daemon's failed with; `usually` is what to do where the
// driver does not find it from here.
absl::Status unreachable(std::int32_t code, const absl::Status& failed, const char* usually) {
  switch (code) {
    case MEMLEASE_CUDA_DEVICE_UNINITIALIZED:
    case MEMLEASE_CUDA_MAP_FAILED:
    case MEMLEASE_CUDA_INVALID_HANDLE:
      return wire::make_error(ErrorCode::kUnsupported, wire::message_of(failed), usually);
    case MEMLEASE_CUDA_NOT_SUPPORTED:
      return wire::make_error(ErrorCode::kUnsupported, wire::message_of(failed),
                              "This GPU or driver has no CUDA IPC between these processes: not "
                              "between MIG instances, nor on Tegra. Use device 'host'.");
    default:
      return failed;
  }
}

// N of "cuda:N", spelled in the one way that it has; 0 of "cuda".
std::optional<std::size_t> ordinal_of(std::string_view device) {
  constexpr std::string_view kPrefix = "cuda:";
  if (device == "cuda") return 0;
  if (!device.starts_with(kPrefix)) return std::nullopt;
  const std::string digits(device.substr(kPrefix.size()));
  std::uint32_t ordinal = 0;
  if (!absl::SimpleAtoi(digits, &ordinal) || fmt::format("{}", ordinal) != digits) {
    return std::nullopt;
  }
  return ordinal;
}

}  // namespace

// ---- CudaImporter.

absl::Status CudaImporter::error(std::int32_t code, const std::string& what) const {
  return cuda::cuda_error(cuda_, code,
                          fmt::format("{} on {} (cuda:{})", what, gpu_.uuid, gpu_.ordinal),
                          "After an error of its GPU a process must be restarted; the daemon and "
                          "other processes go on.");
}

absl::StatusOr<std::unique_ptr<DeviceMemory>> CudaImporter::open_memory(
    const wire::DeviceHandle& handle, std::uint64_t size_bytes) {
  const memlease_cuda_handle exported = handle_of(handle);
  wire::expect_no_mutex_held("the opening of a GPU's memory");
  void* address = nullptr;
  const std::int32_t code = cuda_.open_memory(gpu_.ordinal, &exported, &address);
  if (code != MEMLEASE_CUDA_OK) {
    return unreachable(code, error(code, "opening the daemon's memory"), kMemoryApart);
  }
  return std::make_unique<CudaMemory>(*this, address, size_bytes, exported);
}

bool CudaImporter::orders_by_words() {
  std::int32_t does = 0;
  return cuda_.orders_by_words(gpu_.ordinal, &does) == MEMLEASE_CUDA_OK && does != 0;
}

absl::Status CudaImporter::write_word(wire::Word& word, std::uint64_t value, Stream stream) {
  const std::int32_t code = cuda_.write_word(gpu_.ordinal, &word, value, pointer_of(stream));
  return code == MEMLEASE_CUDA_OK ? absl::OkStatus() : error(code, "recording an event");
}

absl::Status CudaImporter::wait_for_word(const wire::Word& word, std::uint64_t value,
                                         Stream stream) {
  const std::int32_t code = cuda_.wait_for_word(gpu_.ordinal, &word, value, pointer_of(stream));
  return code == MEMLEASE_CUDA_OK ? absl::OkStatus() : error(code, "making a stream wait");
}

absl::Status CudaImporter::check_device() {
  const auto stream = joining_stream();
  if (!stream.ok()) return stream.status();
  const std::int32_t code = cuda_.check_device(gpu_.ordinal, pointer_of(*stream));
  return code == MEMLEASE_CUDA_OK || is_of_capture(code) ? absl::OkStatus()
                                                         : error(code, "asking for an event");
}

absl::StatusOr<std::unique_ptr<StreamMark>> CudaImporter::mark(Stream stream) {
  void* event = nullptr;
  const std::int32_t code = cuda_.mark(gpu_.ordinal, pointer_of(stream), &event);
  if (code != MEMLEASE_CUDA_OK) return error(code, "recording an event of this process");
  return std::make_unique<CudaMark>(*this, event);
}

absl::Status CudaImporter::order(Stream before, Stream after) {
  const std::int32_t code = cuda_.order(gpu_.ordinal, pointer_of(before), pointer_of(after));
  return code == MEMLEASE_CUDA_OK ? absl::OkStatus()
                                  : error(code, "making a stream wait for another");
}

absl::Status CudaImporter::check_stream(Stream stream) {
  std::int32_t capturing = 0;
  std::int32_t code = cuda_.is_capturing(gpu_.ordinal, pointer_of(stream), &capturing);
  std::int32_t ordinal = gpu_.ordinal;
  // The default streams are taken as those of this device. One that captures is not to be asked.
  if (code == MEMLEASE_CUDA_OK && capturing == 0 && stream.handle() > 2) {
    code = cuda_.stream_device(pointer_of(stream), &ordinal);
  }
  if (is_of_capture(code)) {
    return wire::make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("stream {:#x} depends on one that is capturing a graph", stream.handle()),
        kOutsideOfCapture);
  }
  if (code != MEMLEASE_CUDA_OK) {
    absl::Status failed = error(code, fmt::format("stream {:#x}", stream.handle()));
    if (code != MEMLEASE_CUDA_INVALID_VALUE && code != MEMLEASE_CUDA_INVALID_HANDLE) return failed;
    return wire::make_error(ErrorCode::kInvalidArgument, wire::message_of(failed),
                            "Pass a stream that has not been destroyed.");
  }
  if (capturing != 0) {
    return wire::make_error(ErrorCode::kInvalidArgument,
                            fmt::format("stream {:#x} is capturing a graph", stream.handle()),
                            kOutsideOfCapture);
  }
  if (ordinal != gpu_.ordinal) {
    return wire::make_error(ErrorCode::kInvalidArgument,
                            fmt::format("stream {:#x} is one of cuda:{}, the array is on cuda:{}",
                                        stream.handle(), ordinal, gpu_.ordinal),
                            "Pass a stream of the array's device.");
  }
  return absl::OkStatus();
}

bool CudaImporter::is_capturing(Stream stream) {
  std::int32_t capturing = 0;
  const std::int32_t code = cuda_.is_capturing(gpu_.ordinal, pointer_of(stream), &capturing);
  return capturing != 0 || is_of_capture(code);
}

absl::StatusOr<Stream> CudaImporter::make(Stream& stream) {
  if (stream) return stream;
  void* made = nullptr;
  const std::int32_t code = cuda_.create_stream(gpu_.ordinal, &made);
  if (code != MEMLEASE_CUDA_OK) return error(code, "making a stream");
  stream = Stream::from_handle(reinterpret_cast<std::uintptr_t>(made));
  return stream;
}

absl::StatusOr<Stream> CudaImporter::joining_stream() {
  const wire::MutexLock lock(mutex_);
  return make(joining_);
}

absl::StatusOr<Stream> CudaImporter::export_stream() {
  const wire::MutexLock lock(mutex_);
  return make(exports_[next_export_++ % exports_.size()]);
}

absl::StatusOr<Stream> CudaImporter::copy_stream() {
  const wire::MutexLock lock(mutex_);
  return make(copying_);
}

absl::Status CudaImporter::synchronize() {
  wire::expect_no_mutex_held("a wait for a GPU");
  const std::int32_t code = cuda_.synchronize_device(gpu_.ordinal);
  if (is_of_capture(code)) {
    return wire::make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("cuda:{} cannot be waited for while a stream of this process captures a graph",
                    gpu_.ordinal),
        "End the lease by a stream, or after the capture. Its slot is kept until then. A capture "
        "on a non-blocking stream is lost by this.");
  }
  return code == MEMLEASE_CUDA_OK ? absl::OkStatus() : error(code, "waiting for the GPU");
}

absl::Status CudaImporter::copy(void* to, const void* from, std::uint64_t size_bytes,
                                Stream stream) {
  const std::int32_t code = cuda_.copy(gpu_.ordinal, to, from, size_bytes, pointer_of(stream));
  return code == MEMLEASE_CUDA_OK ? absl::OkStatus() : error(code, "copying");
}

absl::Status CudaImporter::copy_rows(std::byte* to, const std::byte* from, const Rows& rows,
                                     Stream stream) {
  if (rows.count == 1) return copy(to + rows.to, from + rows.from, rows.bytes, stream);
  const memlease_cuda_rows given{to + rows.to,    from + rows.from, rows.to_pitch,
                                 rows.from_pitch, rows.bytes,       rows.count};
  const std::int32_t code = cuda_.copy_rows(gpu_.ordinal, &given, pointer_of(stream));
  return code == MEMLEASE_CUDA_OK ? absl::OkStatus() : error(code, "copying");
}

absl::StatusOr<std::unique_ptr<RegisteredPages>> CudaImporter::register_pages(
    std::byte* pages, std::uint64_t size_bytes, bool writable) {
  wire::expect_no_mutex_held("the registration of pages");
  const std::int32_t code = cuda_.register_pages(gpu_.ordinal, pages, size_bytes, writable ? 0 : 1);
  if (code != MEMLEASE_CUDA_OK) return error(code, "registering pages of the host");
  return std::make_unique<CudaPages>(*this, pages);
}

void CudaImporter::checker_release(std::uint64_t key, std::uint64_t value) {
  if (cuda_.release != nullptr) cuda_.release(key, value);
}

void CudaImporter::checker_saw(const wire::Word& word) {
  if (cuda_.saw != nullptr) cuda_.saw(&word);
}

void CudaImporter::checker_acquire(std::uint64_t key, std::uint64_t value) {
  if (cuda_.acquire != nullptr) cuda_.acquire(key, value);
}

// ---- CudaImporters.

CudaImporters& CudaImporters::instance() {
  static CudaImporters* const the_importers = new CudaImporters;
  return *the_importers;
}

absl::StatusOr<const CudaImporters::Importers*> CudaImporters::look() {
  const wire::MutexLock lock(mutex_);
  if (importers_) return &*importers_;
  const auto cuda = cuda::load_plugin();
  if (!cuda.ok()) return cuda.status();
  const auto gpus = cuda::visible_gpus(**cuda);
  if (!gpus.ok()) return gpus.status();
  Importers importers;
  for (const cuda::Gpu& gpu : *gpus) {
    importers.push_back(std::make_unique<CudaImporter>(**cuda, gpu));
  }
  return &importers_.emplace(std::move(importers));
}

absl::StatusOr<std::string> CudaImporters::resolve(const std::string& device) {
  if (device == "host" || device == "cpu") return "host";
  if (device.starts_with("GPU-")) return device;
  const std::optional<std::size_t> ordinal = ordinal_of(device);
  if (!ordinal) {
    return wire::make_error(
        ErrorCode::kInvalidArgument, fmt::format("'{}' is not a device", device),
        "Say 'host', 'cuda', 'cuda:N' (N: 0, 1, 2, ...), or a GPU's UUID (nvidia-smi -L).");
  }
  const auto importers = look();
  if (!importers.ok()) return importers.status();
  if (*ordinal >= (*importers)->size()) {
    return wire::make_error(
        ErrorCode::kUnsupported,
        fmt::format("there is no {}: this process sees {} GPUs", device, (*importers)->size()),
        "Look at CUDA_VISIBLE_DEVICES, and at what the container was given.");
  }
  return (**importers)[*ordinal]->device();
}

absl::StatusOr<Importer*> CudaImporters::importer(const std::string& uuid) {
  const auto importers = look();
  if (!importers.ok()) return importers.status();
  for (const auto& importer : **importers) {
    if (importer->device() == uuid) return importer.get();
  }
  return wire::make_error(
      ErrorCode::kUnsupported, fmt::format("{} is not visible to this process", uuid),
      "Add it to CUDA_VISIBLE_DEVICES, or give it to the container (--gpus, --device).");
}

absl::StatusOr<Importer*> CudaImporters::holder(const void* address) {
  const auto importers = look();
  if (!importers.ok()) return importers.status();
  if ((*importers)->empty()) {
    return wire::make_error(ErrorCode::kUnsupported, "this process sees no GPU",
                            "Look at CUDA_VISIBLE_DEVICES, and at what the container was given.");
  }
  const memlease_cuda_table& cuda = (*importers)->front()->cuda();
  std::int32_t ordinal = -1;
  const std::int32_t code = cuda.pointer_device(address, &ordinal);
  if (code == MEMLEASE_CUDA_OK && ordinal >= 0) return (*importers)->at(ordinal).get();
  return wire::make_error(ErrorCode::kInvalidArgument,
                          fmt::format("the address {} is in no GPU's memory", address),
                          "Give elements that lie in a GPU's own memory, or a host array.");
}

}  // namespace memlease::internal
