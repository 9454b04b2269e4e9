#include "server/core/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>

#include "absl/cleanup/cleanup.h"

namespace memlease::server {

void change_read_only(std::byte* data, std::uint64_t size_bytes, absl::FunctionRef<void()> change) {
  if (mprotect(data, size_bytes, PROT_READ | PROT_WRITE) != 0) std::abort();
  change();
  if (mprotect(data, size_bytes, PROT_READ) != 0) std::abort();
}

namespace {

// The kernel gives leases under a lock that whoever reads /proc/locks has, and there may be very
// many locks of files. So the daemon, which asks under its own lock, asks seldom where that takes
// long.
class LeasePause {
 public:
  bool is_over() const { return std::chrono::steady_clock::now() >= until_.load(); }
  void note(std::chrono::steady_clock::time_point before) {
    const auto now = std::chrono::steady_clock::now();
    if (now - before > kLong) until_.store(now + 20 * (now - before));
  }

 private:
  static constexpr std::chrono::milliseconds kLong{20};  // longer than a thread waits for its turn
  std::atomic<std::chrono::steady_clock::time_point> until_{};
};

LeasePause& lease_pause() {
  static LeasePause pause;
  return pause;
}

}  // namespace

// A lease for reading is not given where somebody has the file open for writing, which a memfd's
// own descriptor does not count as: fcntl(2), F_SETLEASE. It goes with the descriptor.
Elsewhere SharedMemory::elsewhere() const {
  if (handle() != nullptr) return Elsewhere::kUnknown;
  if (!lease_pause().is_over()) return Elsewhere::kWriter;  // perhaps
  const auto before = std::chrono::steady_clock::now();
  const absl::Cleanup took = [&] { lease_pause().note(before); };
  const auto reader = export_fd(false);
  if (!reader.ok()) return Elsewhere::kWriter;  // perhaps: there is no descriptor to ask by
  if (fcntl(reader->get(), F_SETLEASE, F_RDLCK) == 0) return Elsewhere::kNoWriter;
  return errno == EAGAIN ? Elsewhere::kWriter : Elsewhere::kUnknown;
}

// The seals are against other sizes; pages may go.
void take_pages(int fd, std::uint64_t size_bytes) {
  constexpr int kHole = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  (void)fallocate(fd, kHole, 0, static_cast<off_t>(size_bytes));
}

}  // namespace memlease::server
