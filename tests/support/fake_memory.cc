#include "tests/support/fake_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <utility>

#include "fmt/format.h"
#include "wire/error.h"
#include "wire/unique_fd.h"

namespace memlease::testing {
namespace {

using wire::ErrorCode;
using wire::UniqueFd;

class CountedMemfd : public server::SharedMemory {
 public:
  CountedMemfd(UniqueFd fd, std::uint64_t size_bytes, std::byte* data, bool read_only,
               FakeMemory::Live& live)
      : fd_(std::move(fd)),
        size_bytes_(size_bytes),
        data_(data),
        read_only_(read_only),
        live_(live) {
    ++live_.files;
    live_.bytes += size_bytes_;
  }
  ~CountedMemfd() override {
    if (data_ != nullptr) ::munmap(data_, size_bytes_);
    --live_.files;
    live_.bytes -= size_bytes_;
  }

  std::uint64_t size_bytes() const override { return size_bytes_; }
  std::byte* data() override { return data_; }
  void change(absl::FunctionRef<void()> change) override {
    read_only_ ? server::change_read_only(data_, size_bytes_, change) : change();
  }
  bool revoke() override { return server::take_pages(fd_.get(), size_bytes_); }

  absl::StatusOr<wire::SharedFd> export_fd(bool writable) override {
    const auto path = fmt::format("/proc/self/fd/{}", fd_.get());
    UniqueFd fd(::open(path.c_str(), (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC));
    if (!fd) return wire::errno_error(ErrorCode::kInternal, "reopening a fake file", errno);
    return wire::SharedFd(std::move(fd));
  }

 private:
  const UniqueFd fd_;
  const std::uint64_t size_bytes_;
  std::byte* const data_;
  const bool read_only_;
  FakeMemory::Live& live_;
};

absl::Status failed(const char* what) {
  return wire::errno_error(ErrorCode::kOutOfMemory, what, errno);
}

// protection: PROT_NONE leaves it unmapped.
absl::StatusOr<std::unique_ptr<server::SharedMemory>> make(std::uint64_t size_bytes, int protection,
                                                           bool sparse, FakeMemory::Live& live) {
  UniqueFd fd(::memfd_create("memlease-fake", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const auto size = static_cast<off_t>(size_bytes);
  if (!fd || ::fchmod(fd.get(), 0600) != 0 || ::ftruncate(fd.get(), size) != 0 ||
      (!sparse && ::fallocate(fd.get(), 0, 0, size) != 0) ||
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return failed("making a fake file");
  }
  void* data = nullptr;
  if (protection != PROT_NONE) {
    data = ::mmap(nullptr, size_bytes, protection, MAP_SHARED, fd.get(), 0);
    if (data == MAP_FAILED) return failed("mapping a fake file");
  }
  return std::make_unique<CountedMemfd>(std::move(fd), size_bytes, static_cast<std::byte*>(data),
                                        protection == PROT_READ, live);
}

int protection_of_pages(bool daemon_writes) {
  return daemon_writes ? PROT_READ | PROT_WRITE : PROT_READ;
}

}  // namespace

std::uint64_t FakeMemory::alignment_bytes(std::uint64_t size_bytes) const {
  return size_bytes > 4096 ? 4096 : 256;
}

absl::Status FakeMemory::has_room(std::uint64_t bytes) {
  if (bytes <= room_bytes_) return absl::OkStatus();
  return wire::make_error(wire::ErrorCode::kOutOfMemory, "there is no room");
}

void FakeMemory::fail(std::uint64_t first, std::uint64_t last) {
  calls_ = 0;
  first_failure_ = first;
  last_failure_ = last;
}

absl::Status FakeMemory::count_call(wire::ReserveKept kept) {
  ++calls_;
  if (has_reserve_ && kept != wire::ReserveKept::kAll) return absl::OkStatus();
  if (first_failure_ == 0 || calls_ < first_failure_ || calls_ > last_failure_) {
    return absl::OkStatus();
  }
  return wire::make_error(ErrorCode::kOutOfMemory,
                          fmt::format("the fake memory refuses call {}", calls_),
                          "The test wants it so.");
}

absl::StatusOr<std::unique_ptr<server::SharedMemory>> FakeMemory::create_segment(
    std::uint64_t size_bytes, wire::ReserveKept kept) {
  if (auto status = count_call(kept); !status.ok()) return status;
  return make(size_bytes, PROT_NONE, sparse_, live_);
}

absl::StatusOr<std::unique_ptr<server::SharedMemory>> FakeMemory::create_pages(
    std::uint64_t size_bytes, bool daemon_writes, wire::ReserveKept kept) {
  if (auto status = count_call(kept); !status.ok()) return status;
  return make(size_bytes, protection_of_pages(daemon_writes), sparse_, live_);
}

}  // namespace memlease::testing
