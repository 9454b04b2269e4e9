#include "tests/support/call_timer.h"

#include <utility>

#include "tests/support/percentile.h"
#include "tests/support/words.h"

namespace memlease::testing {
namespace {

using Clock = std::chrono::steady_clock;

// As a program that works between its calls. Who calls without a pause measures mostly himself.
constexpr std::chrono::milliseconds kBetweenCalls{1};

std::uint64_t percentile_us(std::vector<std::chrono::nanoseconds>& took, std::size_t percent) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(percentile(took, percent)).count());
}

}  // namespace

CallTimer::CallTimer(const Client& client, std::string name)
    : client_(client), name_(std::move(name)), thread_([this] { call_on(); }) {}

CallTimer::~CallTimer() {
  end();
  if (thread_.joinable()) thread_.join();
}

CallTimes CallTimer::stop() {
  end();
  thread_.join();
  return {took_.size(), percentile_us(took_, 50), percentile_us(took_, 99)};
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
