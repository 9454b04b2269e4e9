#include "client/views/strides.h"

#include <memlease/error.h>

#include <cstddef>

namespace memlease::views {

std::vector<std::int64_t> c_order_strides(const std::vector<std::int64_t>& shape, DType dtype) {
  std::vector<std::int64_t> strides(shape.size());
  auto stride = static_cast<std::int64_t>(dtype.itemsize_bytes());
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

std::vector<std::int64_t> strides_in_elements(const std::vector<std::int64_t>& strides_bytes,
                                              DType dtype, const std::string& protocol) {
  const std::int64_t itemsize = dtype.itemsize_bytes();
  std::vector<std::int64_t> strides;
  for (const std::int64_t stride : strides_bytes) {
    if (stride % itemsize != 0) {
      throw Unsupported(protocol + " counts strides in elements, and a stride of " +
                            std::to_string(stride) + " bytes is not a multiple of the " +
                            std::to_string(itemsize) + " bytes of a " + name_of(dtype),
                        "use the buffer protocol or NumPy for this array");
    }
    strides.push_back(stride / itemsize);
  }
  return strides;
}

}  // namespace memlease::views
