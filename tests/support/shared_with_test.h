// The half of tests/support/shared_with_daemon.h for the library that is loaded into the daemon. By
// system calls alone: the library stands before the functions that would make them.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>

namespace memlease::testing {

// nullptr where no test shares one with this process.
template <typename T>
T* shared_with_test() noexcept {
  const char* const path = std::getenv(T::kVariable);
  if (path == nullptr) return nullptr;
  const long file = ::syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
  if (file < 0) std::abort();
  const long at =
      ::syscall(SYS_mmap, nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == -1) std::abort();
  ::syscall(SYS_close, file);
  return reinterpret_cast<T*>(at);
}

}  // namespace memlease::testing
