// Waits for what a test cannot be woken by.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace memlease::testing {

// Whether it becomes true within 20 s.
inline bool eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace memlease::testing
