#include "server/core/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdlib>

namespace memlease::server {

void change_read_only(std::byte* data, std::uint64_t size_bytes, absl::FunctionRef<void()> change) {
  if (mprotect(data, size_bytes, PROT_READ | PROT_WRITE) != 0) std::abort();
  change();
  if (mprotect(data, size_bytes, PROT_READ) != 0) std::abort();
}

// A lease for reading is not given where somebody has the file open for writing, which a memfd's
// own descriptor does not count as: fcntl(2), F_SETLEASE. It is the open file's, which others have.
Elsewhere elsewhere_by_lease(int reader) {
  if (fcntl(reader, F_SETLEASE, F_RDLCK) != 0) {
    return errno == EAGAIN ? Elsewhere::kWriter : Elsewhere::kUnknown;
  }
  (void)fcntl(reader, F_SETLEASE, F_UNLCK);
  return Elsewhere::kNoWriter;
}

Elsewhere SharedMemory::elsewhere() {
  if (handle() != nullptr) return Elsewhere::kUnknown;
  const auto reader = export_fd(false);
  // Perhaps: there is no descriptor to ask by.
  return reader.ok() ? elsewhere_by_lease(reader->get()) : Elsewhere::kWriter;
}

// The seals are against other sizes; pages may go.
bool take_pages(int fd, std::uint64_t size_bytes) {
  constexpr int kHole = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  return fallocate(fd, kHole, 0, static_cast<off_t>(size_bytes)) == 0;
}

}  // namespace memlease::server
