#include "cuda/plugin/checker.h"

#include <dlfcn.h>

namespace memlease::cuda {
namespace {

// FNV-1a: the same in every process.
std::uint64_t key_of(const memlease_cuda_handle& handle) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::uint8_t byte : handle.bytes) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

}  // namespace

const Checker& checker() {
  static const Checker the_checker = [] {
    Checker found{};
    void* const runtime = dlopen("libcudart.so.13", RTLD_LAZY | RTLD_NOLOAD);
    if (runtime == nullptr) return found;
    found.release = reinterpret_cast<decltype(found.release)>(dlsym(runtime, "fakecuda_release"));
    found.acquire = reinterpret_cast<decltype(found.acquire)>(dlsym(runtime, "fakecuda_acquire"));
    found.exited =
        reinterpret_cast<decltype(found.exited)>(dlsym(runtime, "fakecuda_observe_exit"));
    found.saw = reinterpret_cast<decltype(found.saw)>(dlsym(runtime, "fakecuda_saw"));
    found.keep_stream =
        reinterpret_cast<decltype(found.keep_stream)>(dlsym(runtime, "fakecuda_keep_stream"));
    return found;
  }();
  return the_checker;
}

void checker_release(const memlease_cuda_handle& handle, HandleFact fact) {
  if (checker().release != nullptr) {
    checker().release(key_of(handle), static_cast<std::uint64_t>(fact));
  }
}

void checker_acquire(const memlease_cuda_handle& handle, HandleFact fact) {
  if (checker().acquire != nullptr) {
    checker().acquire(key_of(handle), static_cast<std::uint64_t>(fact));
  }
}

}  // namespace memlease::cuda
