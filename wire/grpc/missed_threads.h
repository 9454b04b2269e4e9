// Who is told of a thread that gRPC does not get. It goes on without one, and a server of gRPC
// counts it among those that it has for as long as it lives. All is thread-safe.
#pragma once

#include <functional>
#include <memory>

#include "absl/functional/function_ref.h"

namespace memlease::wire {

// While it lives, `told` is called for each thread that a gRPC which is linked in
// (wrapped_calls.cc) does not get in this thread; and in each that is made meanwhile, and in those
// that these make, for as long as they live.
class MissedThreads {
 public:
  using Told = std::shared_ptr<const std::function<void()>>;

  explicit MissedThreads(std::function<void()> told);
  ~MissedThreads();
  MissedThreads(const MissedThreads&) = delete;
  MissedThreads& operator=(const MissedThreads&) = delete;

 private:
  const Told told_;
  const Told* const before_;
};

// Of pthread_create(): has `create` make a thread that runs `run`, and tells whom this one tells.
// Returns what `create` does, an errno or 0.
int create_telling(void* (*run)(void*), void* argument,
                   absl::FunctionRef<int(void* (*run)(void*), void* argument)> create);

}  // namespace memlease::wire
