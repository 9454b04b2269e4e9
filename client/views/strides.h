// Strides in bytes, as memlease keeps them, and in elements, as DLPack and SYCL count them.
#pragma once

#include <memlease/dtype.h>

#include <cstdint>
#include <string>
#include <vector>

namespace memlease::views {

// Bytes, of elements without gaps whose last axis is the fastest.
std::vector<std::int64_t> c_order_strides(const std::vector<std::int64_t>& shape, DType dtype);

// Throws memlease::Error Unsupported where a stride is no multiple of the element. `protocol`
// counts so: "DLPack".
std::vector<std::int64_t> strides_in_elements(const std::vector<std::int64_t>& strides_bytes,
                                              DType dtype, const std::string& protocol);

}  // namespace memlease::views
