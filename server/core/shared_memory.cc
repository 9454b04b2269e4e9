#include "server/core/shared_memory.h"

#include <sys/mman.h>

#include <cstdlib>

namespace memlease::server {

void change_read_only(std::byte* data, std::uint64_t size_bytes, absl::FunctionRef<void()> change) {
  if (mprotect(data, size_bytes, PROT_READ | PROT_WRITE) != 0) std::abort();
  change();
  if (mprotect(data, size_bytes, PROT_READ) != 0) std::abort();
}

}  // namespace memlease::server
