// Parts of arrays: ranges of indices, as NumPy's basic indexing has them. Standard library only,
// C++17.
#pragma once

#include <memlease/version.h>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

namespace memlease {

// Of one axis: begin, begin + step, and so on, as long as they are below end. A number below 0
// counts from the axis's end. Range{1, -1}: all but the first and the last.
struct Range {
  static constexpr std::int64_t kToEnd = std::numeric_limits<std::int64_t>::max();

  std::int64_t begin = 0;
  std::int64_t end = kToEnd;
  std::int64_t step = 1;  // 1 or more
};

// A Range, or one index, for each axis from the first one on; what is left out is all of its axis.
// An axis with one index is dropped. Region{Range{1, -1}, 0} of an array of two dimensions is a
// column, with one dimension. It fits an array if no index and no end is outside of it; otherwise
// the call that it is given to throws InvalidArgument. It may have no elements.
class Region {
 public:
  class Axis {
   public:
    constexpr Axis(Range range) : range_(range) {}  // NOLINT(google-explicit-constructor): a part
    template <typename Index, typename = std::enable_if_t<std::is_integral_v<Index> &&
                                                          !std::is_same_v<Index, bool>>>
    constexpr Axis(Index index)  // NOLINT(google-explicit-constructor): likewise
        : range_{signed_of(index), 0, 1}, is_index_(true) {}

    constexpr bool is_index() const { return is_index_; }
    constexpr std::int64_t index() const { return range_.begin; }
    constexpr const Range& range() const { return range_; }

   private:
    // An unsigned one that is too large is outside of every array, not one from the end.
    template <typename Index>
    static constexpr std::int64_t signed_of(Index index) {
      constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
      if constexpr (std::is_unsigned_v<Index>) {
        if (index > static_cast<std::uint64_t>(kMost)) return kMost;
      }
      return static_cast<std::int64_t>(index);
    }
    Range range_;
    bool is_index_ = false;
  };

  Region() = default;  // all of an array
  Region(std::initializer_list<Axis> axes) : axes_(axes) {}
  explicit Region(std::vector<Axis> axes) : axes_(std::move(axes)) {}

  const std::vector<Axis>& axes() const { return axes_; }

 private:
  std::vector<Axis> axes_;
};

namespace internal {

// Where elements of an array are, in bytes from its first one.
struct ElementLayout {
  std::int64_t offset_bytes = 0;
  std::uint32_t itemsize = 1;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides_bytes;
};

}  // namespace internal
}  // namespace memlease
