// Events: slots of the world, so that any process may record one and wait for it. Thread-safe.
//
// A record gets the next number when it is called; a wait takes the last number that was given when
// it is called, and waits for that record alone. An event that was never recorded counts as
// complete.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <shared_mutex>
#include <unordered_map>

#include "tests/support/fakecuda/layout.h"

namespace fakecuda {

class Context;
class Runtime;
class Stream;

struct Event {
  Event(u32 its_slot, u32 its_generation, unsigned its_flags, u32 its_device, Context* its_context,
        bool is_imported)
      : slot(its_slot),
        generation(its_generation),
        flags(its_flags),
        device(its_device),
        context(its_context),
        imported(is_imported) {}

  const u32 slot;
  const u32 generation;
  const unsigned flags;
  const u32 device;        // in the world
  Context* const context;  // that made or opened it
  const bool imported;
  std::atomic<bool> closed = false;
};
using EventPtr = std::shared_ptr<Event>;

class EventTable {
 public:
  cudaEvent_t add(EventPtr event);
  // Null, with a violation told, if it was destroyed or never was.
  EventPtr find(Runtime& runtime, cudaEvent_t handle) const;
  EventPtr remove(cudaEvent_t handle);
  // A process's end destroys what it made.
  void destroy_all(Runtime& runtime);

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<cudaEvent_t, EventPtr> events_;
};

cudaError_t create_event(Context& context, cudaEvent_t* event, unsigned flags);
cudaError_t destroy_event(Runtime& runtime, cudaEvent_t event);
cudaError_t record_event(Runtime& runtime, cudaEvent_t event, Stream& stream);
cudaError_t wait_event(Runtime& runtime, cudaEvent_t event, Stream& stream);
// On the host; cudaErrorNotReady at once, or waits.
cudaError_t query_event(Runtime& runtime, cudaEvent_t event);
cudaError_t synchronize_event(Runtime& runtime, cudaEvent_t event);
cudaError_t elapsed_time(Runtime& runtime, float* ms, cudaEvent_t start, cudaEvent_t end);

}  // namespace fakecuda
