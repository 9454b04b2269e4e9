// Launches kernels on the stand-in: what a kernel touches is declared, and it gets addresses that
// it can touch instead of those it was given. Its sibling is launch_nvcc.h.
#pragma once

#include <memlease/kernels.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <tuple>
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
T* resolve(const Range<T>&, void* const*& next) {
  return static_cast<T*>(*next++);
}
template <class T>
T resolve(const T& value, void* const*&) {
  return value;
}

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

// The library's own loop, which is the host's.
struct AddIndexTuple {
  static void at(size_t /*i*/, uint64_t* data, const memlease::Span<uint64_t, 3>& like) {
    memlease::add_index_tuple(
        memlease::Span<uint64_t, 3>(data, like.shape(), like.strides_bytes()));
  }
};
inline int add_index_tuple(const memlease::Span<uint64_t, 3>& on, cudaStream_t stream) {
  return launch<AddIndexTuple>("tk_add_index_tuple", 1, stream,
                               changes(on.data(), static_cast<size_t>(on.size())), on);
}
