// What malloc() and its like are in memleased, where the linker leads their callers here (--wrap in
// server/CMakeLists.txt): gRPC and abseil end the process when they get nothing, and ask no
// handler.
#include <sys/mman.h>

#include <cerrno>
#include <cstddef>

#include "server/memory_reserve.h"

namespace {

// Arrays are larger, and are refused. abseil's own memory comes in small pieces.
constexpr std::size_t kSmallMap = std::size_t{1} << 20;

// What `make` gives, which is asked again while it `failed` and the reserve helps.
template <typename Make, typename Failed>
auto with_reserve(Make make, Failed failed) {
  auto made = make();
  while (failed(made) && memlease::server::MemoryReserve::give_away()) made = make();
  return made;
}

bool is_null(const void* made) { return made == nullptr; }

}  // namespace

// The linker's names.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {

void* __real_malloc(std::size_t bytes);
void* __real_calloc(std::size_t count, std::size_t bytes);
void* __real_realloc(void* old, std::size_t bytes);
int __real_posix_memalign(void** made, std::size_t alignment, std::size_t bytes);
void* __real_mmap(void* at, std::size_t bytes, int access, int flags, int fd, off_t offset);

void* __wrap_malloc(std::size_t bytes) {
  return with_reserve([&] { return __real_malloc(bytes); }, is_null);
}

void* __wrap_calloc(std::size_t count, std::size_t bytes) {
  return with_reserve([&] { return __real_calloc(count, bytes); }, is_null);
}

void* __wrap_realloc(void* old, std::size_t bytes) {
  if (bytes == 0) return __real_realloc(old, bytes);
  return with_reserve([&] { return __real_realloc(old, bytes); }, is_null);
}

int __wrap_posix_memalign(void** made, std::size_t alignment, std::size_t bytes) {
  return with_reserve([&] { return __real_posix_memalign(made, alignment, bytes); },
                      [](int error) { return error == ENOMEM; });
}

void* __wrap_mmap(void* at, std::size_t bytes, int access, int flags, int fd, off_t offset) {
  return with_reserve([&] { return __real_mmap(at, bytes, access, flags, fd, offset); },
                      [&](const void* made) {
                        return made == MAP_FAILED && errno == ENOMEM && bytes <= kSmallMap;
                      });
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
