// Ending a wait from another thread, by std::stop_token where there is C++20. Standard library
// only, C++17.
#pragma once

#include <memlease/version.h>

#include <atomic>
#include <cstdint>
#include <utility>

#if __has_include(<version>)
#include <version>
#endif
#if defined(__cpp_lib_jthread)
#include <concepts>
#include <stop_token>
#endif

namespace memlease::internal {

// Ends waits, and wakes them. Outlives them. Thread-safe.
class MEMLEASE_API Stop {
 public:
  void request() noexcept;
  bool requested() const noexcept { return word_.load() != 0; }
  // The next wait is another one.
  void clear() noexcept { word_.store(0); }
  // Not 0 once it has been requested; a futex.
  const std::atomic<std::uint32_t>& word() const noexcept { return word_; }

 private:
  std::atomic<std::uint32_t> word_{0};
};

#if defined(__cpp_lib_jthread)

// So that {} stays what it is without C++20.
template <typename T>
concept StopToken = std::same_as<T, std::stop_token>;

// Calls it with a Stop that is requested when the token's is.
template <typename Call>
decltype(auto) until_stopped(std::stop_token token, Call&& call) {
  Stop stop;
  const std::stop_callback stops(std::move(token), [&stop] { stop.request(); });
  return std::forward<Call>(call)(stop);
}

#endif

}  // namespace memlease::internal
