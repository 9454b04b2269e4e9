// Threads that are made before gRPC asks for them. It goes on without one that it does not get, and
// waits for it for ever when it is shut down, or in a call. Where a copy of gRPC is linked in, its
// threads are taken from here (wrapped_calls.cc); where it is shared, there is one look
// whether so many can be made. All functions are thread-safe.
#pragma once

#include <pthread.h>

#include <string_view>

#include "absl/status/status.h"

namespace memlease::wire {

// Has as many ready as gRPC makes, and lets those go that were ready before. To be called before
// gRPC starts, or a server of it. kOutOfMemory: there are not as many, or no memory beside them;
// the message says for what: "to call the daemon".
absl::Status reserve_threads(std::string_view purpose);
// Ends those that nobody has taken, once gRPC is shut down or needs no more.
void release_reserved_threads();

// Whether there is memory for it to begin or to end; without, it ends the process.
bool has_memory_for_grpc();

// Of pthread_create(): runs `run` in a reserved thread. False: none is left.
bool take_reserved_thread(pthread_t& thread, bool detached, void* (*run)(void*), void* argument);
// Said once, by what takes them.
bool use_reserved_threads();

}  // namespace memlease::wire
