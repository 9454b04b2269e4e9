// Indexer: an array's pointer, shape and strides in one value, for kernels, which take it by copy,
// and for loops. Standard library only, C++17; host and device code of CUDA and HIP.
#pragma once

#include <memlease/span.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>

#if __has_include(<version>)
#include <version>
#endif
#ifdef __cpp_lib_mdspan
#include <mdspan>
#endif
#if defined(__CUDACC__) && __has_include(<cuda/std/mdspan>)
#include <cuda/std/mdspan>
#define MEMLEASE_HAS_CUDA_MDSPAN 1
#endif

#if defined(__CUDACC__) || defined(__HIPCC__)
#define MEMLEASE_HOST_DEVICE __host__ __device__
#else
#define MEMLEASE_HOST_DEVICE
#endif

namespace memlease {

// One index for each of N dimensions. An aggregate: IndexTuple<int, 2>{{i, j}}.
template <typename Integer, std::size_t N>
struct IndexTuple {
  Integer values[N == 0 ? 1 : N];

  MEMLEASE_HOST_DEVICE constexpr Integer& operator[](std::size_t dim) { return values[dim]; }
  MEMLEASE_HOST_DEVICE constexpr const Integer& operator[](std::size_t dim) const {
    return values[dim];
  }
  MEMLEASE_HOST_DEVICE friend constexpr bool operator==(const IndexTuple& a, const IndexTuple& b) {
    for (std::size_t dim = 0; dim < N; ++dim) {
      if (a[dim] != b[dim]) return false;
    }
    return true;
  }
  MEMLEASE_HOST_DEVICE friend constexpr bool operator!=(const IndexTuple& a, const IndexTuple& b) {
    return !(a == b);
  }
};

// Where an Indexer's elements are: anywhere, by strides; or in C order without gaps, which needs
// no strides, and lets compilers vectorise over the last index.
// NOLINTNEXTLINE(readability-identifier-naming): users' names
enum class Layout : std::uint8_t { Strided, Contiguous };

namespace internal {

template <typename Integer, std::size_t N, Layout kLayout>
struct Strides : IndexTuple<Integer, N> {};
template <typename Integer, std::size_t N>
struct Strides<Integer, N, Layout::Contiguous> {};

}  // namespace internal

// N-dimensional, not owning: valid while the lease is that its pointer comes from. Trivially
// copyable. Indexing is unchecked; at() checks, on the host. Integer is std::int32_t or
// std::int64_t, which GPUs are slower with; visit_indexer() chooses. Strides are in elements.
template <typename T, std::size_t N, typename Integer = std::int64_t,
          Layout kLayout = Layout::Strided>
class Indexer {
  static_assert(N <= 32, "an array has 32 dimensions at most");
  static_assert(std::is_same_v<Integer, std::int32_t> || std::is_same_v<Integer, std::int64_t>,
                "an index is a std::int32_t or a std::int64_t");

 public:
  using element_type = T;
  using index_type = Integer;
  using Indices = IndexTuple<Integer, N>;

  // Of C order without gaps.
  MEMLEASE_HOST_DEVICE constexpr Indexer(T* data, const Indices& shape)
      : data_(data), shape_(shape) {
    if constexpr (kLayout == Layout::Strided) {
      Integer step = 1;
      for (std::size_t dim = N; dim-- > 0; step *= shape[dim]) strides_[dim] = step;
    }
  }
  // strides: in elements; they may be 0 or below.
  MEMLEASE_HOST_DEVICE constexpr Indexer(T* data, const Indices& shape, const Indices& strides)
      : data_(data), shape_(shape), strides_{strides} {
    static_assert(kLayout == Layout::Strided, "what is contiguous has no strides of its own");
  }

  MEMLEASE_HOST_DEVICE static constexpr std::size_t rank() { return N; }
  static constexpr Layout layout() { return kLayout; }
  MEMLEASE_HOST_DEVICE constexpr T* data() const { return data_; }
  MEMLEASE_HOST_DEVICE constexpr const Indices& shape() const { return shape_; }
  MEMLEASE_HOST_DEVICE constexpr Integer extent(std::size_t dim) const { return shape_[dim]; }
  MEMLEASE_HOST_DEVICE constexpr Integer stride(std::size_t dim) const {
    if constexpr (kLayout == Layout::Strided) {
      return strides_[dim];
    } else {
      Integer step = 1;
      for (std::size_t next = dim + 1; next < N; ++next) step *= shape_[next];
      return step;
    }
  }
  // Elements: 1 for N = 0.
  MEMLEASE_HOST_DEVICE constexpr Integer size() const {
    Integer n = 1;
    for (std::size_t dim = 0; dim < N; ++dim) n *= shape_[dim];
    return n;
  }

