// A stand-in of the runtime library may look for races. It sees what streams and events order, and
// must be told what two hosts learn of each other by other means. Nothing happens on the real
// library.
#pragma once

#include <cstdint>

#include "cuda/plugin.h"

namespace memlease::cuda {

struct Checker {
  void (*release)(std::uint64_t key, std::uint64_t value);
  void (*acquire)(std::uint64_t key, std::uint64_t value);
  void (*exited)(std::uint32_t pid);
  void (*saw)(const void* word);
  void (*keep_stream)();  // a stream that is never destroyed is no leak
};
const Checker& checker();

// Two facts order the hosts that share a handle. Whoever acquires one sees all that happened before
// its release: an importer what the exporter did before it gave the handle away, and the exporter,
// before the memory goes, what importers did before they closed it.
enum class HandleFact : std::uint64_t { kExported, kClosed };
void checker_release(const memlease_cuda_handle& handle, HandleFact fact);
void checker_acquire(const memlease_cuda_handle& handle, HandleFact fact);

}  // namespace memlease::cuda
