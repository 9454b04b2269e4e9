// What fuzzers share: the function that each of them defines, and a way to take values off its
// bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <type_traits>

// One input. Whatever the bytes are, it returns 0; a broken promise ends the process.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace memlease::testing {

// A promise about any input.
inline void require(bool kept, const char* promise) {
  if (kept) return;
  std::fprintf(stderr, "fuzz: broken: %s\n", promise);
  std::abort();
}

// Bytes as numbers, until there are none: then zeros.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : rest_(data, size) {}

  bool empty() const { return rest_.empty(); }
  template <typename T>
  T take() {
    static_assert(std::is_integral_v<T>);
    T value = 0;
    const std::span<const std::uint8_t> bytes = take_bytes(sizeof value);
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }
  std::span<const std::uint8_t> take_bytes(std::size_t count) {
    const auto bytes = rest_.first(std::min(count, rest_.size()));
    rest_ = rest_.subspan(bytes.size());
    return bytes;
  }

 private:
  std::span<const std::uint8_t> rest_;
};

}  // namespace memlease::testing
