// Children by order, that may be killed at once and cost no exec: a process without threads forks
// them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>

#include "wire/unique_fd.h"

namespace memlease::testing {

// Make it before the test has threads, or memlease. Not thread-safe.
class ForkServer {
 public:
  // What a child does with the number of its order; it exits with 0 after that, with 1 after an
  // exception.
  using Work = std::function<void(std::uint64_t)>;
  explicit ForkServer(const Work& work);
  // Its child, if there is one, is killed.
  ~ForkServer();
  ForkServer(const ForkServer&) = delete;
  ForkServer& operator=(const ForkServer&) = delete;

  // Forks one child. Its number, which nobody else gets before wait().
  pid_t start(std::uint64_t order);
  // From start() to wait().
  bool is_busy() const { return is_busy_; }
  // That child has ended.
  bool ended() const;
  // How it ended, as waitpid(2) has it: reaped, once it has.
  int wait();

 private:
  pid_t pid_ = 0;
  bool is_busy_ = false;
  wire::UniqueFd orders_, answers_;
};

}  // namespace memlease::testing
