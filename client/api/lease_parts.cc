#include <memlease/lease_parts.h>

#include "client/api/throw.h"
#include "client/arrays/open_array.h"
#include "client/ordering/element_layout.h"
#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::internal {

void check_view(const OpenArray& array, DType dtype, std::size_t ndim) {
  const wire::ArrayKind& kind = array.kind();
  const wire::DType wanted{static_cast<wire::DTypeCode>(dtype.code), dtype.bits, dtype.lanes};
  if (wanted == kind.dtype && ndim == kind.shape.size()) return;
  throw_error(wire::make_error(
      wire::ErrorCode::kInvalidArgument,
      fmt::format("'{}' is {}: a span or view of {} with {} dimensions does not fit", array.name(),
                  wire::describe(kind), wire::name_of(wanted), ndim),
      "Give span<T, N> or view<T, N> the array's own element type and number of dimensions."));
}

void throw_not_contiguous(const OpenArray& array) {
  throw_error(wire::make_error(
      wire::ErrorCode::kInvalidArgument,
      fmt::format("'{}' is not in C order without gaps, and a view is", array.name()),
      "Use span<T, N>, which has strides."));
}

ElementLayout layout_of_view(const OpenArray& array, const Region& region, DType dtype,
                             std::size_t ndim) {
  ElementLayout part = value_or_throw(layout_of(array.kind(), array.name(), region));
  const std::size_t dropped = array.kind().shape.size() - part.shape.size();
  if (ndim == part.shape.size()) {
    check_view(array, dtype, ndim + dropped);
    return part;
  }
  throw_error(wire::make_error(
      wire::ErrorCode::kInvalidArgument,
      fmt::format("the region of '{}' ({}) has {} dimensions: a span with {} does not fit",
                  array.name(), wire::describe(array.kind()), part.shape.size(), ndim),
      "Use span<T, N> with the region's number of dimensions: an axis with one index is dropped."));
}

const std::vector<std::int64_t>& shape_of(const OpenArray& array) { return array.kind().shape; }

const std::vector<std::int64_t>& strides_bytes_of(const OpenArray& array) {
  return array.strides_bytes();
}

}  // namespace memlease::internal
