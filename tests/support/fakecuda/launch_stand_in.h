// Launches kernels on the stand-in: what a kernel touches is declared, and it gets addresses that
// it can touch instead of those it was given. Its sibling is launch_nvcc.h.
#pragma once

#include <memlease/span.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <tuple>
#include <type_traits>
#include <vector>

#include "tests/support/fakecuda/fakecuda.h"

#define TK_DEVICE

template <class T>
struct Range {
  T* data;
  size_t count;
  int access;
};
template <class T>
Range<T> writes(T* data, size_t count) {
  return {data, count, FAKECUDA_WRITE};
}
template <class T>
Range<T> changes(T* data, size_t count) {
  return {data, count, FAKECUDA_READ_WRITE};
}
template <class T>
Range<const T> reads(const T* data, size_t count) {
  return {data, count, FAKECUDA_READ};
}

inline void add_one(uint64_t* count) { ++*count; }
inline void add_one_visibly(uint64_t* count) { ++std::atomic_ref(*count); }
inline uint32_t look(const uint32_t* flag) {
  std::this_thread::yield();
  return std::atomic_ref(*const_cast<uint32_t*>(flag)).load();
}
inline bool gives_up() { return fakecuda_cancelled() != 0; }
inline uint64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::nanoseconds(now).count());
}

namespace launching {

template <class T>
void declare(std::vector<fakecuda_range>& ranges, const Range<T>& range) {
  ranges.push_back(
      {const_cast<std::remove_const_t<T>*>(range.data), range.count * sizeof(T), range.access});
}
template <class T>
void declare(std::vector<fakecuda_range>&, const T&) {}

template <class T>
struct TouchedSpan {
  Range<T> range;
  memlease::Span<T, 3> like;
  int64_t first_bytes;  // from the range's begin to like.data()
};
template <class T>
void declare(std::vector<fakecuda_range>& ranges, const TouchedSpan<T>& cells) {
  declare(ranges, cells.range);
}
template <class T>
TouchedSpan<T> touched(const memlease::Span<T, 3>& cells) {
  int64_t first = 0;
  int64_t last = 0;
  for (size_t dim = 0; dim < 3; ++dim) {
    if (cells.shape()[dim] == 0) return {{cells.data(), 0, FAKECUDA_READ}, cells, 0};
    const int64_t way = (cells.shape()[dim] - 1) * cells.strides_bytes()[dim];
    (way < 0 ? first : last) += way;
  }
  const auto count = static_cast<size_t>(last - first) / sizeof(T) + 1;
  const auto begin = reinterpret_cast<uintptr_t>(cells.data()) + static_cast<uintptr_t>(first);
  const int access = std::is_const_v<T> ? FAKECUDA_READ : FAKECUDA_READ_WRITE;
  return {{reinterpret_cast<T*>(begin), count, access}, cells, -first};
}
template <class T>
const T& touched(const T& value) {
  return value;
}

template <class T>
T* resolve(const Range<T>&, void* const*& next) {
  return static_cast<T*>(*next++);
}
template <class T>
T resolve(const T& value, void* const*&) {
  return value;
}
template <class T>
memlease::Span<T, 3> resolve(const TouchedSpan<T>& cells, void* const*& next) {
  const auto begin = reinterpret_cast<uintptr_t>(*next++);
  return {reinterpret_cast<T*>(begin + static_cast<uintptr_t>(cells.first_bytes)),
          cells.like.shape(), cells.like.strides_bytes()};
}

template <class Kernel>
struct OnHost {
  template <class... Arguments>
  static void at(size_t /*i*/, const Arguments&... arguments) {
    Kernel::on(arguments...);
  }
};

template <class Kernel, class... Arguments>
void run(void* const* ranges, const void* packed) {
  const auto& [count, arguments] =
      *static_cast<const std::pair<size_t, std::tuple<Arguments...>>*>(packed);
  std::apply(
      [&, n = count](const auto&... given) {
        // Braces, so that the ranges are taken in their order.
        const std::tuple real{resolve(given, ranges)...};
        std::apply(
            [&](const auto&... is) {
              for (size_t i = 0; i < n; ++i) Kernel::at(i, is...);
            },
            real);
      },
      arguments);
}

}  // namespace launching

template <class Kernel, class... Arguments>
int launch(const char* name, size_t count, cudaStream_t stream, Arguments... arguments) {
  std::vector<fakecuda_range> ranges;
  (launching::declare(ranges, arguments), ...);
  const std::pair<size_t, std::tuple<Arguments...>> packed{count, {arguments...}};
  return fakecuda_launch(stream, name, &launching::run<Kernel, Arguments...>, ranges.data(),
                         ranges.size(), &packed, sizeof packed);
}

// What runs on the host where there is no stream. What it touches is all between its first and its
// last element.
template <class Kernel, class... Arguments>
int launch_library(const char* name, cudaStream_t stream, const Arguments&... arguments) {
  return launch<launching::OnHost<Kernel>>(name, 1, stream, launching::touched(arguments)...);
}
