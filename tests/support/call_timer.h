// The peer's half of Bystander: makes calls all the time in a thread of its own, and keeps how long
// each took.
#pragma once

#include <memlease/client.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace memlease::testing {

struct TimedCalls {
  std::uint64_t count = 0;
  std::uint64_t median_us = 0;
  std::uint64_t most_us = 0;  // of 99 in 100
  std::string wrong;          // the first call that failed; "" = none did
};

class CallTimer {
 public:
  // Creates and withdraws an array of that name. The client outlives the timer.
  CallTimer(const Client& client, std::string name);
  ~CallTimer();
  CallTimer(const CallTimer&) = delete;
  CallTimer& operator=(const CallTimer&) = delete;

  // Throws nothing; call once.
  TimedCalls stop();

 private:
  void call_on();

  const Client& client_;
  const std::string name_;
  std::vector<std::chrono::nanoseconds> took_;
  std::string wrong_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace memlease::testing
