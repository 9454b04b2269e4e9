// How long a call may wait. Standard library only, C++17.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <type_traits>

namespace memlease {

inline constexpr std::chrono::nanoseconds kForever = std::chrono::nanoseconds::max();

// Nothing = the call's default; zero or less = not at all, as where a deadline has passed. Any
// std::chrono::duration becomes one; what nanoseconds cannot count is kForever. Any time_point
// becomes one that ends then, also where it serves several calls, as a follower's steps; the clock
// is asked once, and a system clock that is set later does not move it.
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
  template <typename Clock, typename Duration>
  Timeout(const std::chrono::time_point<Clock, Duration>& end)
      : std::optional<std::chrono::nanoseconds>(until(end)) {
    if (**this != kForever) end_ = std::chrono::steady_clock::now() + **this;
  }
  // NOLINTEND(google-explicit-constructor)

  // How long a call that begins now may wait.
  std::optional<std::chrono::nanoseconds> from_now() const {
    if (!end_) return *this;
    return std::max(*end_ - std::chrono::steady_clock::now(), std::chrono::nanoseconds::zero());
  }

 private:
  // From a year on it is for ever, so that no sum of times overflows.
  template <typename Clock, typename Duration>
  static std::chrono::nanoseconds until(const std::chrono::time_point<Clock, Duration>& end) {
    using Seconds = std::chrono::duration<long double>;
    const Seconds left = Seconds(end.time_since_epoch()) - Seconds(Clock::now().time_since_epoch());
    if (left >= std::chrono::hours(24 * 365)) return kForever;
    return in_nanoseconds(std::max<Seconds>(left, Seconds::zero()));
  }
  template <typename Duration>
  static constexpr std::chrono::nanoseconds in_nanoseconds(const Duration& length) {
    using Seconds = std::chrono::duration<long double>;
    if (Seconds(length) >= Seconds(kForever)) return kForever;
    if (!(Seconds(length) > -Seconds(kForever))) return std::chrono::nanoseconds::zero();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(length);
  }

  std::optional<std::chrono::steady_clock::time_point> end_;
};

namespace internal {
// What becomes a Timeout, such as 1s.
template <typename T>
using IfTimeout = std::enable_if_t<std::is_convertible_v<const T&, Timeout>, int>;
}  // namespace internal

}  // namespace memlease
