// How long a call may wait. Standard library only, C++17.
#pragma once

#include <chrono>
#include <optional>

namespace memlease {

inline constexpr std::chrono::nanoseconds kForever = std::chrono::nanoseconds::max();

// Nothing = the call's default; zero or less = not at all, as where a deadline has passed. Any
// std::chrono::duration becomes one; what nanoseconds cannot count is kForever.
class Timeout : public std::optional<std::chrono::nanoseconds> {
 public:
  // NOLINTBEGIN(google-explicit-constructor): as those of std::optional
  constexpr Timeout() = default;
  constexpr Timeout(std::nullopt_t /*nothing*/) {}
  constexpr Timeout(const std::optional<std::chrono::nanoseconds>& length)
      : std::optional<std::chrono::nanoseconds>(length) {}
  template <typename Rep, typename Period>
  constexpr Timeout(const std::chrono::duration<Rep, Period>& length)
      : std::optional<std::chrono::nanoseconds>(in_nanoseconds(length)) {}
  // NOLINTEND(google-explicit-constructor)

 private:
  template <typename Duration>
  static constexpr std::chrono::nanoseconds in_nanoseconds(const Duration& length) {
    using Seconds = std::chrono::duration<long double>;
    if (Seconds(length) >= Seconds(kForever)) return kForever;
    if (!(Seconds(length) > -Seconds(kForever))) return std::chrono::nanoseconds::zero();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(length);
  }
};

}  // namespace memlease
