// Span: the elements of an array, a region or any memory, with strides. Standard library only,
// C++17.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <stdexcept>
#include <string>
#include <type_traits>

// Whether unchecked indexing is checked all the same, and ends the program: in builds for
// debugging.
#ifndef MEMLEASE_CHECK_BOUNDS
#if defined(NDEBUG) || defined(__OPTIMIZE__)
#define MEMLEASE_CHECK_BOUNDS 0
#else
#define MEMLEASE_CHECK_BOUNDS 1
#endif
#endif

namespace memlease {

namespace internal {

template <typename... Index>
constexpr bool kAreIndices = std::conjunction_v<std::is_integral<Index>...>;

[[noreturn]] inline void end_outside(std::size_t dimension, std::int64_t index,
                                     std::int64_t extent) {
  std::fprintf(stderr, "memlease: index %lld of dimension %zu is outside of [0, %lld)\n",
               static_cast<long long>(index), dimension, static_cast<long long>(extent));
  std::abort();
}

template <std::size_t N>
void check_bounds(const std::array<std::int64_t, N>& shape,
                  const std::array<std::int64_t, N>& index) {
  for (std::size_t i = 0; i < N; ++i) {
    if (index[i] < 0 || index[i] >= shape[i]) end_outside(i, index[i], shape[i]);
  }
}

// Throws std::out_of_range.
template <std::size_t N>
void require_inside(const std::array<std::int64_t, N>& shape,
                    const std::array<std::int64_t, N>& index) {
  for (std::size_t i = 0; i < N; ++i) {
    if (index[i] >= 0 && index[i] < shape[i]) continue;
    throw std::out_of_range("memlease: index " + std::to_string(index[i]) + " of dimension " +
                            std::to_string(i) + " is outside of [0, " + std::to_string(shape[i]) +
                            ")");
  }
}

// Whether a pointer to From[] becomes one to To[]: the same elements, or const ones.
template <typename From, typename To>
using IfConverts =
    std::enable_if_t<!std::is_same_v<From, To> && std::is_convertible_v<From (*)[], To (*)[]>>;

template <std::size_t N>
std::int64_t product(const std::array<std::int64_t, N>& shape) {
  std::int64_t n = 1;
  for (const std::int64_t extent : shape) n *= extent;
  return n;
}

}  // namespace internal

// N-dimensional, not owning: valid while its lease is. Copyable. Indexing is unchecked (see
// MEMLEASE_CHECK_BOUNDS); at() checks. Its strides are known at run time only, which keeps
// compilers from vectorising: loops over many elements use a View.
template <typename T, std::size_t N>
class Span {
 public:
  using Extents = std::array<std::int64_t, N>;

  // strides in bytes.
  Span(T* data, const Extents& shape, const Extents& strides_bytes)
      : data_(data), shape_(shape), strides_bytes_(strides_bytes) {}
  // Of const elements.
  template <typename U, typename = internal::IfConverts<U, T>>
  Span(const Span<U, N>& other)  // NOLINT(google-explicit-constructor): it only gives up a right
      : Span(other.data(), other.shape(), other.strides_bytes()) {}

  T* data() const { return data_; }
  const Extents& shape() const { return shape_; }
  const Extents& strides_bytes() const { return strides_bytes_; }
  std::int64_t extent(std::size_t dim) const { return shape_[dim]; }
  std::int64_t size() const { return internal::product(shape_); }
  // True if the elements are in C order without gaps: then data()[0..size()) is all of them.
  bool is_contiguous() const {
    std::int64_t stride = static_cast<std::int64_t>(sizeof(T));
    for (std::size_t i = N; i-- > 0;) {
      if (shape_[i] != 1 && strides_bytes_[i] != stride) return false;
      stride *= shape_[i];
    }
    return true;
  }

  template <typename... Index>
  T& operator()(Index... index) const {
    static_assert(sizeof...(Index) == N, "give one index per dimension");
    static_assert(internal::kAreIndices<Index...>, "an index is an integer");
    const Extents at = {static_cast<std::int64_t>(index)...};
    if constexpr (MEMLEASE_CHECK_BOUNDS) internal::check_bounds(shape_, at);
    return element(at);
  }

  // Throws std::out_of_range.
  template <typename... Index>
  T& at(Index... index) const {
    static_assert(sizeof...(Index) == N, "give one index per dimension");
    static_assert(internal::kAreIndices<Index...>, "an index is an integer");
    const Extents at = {static_cast<std::int64_t>(index)...};
    internal::require_inside(shape_, at);
    return element(at);
  }

  // Over all elements, the last index running fastest. A View's are pointers.
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = std::remove_const_t<T>;
    using difference_type = std::ptrdiff_t;
    using pointer = T*;
    using reference = T&;

    Iterator() = default;
    T& operator*() const { return span_.element(at_); }
    T* operator->() const { return &**this; }
    Iterator& operator++() {
      --left_;
      for (std::size_t i = N; i > 0; --i) {
        if (++at_[i - 1] < span_.shape_[i - 1]) break;
        at_[i - 1] = 0;
      }
      return *this;
    }
    Iterator operator++(int) {
      const Iterator before = *this;
      ++*this;
      return before;
    }
    // Of iterators of one span.
    friend bool operator==(const Iterator& a, const Iterator& b) { return a.left_ == b.left_; }
    friend bool operator!=(const Iterator& a, const Iterator& b) { return a.left_ != b.left_; }

   private:
    friend class Span;
    Iterator(const Span& span, std::int64_t left) : span_(span), left_(left) {}

    Span span_{nullptr, {}, {}};
    Extents at_{};
    std::int64_t left_ = 0;  // elements from here to the end
  };
  Iterator begin() const { return {*this, size()}; }
  Iterator end() const { return {*this, 0}; }

 private:
  using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
  T& element(const Extents& at) const {
    auto* p = reinterpret_cast<Byte*>(data_);
    for (std::size_t i = 0; i < N; ++i) p += at[i] * strides_bytes_[i];
    return *reinterpret_cast<T*>(p);
  }

  T* data_;
  Extents shape_;
  Extents strides_bytes_;
};

}  // namespace memlease
