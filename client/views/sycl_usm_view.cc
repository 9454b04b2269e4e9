#include "client/views/sycl_usm_view.h"

#include <memlease/error.h>

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "client/views/strides.h"

namespace memlease::views {
namespace {

constexpr std::string_view kInterface = "__sycl_usm_array_interface__";
constexpr std::string_view kKinds = "biufc";
constexpr std::size_t kMostAxes = 64;  // as NumPy

[[noreturn]] void refuse(const std::string& what) {
  throw InvalidArgument(std::string(kInterface) + " has " + what, "correct its producer");
}

// NumPy's spelling of one of the interface's types. A mark says the byte order: '|' none, and some
// producers write it before types that have one, which are native then.
DType parse_typestr(const std::string& typestr) {
  std::string_view type = typestr;
  const bool is_swapped = type.starts_with('>');
  if (!type.empty() && std::string_view("<>|=").find(type.front()) != std::string_view::npos) {
    type.remove_prefix(1);
  }
  const bool is_of_interface =
      type.size() > 1 && kKinds.find(type.front()) != std::string_view::npos &&
      std::all_of(type.begin() + 1, type.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!is_of_interface) {
    throw Unsupported(
        std::string(kInterface) + " has typestr '" + typestr +
            "', and its types are booleans, integers, floating-point and complex numbers",
        "hand it over as one of these, such as '<f4'");
  }
  const DType dtype = parse_dtype(std::string(type));
  if (is_swapped && dtype.itemsize_bytes() > 1) {
    throw Unsupported(std::string(kInterface) + " has typestr '" + typestr +
                          "', of the other byte order than this machine",
                      "convert it first, as by array.astype('<" + std::string(type) + "')");
  }
  return dtype;
}

// True if there are none; refuses what is not a shape of elements of this size.
bool is_empty(const std::vector<std::int64_t>& shape, std::int64_t itemsize) {
  if (shape.size() > kMostAxes) {
    refuse(std::to_string(shape.size()) + " axes, and can have " + std::to_string(kMostAxes));
  }
  bool empty = false;
  std::int64_t bytes = itemsize;
  for (const std::int64_t extent : shape) {
    empty = empty || extent == 0;
    if (extent < 0 || (extent > 0 && __builtin_mul_overflow(bytes, extent, &bytes))) {
      refuse("an impossible shape, with an extent of " + std::to_string(extent));
    }
  }
  return empty;
}

// In bytes; refuses what does not fit. `empty`: there are no elements.
std::vector<std::int64_t> byte_strides(const UsmArray& array, DType dtype, bool empty) {
  std::vector<std::int64_t> strides = c_order_strides(array.shape, dtype);
  if (!array.strides) return strides;
  if (array.strides->size() != array.shape.size()) {
    refuse(std::to_string(array.strides->size()) + " strides for " +
           std::to_string(array.shape.size()) + " axes");
  }
  const std::int64_t itemsize = dtype.itemsize_bytes();
  for (std::size_t i = 0; i < strides.size(); ++i) {
    // It means nothing where there is one element, or none.
    if (empty || array.shape[i] == 1) continue;
    if (__builtin_mul_overflow((*array.strides)[i], itemsize, &strides[i])) {
      refuse("an impossible stride, " + std::to_string((*array.strides)[i]));
    }
  }
  return strides;
}

}  // namespace

UsmArray describe_usm(DType dtype, const std::vector<std::int64_t>& shape,
                      const std::vector<std::int64_t>& strides_bytes) {
  UsmArray array{typestr_of(dtype), shape, std::nullopt, 0};
  if (array.typestr.empty()) {
    throw Unsupported(std::string(kInterface) + " has no type for " + name_of(dtype),
                      "use DLPack, or convert it first, as by lease.astype('float32')");
  }
  std::vector<std::int64_t> strides =
      strides_in_elements(strides_bytes, dtype, "the SYCL USM array interface");
  const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  if (!empty && strides_bytes != c_order_strides(shape, dtype)) array.strides = std::move(strides);
  return array;
}

UsmBytes locate_usm(const UsmArray& array) {
  UsmBytes bytes{parse_typestr(array.typestr), {}};
  const std::int64_t itemsize = bytes.dtype.itemsize_bytes();
  const bool empty = is_empty(array.shape, itemsize);
  bytes.strides_bytes = byte_strides(array, bytes.dtype, empty);
  if (empty) return bytes;
  std::int64_t origin = 0;
  std::int64_t lowest = 0;
  std::int64_t end = itemsize;
  bool too_far = __builtin_mul_overflow(array.offset, itemsize, &origin);
  for (std::size_t i = 0; i < array.shape.size(); ++i) {
    std::int64_t reach = 0;
    std::int64_t& limit = bytes.strides_bytes[i] < 0 ? lowest : end;
    too_far = too_far ||
              __builtin_mul_overflow(bytes.strides_bytes[i], array.shape[i] - 1, &reach) ||
              __builtin_add_overflow(limit, reach, &limit);
  }
  if (too_far || __builtin_add_overflow(origin, lowest, &bytes.begin) ||
      __builtin_sub_overflow(end, lowest, &bytes.size_bytes)) {
    refuse("a shape, strides and an offset that reach further than memory can");
  }
  bytes.first = -lowest;
  return bytes;
}

}  // namespace memlease::views
