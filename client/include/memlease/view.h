// View: the elements of an array without gaps, for loops. Standard library only, C++17.
#pragma once

#include <memlease/span.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#if __has_include(<version>)
#include <version>
#endif
#ifdef __cpp_lib_mdspan
#include <mdspan>
#endif

namespace memlease {

// As a Span, of elements in C order without gaps: the last index runs through neighbours, which
// compilers know, so that loops become as fast as over pointers. Iterates over all elements.
template <typename T, std::size_t N>
class View {
 public:
  using Extents = std::array<std::int64_t, N>;

  View(T* data, const Extents& shape) : data_(data), shape_(shape) {}
  // Of const elements.
  template <typename U, typename = internal::IfConverts<U, T>>
  View(const View<U, N>& other)  // NOLINT(google-explicit-constructor): it only gives up a right
      : View(other.data(), other.shape()) {}

  T* data() const { return data_; }
  const Extents& shape() const { return shape_; }
  std::int64_t extent(std::size_t dim) const { return shape_[dim]; }
  std::int64_t size() const { return internal::product(shape_); }
  T* begin() const { return data_; }
  T* end() const { return data_ + size(); }

  template <typename... Index>
  T& operator()(Index... index) const {
    static_assert(sizeof...(Index) == N, "give one index per dimension");
    static_assert(internal::kAreIndices<Index...>, "an index is an integer");
    if constexpr (MEMLEASE_CHECK_BOUNDS) {
      internal::check_bounds(shape_, {static_cast<std::int64_t>(index)...});
    }
    return data_[offset(index...)];
  }

  // Throws std::out_of_range.
  template <typename... Index>
  T& at(Index... index) const {
    static_assert(sizeof...(Index) == N, "give one index per dimension");
    static_assert(internal::kAreIndices<Index...>, "an index is an integer");
    internal::require_inside(shape_, {static_cast<std::int64_t>(index)...});
    return data_[offset(index...)];
  }

  // What is at one first index: view.row(i)(j) is view(i, j).
  View<T, N - 1> row(std::int64_t index) const {
    static_assert(N > 0, "one element has no rows");
    if constexpr (MEMLEASE_CHECK_BOUNDS) {
      if (index < 0 || index >= shape_[0]) internal::end_outside(0, index, shape_[0]);
    }
    std::array<std::int64_t, N - 1> rest{};
    std::int64_t step = 1;
    for (std::size_t i = 1; i < N; ++i) step *= rest[i - 1] = shape_[i];
    return {data_ + index * step, rest};
  }

  Span<T, N> span() const {
    Extents strides{};
    std::int64_t stride = static_cast<std::int64_t>(sizeof(T));
    for (std::size_t i = N; i-- > 0; stride *= shape_[i]) strides[i] = stride;
    return {data_, shape_, strides};
  }

#ifdef __cpp_lib_mdspan
  std::mdspan<T, std::dextents<std::int64_t, N>> mdspan() const {
    return std::mdspan<T, std::dextents<std::int64_t, N>>(data_, shape_);
  }
#endif

 private:
  // Horner's scheme: nothing is multiplied for the last index. N may be 0.
  template <typename... Index>
  std::int64_t offset(Index... index) const {
    // NOLINTBEGIN(misc-const-correctness)
    std::int64_t sum = 0;
    [[maybe_unused]] std::size_t dim = 0;
    // NOLINTEND(misc-const-correctness)
    ((sum = sum * shape_[dim++] + static_cast<std::int64_t>(index)), ...);
    return sum;
  }

  T* data_;
  Extents shape_;
};

}  // namespace memlease
