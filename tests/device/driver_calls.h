// The driver's functions that tests call, found by name as a program does that links no driver.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdlib>

namespace memlease::testing {

// Function is the type that CUDA 13's headers give to the name.
template <class Function>
Function* driver_call(const char* name) {
  constexpr unsigned kVersion = 12050;
  void* function = nullptr;
  auto found = cudaDriverEntryPointSymbolNotFound;
  (void)cudaGetDriverEntryPointByVersion(name, &function, kVersion, cudaEnableLegacyStream, &found);
  if (function == nullptr) std::abort();
  return reinterpret_cast<Function*>(function);
}

// cuCtxGetCurrent and others, as MEMLEASE_DRIVER(cuCtxGetCurrent)(&context).
#define MEMLEASE_DRIVER(name) ::memlease::testing::driver_call<decltype(name)>(#name)

}  // namespace memlease::testing