  // indexer(i, j, k)
  template <typename... Index>
  MEMLEASE_HOST_DEVICE constexpr T& operator()(Index... index) const {
    static_assert(sizeof...(Index) == N, "give one index per dimension");
    static_assert(internal::kAreIndices<Index...>, "an index is an integer");
    return (*this)[Indices{{static_cast<Integer>(index)...}}];
  }
  MEMLEASE_HOST_DEVICE constexpr T& operator[](const Indices& at) const {
    return data_[offset(at)];
  }
  // Throws std::out_of_range. For elements that the host can reach.
  template <typename... Index>
  T& at(Index... index) const {
    static_assert(sizeof...(Index) == N, "give one index per dimension");
    static_assert(internal::kAreIndices<Index...>, "an index is an integer");
    std::array<std::int64_t, N> shape{};
    for (std::size_t dim = 0; dim < N; ++dim) shape[dim] = shape_[dim];
    internal::require_inside(shape, {static_cast<std::int64_t>(index)...});
    return (*this)(index...);
  }

  // Elements in C order have the numbers from 0 to size(): what a kernel's thread computes with.
  MEMLEASE_HOST_DEVICE constexpr Indices get_indices(Integer linear) const {
    Indices at{};
    for (std::size_t dim = N; dim-- > 1;) {
      const Integer rest = linear / shape_[dim];
      at[dim] = linear - rest * shape_[dim];
      linear = rest;
    }
    if constexpr (N > 0) at[0] = linear;
    return at;
  }
  MEMLEASE_HOST_DEVICE constexpr Integer get_linear(const Indices& at) const {
    Integer linear = 0;
    for (std::size_t dim = 0; dim < N; ++dim) linear = linear * shape_[dim] + at[dim];
    return linear;
  }
  MEMLEASE_HOST_DEVICE constexpr T& element(Integer linear) const {
    if constexpr (kLayout == Layout::Contiguous) {
      return data_[linear];
    } else {
      return (*this)[get_indices(linear)];
    }
  }

#ifdef __cpp_lib_mdspan
  auto mdspan() const {
    return to_mdspan<std::mdspan, std::dextents<Integer, N>, std::layout_stride, std::layout_right>(
        std::array<Integer, N>{}, std::array<Integer, N>{});
  }
#endif
#ifdef MEMLEASE_HAS_CUDA_MDSPAN
  MEMLEASE_HOST_DEVICE auto cuda_mdspan() const {
    return to_mdspan<cuda::std::mdspan, cuda::std::dextents<Integer, N>, cuda::std::layout_stride,
                     cuda::std::layout_right>(cuda::std::array<Integer, N>{},
                                              cuda::std::array<Integer, N>{});
  }
#endif

 private:
  MEMLEASE_HOST_DEVICE constexpr std::ptrdiff_t offset(const Indices& at) const {
    if constexpr (kLayout == Layout::Contiguous) {
      return get_linear(at);
    } else {
      Integer sum = 0;
      for (std::size_t dim = 0; dim < N; ++dim) sum += at[dim] * strides_[dim];
      return sum;
    }
  }

  // std::mdspan, or CUDA's.
  template <template <typename, typename, typename, typename...> class Mdspan, typename Extents,
            typename StridedLayout, typename ContiguousLayout, typename Array>
  MEMLEASE_HOST_DEVICE auto to_mdspan(Array shape, Array strides) const {
    for (std::size_t dim = 0; dim < N; ++dim) shape[dim] = shape_[dim];
    if constexpr (kLayout == Layout::Contiguous) {
      return Mdspan<T, Extents, ContiguousLayout>(data_, Extents(shape));
    } else {
      for (std::size_t dim = 0; dim < N; ++dim) strides[dim] = strides_[dim];
      using Mapping = typename StridedLayout::template mapping<Extents>;
      return Mdspan<T, Extents, StridedLayout>(data_, Mapping(Extents(shape), strides));
    }
  }

