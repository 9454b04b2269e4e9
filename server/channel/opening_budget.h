// How many openings of arrays the loop makes itself for one user in a tenth of a second. What is
// beyond goes by calls, on threads of his own: whoever floods the loop gets a part of it, and of
// the core's lock.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <unordered_map>

namespace memlease::server {

// Not thread-safe.
class OpeningBudget {
 public:
  explicit OpeningBudget(unsigned of_each) : of_each_(of_each) {}

  // False if he has had as many as he may.
  bool take(uid_t payer, std::chrono::steady_clock::time_point now) {
    if (now >= end_) {
      taken_.clear();
      end_ = now + std::chrono::milliseconds(100);
    }
    return ++taken_[payer] <= of_each_;
  }

 private:
  const unsigned of_each_;
  std::chrono::steady_clock::time_point end_;
  std::unordered_map<uid_t, unsigned> taken_;
};

}  // namespace memlease::server
