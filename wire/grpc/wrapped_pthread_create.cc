// What pthread_create() is for the gRPC that is linked into the library and the programs, where the
// linker leads it here (memlease_hide_grpc of cmake/grpc.cmake).
#include <pthread.h>

#include "wire/grpc/thread_reserve.h"

namespace {

[[maybe_unused]] const bool kUsed = memlease::wire::use_reserved_threads();

bool detached(const pthread_attr_t* attributes) {
  int state = PTHREAD_CREATE_JOINABLE;
  if (attributes != nullptr) pthread_attr_getdetachstate(attributes, &state);
  return state == PTHREAD_CREATE_DETACHED;
}

}  // namespace

// The linker's names.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {

int __real_pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                          void* argument);

int __wrap_pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                          void* argument) {
  if (memlease::wire::take_reserved_thread(*thread, detached(attributes), run, argument)) return 0;
  return __real_pthread_create(thread, attributes, run, argument);
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
