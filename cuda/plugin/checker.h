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
  void (*keep_stream)();  // a stream that is never destroyed is no leak
};
const Checker& checker();

// Whoever has a handle knows what its maker did before giving it away; its maker, before the memory
// goes, what the hosts of those who have closed it knew then.
enum class Told : std::uint64_t { kMade, kClosed };
void tell(const memlease_cuda_handle& handle, Told what);
void hear(const memlease_cuda_handle& handle, Told what);

}  // namespace memlease::cuda
