// A strided view of an array's bytes: what the leases hand out. Standard library only, C++17.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace memlease {

// N-dimensional, not owning: valid while its lease is. Copyable. Indexing is unchecked; at()
// checks.
template <typename T, std::size_t N>
class Span {
 public:
  using Extents = std::array<std::int64_t, N>;

  // strides in bytes.
  Span(T* data, const Extents& shape, const Extents& strides_bytes)
      : data_(data), shape_(shape), strides_bytes_(strides_bytes) {}

  T* data() const { return data_; }
  const Extents& shape() const { return shape_; }
  const Extents& strides_bytes() const { return strides_bytes_; }
  std::int64_t extent(std::size_t dim) const { return shape_[dim]; }
  std::int64_t size() const {
    std::int64_t n = 1;
    for (const std::int64_t extent : shape_) n *= extent;
    return n;
  }
  // True if the elements stand in C order without gaps: then data()[0..size()) is all of them.
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
    const Extents at = {static_cast<std::int64_t>(index)...};
    return element(at);
  }

  // Throws std::out_of_range.
  template <typename... Index>
  T& at(Index... index) const {
    static_assert(sizeof...(Index) == N, "give one index per dimension");
    const Extents at = {static_cast<std::int64_t>(index)...};
    for (std::size_t i = 0; i < N; ++i) {
      if (at[i] < 0 || at[i] >= shape_[i]) {
        throw std::out_of_range("memlease::Span: index " + std::to_string(at[i]) +
                                " of dimension " + std::to_string(i) + " is outside of 0.." +
                                std::to_string(shape_[i]));
      }
    }
    return element(at);
  }

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
