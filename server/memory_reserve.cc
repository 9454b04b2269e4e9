#include "server/memory_reserve.h"

#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <new>

namespace memlease::server {
namespace {

// A handler has no other way.
// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables)
std::atomic<void*> reserve{nullptr};         // null: it is not there
std::atomic<std::uint64_t> times_given{0};   // counted when the memory is the system's again
thread_local std::uint64_t times_known = 0;  // by this thread
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

// In its place while it is given away.
void* going() { return MAP_FAILED; }

void on_shortage() {
  if (!MemoryReserve::give_away()) throw std::bad_alloc();
}

}  // namespace

MemoryReserve::MemoryReserve() {
  pthread_attr_t threads;
  if (pthread_getattr_default_np(&threads) == 0) {
    pthread_attr_setstacksize(&threads, kStackBytes);
    pthread_setattr_default_np(&threads);
    pthread_attr_destroy(&threads);
  }
  mallopt(M_ARENA_MAX, 2);
  is_there();
  std::set_new_handler(on_shortage);
}

MemoryReserve::~MemoryReserve() {
  std::set_new_handler(nullptr);
  if (void* const taken = reserve.exchange(nullptr); taken != nullptr) munmap(taken, kBytes);
}

bool MemoryReserve::is_there() {
  if (void* const now = reserve.load(); now != nullptr) return now != going();
  void* const made =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) return false;
  void* none = nullptr;
  if (!reserve.compare_exchange_strong(none, made)) munmap(made, kBytes);
  return true;
}

bool MemoryReserve::give_away() noexcept {
  for (;;) {
    void* now = reserve.load();
    if (const std::uint64_t given = times_given.load(); given != times_known) {
      times_known = given;
      return true;
    }
    if (now == nullptr) return false;
    if (now == going()) {
      sched_yield();
    } else if (reserve.compare_exchange_strong(now, going())) {
      munmap(now, kBytes);
      times_known = times_given.fetch_add(1) + 1;
      reserve.store(nullptr);
      return true;
    }
  }
}

}  // namespace memlease::server
