// Work of the loop's that may have to wait for others: it is done on a thread beside the loop,
// which goes on meanwhile, once at a time. All calls belong to the loop's thread.
#pragma once

#include <functional>
#include <thread>
#include <utility>

#include "server/loop/event_loop.h"

namespace memlease::server {

class Errand {
 public:
  // Called on the thread; what it returns is then called on the loop's.
  using Work = std::function<EventLoop::Task()>;

  // The loop outlives this, and does not run any more when this goes.
  Errand(EventLoop& loop, Work work) : loop_(loop), work_(std::move(work)) {}
  // Waits for work that is under way; what it returns is not called.
  ~Errand();
  Errand(const Errand&) = delete;
  Errand& operator=(const Errand&) = delete;

  // While the work is under way: it is done once more after that. If there is no thread for it, the
  // loop waits for it.
  void begin();

 private:
  void work();
  void end(const EventLoop::Task& then);

  EventLoop& loop_;
  const Work work_;
  bool under_way_ = false;
  bool again_ = false;
  std::thread thread_;
};

}  // namespace memlease::server
