// Copies and fills. A copy that involves pageable host memory behaves as the driver's staging does:
// to the device, the bytes are taken when it is called; from the device, it returns when done.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace fakecuda {

class Runtime;
class Stream;

// `name` is the API's, for reports. `blocking`: the variant without Async.
struct Copy {
  const char* name;
  void* to;
  const void* from;
  std::size_t bytes;
  cudaMemcpyKind kind;
  bool blocking;
};
cudaError_t copy(Runtime& runtime, Stream& stream, const Copy& copy);
// Rows of `width` bytes.
cudaError_t copy_rows(Runtime& runtime, Stream& stream, const Copy& first, std::size_t to_pitch,
                      std::size_t from_pitch, std::size_t rows);
cudaError_t fill(Runtime& runtime, Stream& stream, const char* name, void* to, int value,
                 std::size_t bytes);

}  // namespace fakecuda
