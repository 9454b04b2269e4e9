// What pthread_create() and sysconf() are for the gRPC that is linked into the library and the
// programs, where the linker leads them here (memlease_hide_grpc of cmake/grpc.cmake).
#include <pthread.h>
#include <unistd.h>

#include "wire/grpc/missed_threads.h"
#include "wire/grpc/thread_reserve.h"

namespace {

// gRPC makes a thread for each processor, up to 32, in every process: for calls as rare as these
// two are enough.
constexpr long kProcessors = 2;

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
  using memlease::wire::take_reserved_thread;
  return memlease::wire::create_telling(
      run, argument, [&](void* (*its_run)(void*), void* its_argument) {
        if (take_reserved_thread(*thread, detached(attributes), its_run, its_argument)) return 0;
        return __real_pthread_create(thread, attributes, its_run, its_argument);
      });
}

long __real_sysconf(int name);

long __wrap_sysconf(int name) {
  return name == _SC_NPROCESSORS_CONF ? kProcessors : __real_sysconf(name);
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
