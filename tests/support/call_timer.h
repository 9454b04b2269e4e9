// The peer's half of Bystander: makes calls all the time in a thread of its own, and keeps how long
// each took.
#pragma once

#include <memlease/client.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/call_times.h"

namespace memlease::testing {

class CallTimer {
 public:
  // Creates and withdraws an array of that name. The client outlives the timer.
  CallTimer(const Client& client, std::string name);
  ~CallTimer();
  CallTimer(const CallTimer&) = delete;
  CallTimer& operator=(const CallTimer&) = delete;

  // It makes no further calls; does not wait for the last one.
  void end() { stop_.store(true); }
  // Throws nothing; call once.
  CallTimes stop();
  // After that: the first call that failed; "" = none did.
  const std::string& wrong() const { return wrong_; }

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
