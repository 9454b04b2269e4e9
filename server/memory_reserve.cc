#include "server/memory_reserve.h"

#include <sys/mman.h>

#include <atomic>
#include <new>

namespace memlease::server {
namespace {

// A handler has no other way. Null: it is not there.
std::atomic<void*> reserve{nullptr};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

void on_shortage() {
  if (!MemoryReserve::give_away()) throw std::bad_alloc();
}

}  // namespace

MemoryReserve::MemoryReserve() {
  is_there();
  std::set_new_handler(on_shortage);
}

MemoryReserve::~MemoryReserve() {
  std::set_new_handler(nullptr);
  give_away();
}

bool MemoryReserve::is_there() {
  if (reserve.load() != nullptr) return true;
  void* const made =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) return false;
  void* none = nullptr;
  if (!reserve.compare_exchange_strong(none, made)) munmap(made, kBytes);
  return true;
}

bool MemoryReserve::give_away() noexcept {
  void* const given = reserve.exchange(nullptr);
  if (given != nullptr) munmap(given, kBytes);
  return given != nullptr;
}

}  // namespace memlease::server
