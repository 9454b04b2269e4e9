#include "wire/grpc/missed_threads.h"

#include <utility>

namespace memlease::wire {
namespace {

struct Start {
  void* (*run)(void*) = nullptr;
  void* argument = nullptr;
  MissedThreads::Told told;
};

// A pointer, as that needs no destructor: what is told lives on the thread's stack.
thread_local const MissedThreads::Told* told_here = nullptr;

void* run_telling(void* start) {
  const std::unique_ptr<Start> its(static_cast<Start*>(start));
  told_here = &its->told;
  return its->run(its->argument);
}

}  // namespace

MissedThreads::MissedThreads(std::function<void()> told)
    : told_(std::make_shared<const std::function<void()>>(std::move(told))), before_(told_here) {
  told_here = &told_;
}

MissedThreads::~MissedThreads() { told_here = before_; }

int create_telling(void* (*run)(void*), void* argument,
                   absl::FunctionRef<int(void* (*run)(void*), void* argument)> create) {
  if (told_here == nullptr) return create(run, argument);
  auto start = std::make_unique<Start>(run, argument, *told_here);
  const int error = create(run_telling, start.get());
  if (error == 0) {
    static_cast<void>(start.release());  // the thread destroys it
  } else {
    (**told_here)();
  }
  return error;
}

}  // namespace memlease::wire
