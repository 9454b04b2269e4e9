#include "client/ordering/element_layout.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::internal {
namespace {

using wire::ErrorCode;

// An array, for the text of an error.
struct Named {
  const wire::ArrayKind& kind;
  std::string_view name;
};

absl::Status does_not_fit(const Named& array, const std::string& what, const std::string& hint) {
  return wire::make_error(
      ErrorCode::kInvalidArgument,
      fmt::format("a region of '{}' ({}) {}", array.name, wire::describe(array.kind), what), hint);
}

// A number below 0 counts from the end.
std::int64_t from_begin(std::int64_t index, std::int64_t extent) {
  return index < 0 ? index + extent : index;
}

absl::Status check_index(const Named& array, std::size_t axis, std::int64_t index) {
  const std::int64_t extent = array.kind.shape[axis];
  const std::int64_t at = from_begin(index, extent);
  if (at >= 0 && at < extent) return absl::OkStatus();
  return does_not_fit(
      array, fmt::format("has index {} of axis {}, which has {} elements", index, axis, extent),
      extent == 0 ? "Give a range, as that axis has no elements."
                  : fmt::format("Give one from {} to {}.", -extent, extent - 1));
}

// The same range with numbers from 0 to the extent, and an end that is not before its begin.
absl::StatusOr<Range> within(const Named& array, std::size_t axis, const Range& range) {
  const std::int64_t extent = array.kind.shape[axis];
  if (range.step < 1) {
    return does_not_fit(array, fmt::format("has step {} on axis {}", range.step, axis),
                        "Give a step of 1 or more, and turn the view round.");
  }
  const std::int64_t begin = from_begin(range.begin, extent);
  const std::int64_t end =
      range.end == Range::kToEnd ? std::max(begin, extent) : from_begin(range.end, extent);
  if (begin >= 0 && begin <= end && end <= extent) return Range{begin, end, range.step};
  return does_not_fit(
      array,
      fmt::format("goes from {} to {} on axis {}, which has {} elements", range.begin,
                  range.end == Range::kToEnd ? "the end" : fmt::to_string(range.end), axis, extent),
      "Give a begin and an end of that axis, the begin first.");
}

}  // namespace

ElementLayout layout_of(const wire::ArrayKind& kind) {
  return {0, kind.dtype.itemsize_bytes(), kind.shape, wire::strides_bytes_of(kind)};
}

absl::StatusOr<ElementLayout> layout_of(const wire::ArrayKind& kind, std::string_view name,
                                        const Region& region) {
  const Named array{kind, name};
  ElementLayout layout = layout_of(kind);
  const auto& axes = region.axes();
  if (axes.empty()) return layout;
  if (axes.size() > kind.shape.size()) {
    return does_not_fit(
        array, fmt::format("has {} axes, and the array {}", axes.size(), kind.shape.size()),
        "Give one range or index for each axis at most.");
  }
  // Without elements nothing is stepped to, and strides may be too large to compute with.
  const bool empty = element_bytes(layout) == 0;
  ElementLayout part{0, layout.itemsize, {}, {}};
  for (std::size_t axis = 0; axis < kind.shape.size(); ++axis) {
    const std::int64_t stride = empty ? layout.itemsize : layout.strides_bytes[axis];
    if (axis < axes.size() && axes[axis].is_index()) {
      if (auto status = check_index(array, axis, axes[axis].index()); !status.ok()) return status;
      part.offset_bytes += from_begin(axes[axis].index(), kind.shape[axis]) * stride;
      continue;
    }
    const auto range = within(array, axis, axis < axes.size() ? axes[axis].range() : Range());
    if (!range.ok()) return range.status();
    const std::int64_t count = range->end - range->begin;
    part.shape.push_back(count == 0 ? 0 : (count - 1) / range->step + 1);
    // An axis of one element may have any stride.
    if (count > 0) part.offset_bytes += range->begin * stride;
    // A step beyond the axis has nothing to step to.
    part.strides_bytes.push_back(stride * std::min(range->step, std::max<std::int64_t>(count, 1)));
  }
  if (element_bytes(part) == 0) part.offset_bytes = 0;
  return part;
}

ElementLayout packed_layout(const ElementLayout& layout) {
  ElementLayout packed{0, layout.itemsize, layout.shape, layout.strides_bytes};
  std::int64_t stride = layout.itemsize;
  for (std::size_t axis = layout.shape.size(); axis-- > 0;) {
    packed.strides_bytes[axis] = stride;
    stride *= std::max<std::int64_t>(layout.shape[axis], 1);
  }
  return packed;
}

std::uint64_t element_bytes(const ElementLayout& layout) {
  std::uint64_t bytes = layout.itemsize;
  for (const std::int64_t extent : layout.shape) bytes *= static_cast<std::uint64_t>(extent);
  return bytes;
}

std::uint64_t extent_bytes(const ElementLayout& layout) {
  if (element_bytes(layout) == 0) return 0;
  std::int64_t last = 0;
  for (std::size_t axis = 0; axis < layout.shape.size(); ++axis) {
    last += (layout.shape[axis] - 1) * layout.strides_bytes[axis];
  }
  return static_cast<std::uint64_t>(last) + layout.itemsize;
}

bool same_strides(const ElementLayout& a, const ElementLayout& b) {
  for (std::size_t axis = 0; axis < a.shape.size(); ++axis) {
    // An extent of 1 has no use for its stride.
    if (a.shape[axis] > 1 && a.strides_bytes[axis] != b.strides_bytes[axis]) return false;
  }
  return true;
}

}  // namespace memlease::internal
