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

// The seals are against other sizes; pages may go.
void take_pages(int fd, std::uint64_t size_bytes) {
  constexpr int kHole = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  (void)fallocate(fd, kHole, 0, static_cast<off_t>(size_bytes));
}

}  // namespace memlease::server
