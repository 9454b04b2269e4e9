#include <pthread.h>

#include <atomic>

#include "python/bindings/bindings.h"

namespace memlease::python {
namespace {

std::atomic<std::uint32_t> number{1};

// When the module is loaded.
[[maybe_unused]] const int kRegistered =
    pthread_atfork(nullptr, nullptr, [] { number.fetch_add(1, std::memory_order_relaxed); });

}  // namespace

std::uint32_t fork_number() { return number.load(std::memory_order_relaxed); }

}  // namespace memlease::python
