#include "tests/support/call_timer.h"

#include <algorithm>
#include <utility>

#include "tests/support/words.h"

namespace memlease::testing {
namespace {

using Clock = std::chrono::steady_clock;

// As a program that works between its calls. Who calls without a pause measures mostly himself.
constexpr std::chrono::milliseconds kBetweenCalls{1};

std::uint64_t percentile_us(std::vector<std::chrono::nanoseconds>& took, std::size_t percent) {
  if (took.empty()) return 0;
  const auto at = took.begin() + static_cast<std::ptrdiff_t>(took.size() * percent / 100);
  std::nth_element(took.begin(), at, took.end());
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(*at).count());
}

}  // namespace

CallTimer::CallTimer(const Client& client, std::string name)
    : client_(client), name_(std::move(name)), thread_([this] { call_on(); }) {}

CallTimer::~CallTimer() {
  stop_.store(true);
  if (thread_.joinable()) thread_.join();
}

TimedCalls CallTimer::stop() {
  stop_.store(true);
  thread_.join();
  return {took_.size(), percentile_us(took_, 50), percentile_us(took_, 99), wrong_};
}

void CallTimer::call_on() {
  const auto timed = [this](const auto& call) {
    std::this_thread::sleep_for(kBetweenCalls);
    const auto begin = Clock::now();
    call();
    took_.push_back(Clock::now() - begin);
  };
  try {
    do {  // at least once, however short it is
      timed([this] { static_cast<void>(client_.create(words(name_, 8))); });
      timed([this] { static_cast<void>(client_.list()); });
      timed([this] { client_.withdraw(name_); });
    } while (!stop_.load());
  } catch (const Error& error) {
    wrong_ = error.what();
  }
}

}  // namespace memlease::testing
