// What both kinds of lease are made of: pins, and how a span or a view comes of an array's bytes.
// Standard library only, C++17.
#pragma once

#include <memlease/dtype.h>
#include <memlease/region.h>
#include <memlease/span.h>
#include <memlease/stream.h>
#include <memlease/version.h>
#include <memlease/view.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

namespace memlease {

// Keeps the slot of a lease from being overwritten, beyond the lease, until the last copy dies.
// Destructible on any thread; never blocks, never calls the daemon. For views that outlive a scope.
using Pin = std::shared_ptr<const void>;

namespace internal {
class OpenArray;
struct ForBindings;
// Throws InvalidArgument unless T and N fit the array.
MEMLEASE_API void check_view(const OpenArray& array, DType dtype, std::size_t ndim);
// Throws InvalidArgument: the array has gaps, or another order than C's.
[[noreturn]] MEMLEASE_API void throw_not_contiguous(const OpenArray& array);
// Of a region. Throws InvalidArgument unless it fits the array, and T and N fit the region.
MEMLEASE_API ElementLayout layout_of_view(const OpenArray& array, const Region& region, DType dtype,
                                          std::size_t ndim);
MEMLEASE_API const std::vector<std::int64_t>& shape_of(const OpenArray& array);
MEMLEASE_API const std::vector<std::int64_t>& strides_bytes_of(const OpenArray& array);

// What a lease of a device array has been ordered with so far, and whose interrupts end its waits.
struct LeaseStreams {
  std::uint64_t interrupt_check = 0;  // its connection's
  Stream stream;                      // the one, if it was one
  Stream view_stream;                 // one of ours, for views whose users name none
  bool ordered = false;               // something has waited: a stream, or the host
  bool ambiguous = false;             // several streams
  bool over = false;                  // the host has waited for all of it
};

template <typename T, std::size_t N>
Span<T, N> make_span(T* data, const OpenArray& array) {
  check_view(array, dtype_of<T>(), N);
  std::array<std::int64_t, N> shape{};
  std::array<std::int64_t, N> strides{};
  for (std::size_t i = 0; i < N; ++i) {
    shape[i] = shape_of(array)[i];
    strides[i] = strides_bytes_of(array)[i];
  }
  return Span<T, N>(data, shape, strides);
}
template <typename T, std::size_t N>
Span<T, N> make_span(T* data, const OpenArray& array, const Region& region) {
  using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
  const ElementLayout part = layout_of_view(array, region, dtype_of<T>(), N);
  std::array<std::int64_t, N> shape{};
  std::array<std::int64_t, N> strides{};
  for (std::size_t i = 0; i < N; ++i) {
    shape[i] = part.shape[i];
    strides[i] = part.strides_bytes[i];
  }
  Byte* const first = reinterpret_cast<Byte*>(data) + part.offset_bytes;
  return Span<T, N>(reinterpret_cast<T*>(first), shape, strides);
}
template <typename T, std::size_t N>
View<T, N> make_view(T* data, const OpenArray& array) {
  const Span<T, N> span = make_span<T, N>(data, array);
  if (!span.is_contiguous()) throw_not_contiguous(array);
  return View<T, N>(data, span.shape());
}
}  // namespace internal

}  // namespace memlease
