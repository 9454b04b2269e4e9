// Waits without end in threads of asyncio: they go on after their task is cancelled, and keep
// asyncio.run() from returning. The package logs such a wait once it has gone on for a while.
#pragma once

#include <memlease/timeout.h>

#include <chrono>
#include <optional>
#include <string>

namespace memlease::python {

// While one lives, this thread is in a call that may wait. Under the GIL; `name`, of what it waits
// for, outlives this.
class EndlessWait {
 public:
  // Nothing of it is noted where there is a timeout.
  EndlessWait(const std::string& name, const Timeout& timeout);
  ~EndlessWait();
  EndlessWait(const EndlessWait&) = delete;
  EndlessWait& operator=(const EndlessWait&) = delete;

  // By whatever goes on waiting in this thread, again and again, under the GIL. The time counts
  // from the first look. Throws what the package's code raises.
  static void look();

 private:
  const std::string& name_;
  EndlessWait* const around_;  // a call in a handler of signals, inside of another one
  std::optional<std::chrono::steady_clock::time_point> since_;
};

}  // namespace memlease::python
