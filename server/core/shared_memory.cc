#include "server/core/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cstdlib>

namespace memlease::server {

void change_read_only(std::byte* data, std::uint64_t size_bytes, absl::FunctionRef<void()> change) {
  if (mprotect(data, size_bytes, PROT_READ | PROT_WRITE) != 0) std::abort();
  change();
  if (mprotect(data, size_bytes, PROT_READ) != 0) std::abort();
}

// A lease for reading is not given where somebody has the file open for writing, which a memfd's
// own descriptor does not count as: fcntl(2), F_SETLEASE. It goes with the descriptor.
bool SharedMemory::may_be_written_elsewhere() const {
  const auto reader = export_fd(false);
  return !reader.ok() || fcntl(reader->get(), F_SETLEASE, F_RDLCK) != 0;
}

// The seals are against other sizes; pages may go.
void take_pages(int fd, std::uint64_t size_bytes) {
  constexpr int kHole = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  (void)fallocate(fd, kHole, 0, static_cast<off_t>(size_bytes));
}

}  // namespace memlease::server
