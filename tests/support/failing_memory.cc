// Loaded into a daemon before all else: its malloc() and mmap() and their like, which fail as a
// test says. They answer as they do where the kernel refuses memory, so operator new asks its
// handler, and what memleased has wrapped tries again. Of what a thread's stack or the C library's
// own mmap() take nothing is refused.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "server/memory_reserve.h"
#include "tests/support/refused_memory.h"
#include "tests/support/shared_with_test.h"

using memlease::testing::RefusedMemory;

namespace {

constexpr std::size_t kReserve = memlease::server::MemoryReserve::kBytes;

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): malloc() has no other way
std::atomic<RefusedMemory*> shared{nullptr};

// Whether this allocation fails.
bool is_refused() noexcept {
  RefusedMemory* const page = shared.load(std::memory_order_acquire);
  if (page == nullptr) return false;
  const std::uint32_t mode = page->mode.load();
  if (mode == RefusedMemory::kNothing) return false;
  const std::uint64_t number = page->counted.fetch_add(1) + 1;
  const std::uint64_t turn = page->turn.load();
  const bool spared = mode == RefusedMemory::kUntilReserve && page->reserve_is_given.load() != 0;
  const bool refused = mode == RefusedMemory::kOnce ? number == turn : number >= turn && !spared;
  if (refused) page->refused.fetch_add(1);
  return refused;
}

// In that time there is no room for a new reserve.
bool is_refused_reserve(std::size_t bytes) noexcept {
  RefusedMemory* const page = shared.load(std::memory_order_acquire);
  return page != nullptr && bytes == kReserve &&
         page->mode.load() == RefusedMemory::kUntilReserve && page->reserve_is_given.load() != 0;
}

__attribute__((constructor)) void share() noexcept {
  shared.store(memlease::testing::shared_with_test<RefusedMemory>(), std::memory_order_release);
}

void* no_memory() noexcept {
  errno = ENOMEM;
  return nullptr;
}

}  // namespace

// The C library's names.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {

void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* old, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

#define MEMLEASE_SHOWN __attribute__((visibility("default")))

MEMLEASE_SHOWN void* malloc(std::size_t bytes) noexcept {
  return is_refused() ? no_memory() : __libc_malloc(bytes);
}

MEMLEASE_SHOWN void* calloc(std::size_t count, std::size_t bytes) noexcept {
  return is_refused() ? no_memory() : __libc_calloc(count, bytes);
}

MEMLEASE_SHOWN void* realloc(void* old, std::size_t bytes) noexcept {
  return bytes != 0 && is_refused() ? no_memory() : __libc_realloc(old, bytes);
}

MEMLEASE_SHOWN void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
  return is_refused() ? no_memory() : __libc_memalign(alignment, bytes);
}

MEMLEASE_SHOWN void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  return is_refused() ? no_memory() : __libc_memalign(alignment, bytes);
}

MEMLEASE_SHOWN int posix_memalign(void** made, std::size_t alignment, std::size_t bytes) noexcept {
  void* const memory = is_refused() ? nullptr : __libc_memalign(alignment, bytes);
  if (memory == nullptr) return ENOMEM;
  *made = memory;
  return 0;
}

MEMLEASE_SHOWN void* mmap(void* at, std::size_t bytes, int access, int flags, int file,
                          off_t offset) noexcept {
  if (is_refused_reserve(bytes) || is_refused()) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return reinterpret_cast<void*>(::syscall(SYS_mmap, at, bytes, access, flags, file, offset));
}

MEMLEASE_SHOWN void* mmap64(void* at, std::size_t bytes, int access, int flags, int file,
                            off_t offset) noexcept {
  return mmap(at, bytes, access, flags, file, offset);
}

MEMLEASE_SHOWN int munmap(void* at, std::size_t bytes) noexcept {
  const long result = ::syscall(SYS_munmap, at, bytes);
  RefusedMemory* const page = shared.load(std::memory_order_acquire);
  if (page != nullptr && bytes == kReserve && page->refused.load() != 0) page->reserve_is_given = 1;
  return static_cast<int>(result);
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