  T* data_;
  Indices shape_;
  internal::Strides<Integer, N, kLayout> strides_{};
};

template <typename T, std::size_t N, typename Integer = std::int64_t>
using ContiguousIndexer = Indexer<T, N, Integer, Layout::Contiguous>;

// Whether indices of this type do for the elements of a span, with room for a loop that steps
// beyond its end by as much again.
template <typename Integer, typename T, std::size_t N>
bool indices_fit(const Span<T, N>& span) {
  constexpr std::int64_t kMost = std::numeric_limits<Integer>::max() / 2;
  for (std::size_t dim = 0; dim < N; ++dim) {
    if (span.extent(dim) > std::numeric_limits<Integer>::max()) return false;
  }
  std::int64_t size = 1;
  std::int64_t reach = 0;  // of the strides, forward and back
  bool fit = true;
  for (std::size_t dim = 0; dim < N; ++dim) {
    const std::int64_t extent = span.extent(dim);
    if (extent == 0) return true;
    if (extent == 1 || !fit) continue;
    const std::int64_t stride =
        std::abs(span.strides_bytes()[dim] / static_cast<std::int64_t>(sizeof(T)));
    fit = extent <= kMost / size && stride <= (kMost - reach) / (extent - 1);
    if (!fit) continue;
    size *= extent;
    reach += stride * (extent - 1);
  }
  return fit;
}

// The elements of a span, or of a View by its span(). Throws std::invalid_argument: a stride that
// is not a multiple of sizeof(T), indices that Integer is too small for, or gaps in what is to have
// none.
template <typename Integer = std::int64_t, Layout kLayout = Layout::Strided, typename T,
          std::size_t N>
Indexer<T, N, Integer, kLayout> make_indexer(const Span<T, N>& span) {
  if (!indices_fit<Integer>(span)) {
    throw std::invalid_argument("memlease: the array has more elements than indices of " +
                                std::to_string(8 * sizeof(Integer)) +
                                " bits are for; take those of 64, or visit_indexer()");
  }
  IndexTuple<Integer, N> shape{};
  IndexTuple<Integer, N> strides{};
  for (std::size_t dim = 0; dim < N; ++dim) {
    constexpr auto kItem = static_cast<std::int64_t>(sizeof(T));
    shape[dim] = static_cast<Integer>(span.extent(dim));
    // Of no use, and perhaps too large, where there is nothing to step to.
    if (span.extent(dim) < 2) continue;
    if (span.strides_bytes()[dim] % kItem != 0) {
      throw std::invalid_argument("memlease: the stride of dimension " + std::to_string(dim) +
                                  " is " + std::to_string(span.strides_bytes()[dim]) +
                                  " bytes, which is not a multiple of an element's " +
                                  std::to_string(kItem));
    }
    strides[dim] = static_cast<Integer>(span.strides_bytes()[dim] / kItem);
  }
  if constexpr (kLayout == Layout::Strided) {
    return {span.data(), shape, strides};
  } else {
    if (!span.is_contiguous()) {
      throw std::invalid_argument(
          "memlease: the array's elements are not in C order without gaps; take a strided "
          "Indexer, or visit_indexer()");
    }
    return {span.data(), shape};
  }
}

// Calls `body` with the fastest Indexer that does for the span: contiguous or strided, of 32-bit
// indices or of 64. The body is compiled for these four, and returns the same type from all.
//
//   memlease::visit_indexer(lease.span<float, 3>(), [&](auto indexer) {
//     scale<<<blocks, threads, 0, stream>>>(indexer, 0.5f);
//   });
template <typename T, std::size_t N, typename Body>
decltype(auto) visit_indexer(const Span<T, N>& span, Body&& body) {
  const bool small = indices_fit<std::int32_t>(span);
  if (span.is_contiguous()) {
    if (small) return body(make_indexer<std::int32_t, Layout::Contiguous>(span));
    return body(make_indexer<std::int64_t, Layout::Contiguous>(span));
  }
  if (small) return body(make_indexer<std::int32_t>(span));
  return body(make_indexer<std::int64_t>(span));
}

}  // namespace memlease
