// Finds libmemlease_cuda.so and loads it, once in a process. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cuda/plugin.h"

namespace memlease::cuda {

// kUnsupported: the library is not here (a build without CUDA's headers, or not installed), cannot
// be loaded (no CUDA runtime: the message says where it was looked for), or is of another version.
// Tried again at the next call.
absl::StatusOr<const memlease_cuda_table*> load_plugin();

// A GPU as this process sees it.
struct Gpu {
  std::string uuid;  // "GPU-6a9f…": the word on the wire
  std::string name;
  std::uint64_t total_bytes = 0;
  std::int32_t ordinal = 0;
  bool ipc = false;
};
// All that are visible here. kUnsupported without a driver, or with one that is too old, which is
// named with the oldest that serves.
absl::StatusOr<std::vector<Gpu>> visible_gpus(const memlease_cuda_table& cuda);

// kOutOfMemory, kForkedClient where CUDA cannot be initialised, or kInternal. `what`: the call in
// words, "opening memory of GPU-6a9f…".
absl::Status cuda_error(const memlease_cuda_table& cuda, std::int32_t error,
                        const std::string& what, const std::string& hint = "");

}  // namespace memlease::cuda
