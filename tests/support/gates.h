// Steps at which a fake stops whoever comes by first, so that a test decides what happens
// meanwhile. They may wait, as what the fake stands for may: nobody is to come by under a mutex.
// Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <string>

#include "wire/held_mutexes.h"

namespace memlease::testing {

class Gates {
 public:
  // For the fakes: waits if the step's gate is shut and nobody waits there yet.
  void pass(const std::string& step) {
    wire::expect_no_mutex_held(step.c_str());
    std::unique_lock lock(mutex_);
    if (!shut_.contains(step) || !waiting_.insert(step).second) return;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !shut_.contains(step); });
    waiting_.erase(step);
  }
  // The next thread that comes to the step waits there; those behind it go on.
  void shut(const std::string& step) {
    const std::lock_guard lock(mutex_);
    shut_.insert(step);
  }
  void open_all() {
    const std::lock_guard lock(mutex_);
    shut_.clear();
    changed_.notify_all();
  }
  // Returns once a thread waits at the step; false if none comes.
  bool reached(const std::string& step) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10),
                             [&] { return waiting_.contains(step); });
  }

 private:
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::set<std::string> shut_;
  std::set<std::string> waiting_;
};

}  // namespace memlease::testing
