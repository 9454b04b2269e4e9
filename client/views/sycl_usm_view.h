// Elements as __sycl_usm_array_interface__ describes them: it counts strides and the offset in
// elements, where memlease and the CUDA array interface count bytes. Arithmetic alone: nothing here
// knows Python, or needs a SYCL runtime. Thread-safe, as there is no state.
#pragma once

#include <memlease/dtype.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace memlease::views {

// Fields of the interface, by their names there.
struct UsmArray {
  std::string typestr;
  std::vector<std::int64_t> shape;
  std::optional<std::vector<std::int64_t>> strides;  // none: C order
  std::int64_t offset = 0;                           // of the first element, from `data`
};

// The fields of an array whose first element is at `data`; no strides where it is in C order, or
// has no elements. Throws memlease::Error Unsupported where SYCL cannot name the type, or a stride
// is no multiple of the element.
UsmArray describe_usm(DType dtype, const std::vector<std::int64_t>& shape,
                      const std::vector<std::int64_t>& strides_bytes);

// The same array in bytes.
struct UsmBytes {
  DType dtype;
  std::vector<std::int64_t> strides_bytes;  // as in C order where they mean nothing
  std::int64_t begin = 0;                   // the lowest byte of any element, from `data`
  std::int64_t first = 0;                   // the first element, from `begin`
  std::int64_t size_bytes = 0;              // from `begin` to the end of the last; 0: no elements
};

// Throws memlease::Error InvalidArgument where the fields contradict each other or reach further
// than 63 bits can say, and Unsupported for a type that memlease or the interface does not have, or
// of the other byte order.
UsmBytes locate_usm(const UsmArray& array);

}  // namespace memlease::views
