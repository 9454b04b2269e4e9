#include "tests/contract/broken_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "fmt/format.h"
#include "wire/unique_fd.h"

namespace memlease::testing {
namespace {

class BrokenFile : public server::SharedMemory {
 public:
  BrokenFile(int fd, std::uint64_t size_bytes, int protection, Flaw flaw)
      : fd_(fd), size_bytes_(size_bytes), flaw_(flaw), read_only_(protection == PROT_READ) {
    if (protection == PROT_NONE) return;
    data_ =
        static_cast<std::byte*>(::mmap(nullptr, size_bytes_, protection, MAP_SHARED, fd_.get(), 0));
  }
  ~BrokenFile() override {
    if (data_ != nullptr) ::munmap(data_, size_bytes_);
    if (flaw_ == Flaw::kAlwaysRevoked) server::take_pages(fd_.get(), size_bytes_);
    if (flaw_ == Flaw::kLeaksDescriptor) fd_.release();
  }
  std::uint64_t size_bytes() const override { return size_bytes_; }
  std::byte* data() override { return data_; }
  void change(absl::FunctionRef<void()> change) override {
    if (!read_only_) return change();
    if (flaw_ == Flaw::kNeverChanges) return;
    server::change_read_only(data_, size_bytes_, change);
    if (flaw_ == Flaw::kStaysOpen) (void)::mprotect(data_, size_bytes_, PROT_READ | PROT_WRITE);
  }
  server::Elsewhere elsewhere() override {
    if (flaw_ == Flaw::kSeesNoWriter) return server::Elsewhere::kNoWriter;
    if (flaw_ == Flaw::kSeesWriters) return server::Elsewhere::kWriter;
    return SharedMemory::elsewhere();
  }
  bool revoke() override {
    return flaw_ == Flaw::kNeverRevoked || server::take_pages(fd_.get(), size_bytes_);
  }
  absl::StatusOr<wire::SharedFd> export_fd(bool writable) override {
    const int access = writable || flaw_ == Flaw::kWritableExport ? O_RDWR : O_RDONLY;
    const int cloexec = flaw_ == Flaw::kSurvivesExec ? 0 : O_CLOEXEC;
    const auto path = fmt::format("/proc/self/fd/{}", fd_.get());
    return wire::SharedFd(wire::UniqueFd(::open(path.c_str(), access | cloexec)));
  }

 private:
  wire::UniqueFd fd_;
  const std::uint64_t size_bytes_;
  const Flaw flaw_;
  const bool read_only_;
  std::byte* data_ = nullptr;
};

}  // namespace

std::unique_ptr<server::SharedMemory> BrokenMemory::make(std::uint64_t size_bytes,
                                                         int protection) const {
  const auto size = static_cast<off_t>(size_bytes);
  const int fd = ::memfd_create("memlease-broken", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  bool ok = ::fchmod(fd, flaw_ == Flaw::kOpenMode ? 0777 : 0600) == 0 && ::ftruncate(fd, size) == 0;
  if (flaw_ != Flaw::kNotCommitted) ok = ok && ::fallocate(fd, 0, 0, size) == 0;
  if (flaw_ == Flaw::kNotZeroed) ok = ok && ::pwrite(fd, "old", 3, 1000) == 3;
  if (flaw_ != Flaw::kNoSeals) {
    ok = ok && ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
  }
  if (!ok) return nullptr;
  if (flaw_ == Flaw::kDaemonMapsAll) protection = PROT_READ | PROT_WRITE;
  return std::make_unique<BrokenFile>(fd, size_bytes, protection, flaw_);
}

absl::StatusOr<std::unique_ptr<server::SharedMemory>> BrokenMemory::create_segment(
    std::uint64_t size_bytes, wire::ReserveKept /*kept*/) {
  return make(size_bytes, PROT_NONE);
}

absl::StatusOr<std::unique_ptr<server::SharedMemory>> BrokenMemory::create_pages(
    std::uint64_t size_bytes, bool daemon_writes, wire::ReserveKept /*kept*/) {
  return make(size_bytes, daemon_writes ? PROT_READ | PROT_WRITE : PROT_READ);
}

}  // namespace memlease::testing
