#include "tests/support/fakecuda/event.h"

#include <algorithm>
#include <chrono>

#include "tests/support/fakecuda/futex.h"
#include "tests/support/fakecuda/runtime.h"
#include "tests/support/fakecuda/stream.h"

namespace fakecuda {
namespace {

void raise(std::atomic<u64>& value, u64 to) {
  u64 now = value;
  while (now < to && !value.compare_exchange_weak(now, to)) {
  }
}

// One record of an event.
struct Recording {
  EventSlot* slot = nullptr;
  u64 key = 0;  // as the trace names the event
  u64 id = 0;   // 0: never recorded

  bool complete(const Runtime& runtime) const {
    if (slot->done[id % kEventRing] >= id && !overtaken()) return true;
    return runtime.knob(Knob::kLaterRecordReleases) != 0 && slot->newest_done >= id;
  }
  bool overtaken() const {
    for (const auto& other : slot->overtaken) {
      if (other == id) return true;
    }
    return false;
  }
  void change_overtaken(u64 from, u64 to) const {
    for (auto& other : slot->overtaken) {
      u64 now = from;
      if (other.compare_exchange_strong(now, to)) return;
    }
  }
  // The record is complete: the event's place for it says so.
  void finish() const {
    std::atomic<u64>& done = slot->done[id % kEventRing];
    // Those that share the place and are not complete yet.
    const u64 before = done;
    const u64 first = before != 0 ? before + kEventRing : (id - 1) % kEventRing + 1;
    for (u64 other = first; other < id; other += kEventRing) change_overtaken(0, other);
    raise(done, id);
    change_overtaken(id, 0);
    raise(slot->newest_done, id);
    bump(slot->wake);
  }
};

class RecordOperation : public Operation {
 public:
  RecordOperation(const Recording& recording, EventPtr event)
      : Operation("cudaEventRecord"), recording_(recording), event_(std::move(event)) {
    ++recording_.slot->pending;
  }
  ~RecordOperation() override { --recording_.slot->pending; }
  void run(Stream& stream) override {
    EventSlot& slot = *recording_.slot;
    const bool closed = event_->imported && event_->closed;
    if (closed && stream.runtime().knob(Knob::kCloseLosesRecord) != 0) return;
    while (stream.runtime().knob(Knob::kRecordsQueue) != 0) {
      const u32 seen = slot.wake;
      if (slot.newest_done + 1 >= recording_.id) break;
      if (stream.cancelled()) return;
      wait_a_little(slot.wake, seen);
    }
    stream.trace(Kind::kRelease, static_cast<u64>(KeyKind::kEvent), recording_.key, recording_.id);
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    slot.done_at_ns = static_cast<u64>(std::chrono::nanoseconds(now).count());
    recording_.finish();
  }

 private:
  const Recording recording_;
  const EventPtr event_;
};

class WaitOperation : public Operation {
 public:
  explicit WaitOperation(const Recording& recording)
      : Operation("cudaStreamWaitEvent"), recording_(recording) {}
  void run(Stream& stream) override {
    for (;;) {
      const u32 seen = recording_.slot->wake;
      if (stream.runtime().knob(Knob::kWaitsFollow) != 0) recording_.id = recording_.slot->issued;
      if (recording_.complete(stream.runtime())) break;
      if (stream.cancelled()) return;
      wait_a_little(recording_.slot->wake, seen);
    }
    stream.trace(Kind::kAcquire, static_cast<u64>(KeyKind::kEvent), recording_.key, recording_.id);
  }

 private:
  Recording recording_;
};

// The event, if it is to be had still; using it after its destruction is undefined with CUDA, and
// told to the checker here.
cudaError_t look_up(Runtime& runtime, cudaEvent_t handle, EventPtr& event, EventSlot*& slot) {
  event = runtime.events.find(runtime, handle);
  if (event == nullptr) return cudaErrorInvalidResourceHandle;
  slot = &runtime.world().layout().events[event->slot];
  const bool outlives = event->imported && runtime.knob(Knob::kEventsOutlive) != 0 &&
                        slot->state == EventSlot::kDestroyed;
  if ((slot->state != EventSlot::kLive && !outlives) || slot->generation != event->generation) {
    runtime.violation(Violation::kEventUsedAfterDestroy, event->slot);
    return cudaErrorInvalidResourceHandle;
  }
  return cudaSuccess;
}

cudaError_t last_recording(Runtime& runtime, cudaEvent_t handle, Recording& recording) {
  EventPtr event;
  const cudaError_t error = look_up(runtime, handle, event, recording.slot);
  if (error != cudaSuccess) return error;
  recording.key = u64{event->slot} << 32 | event->generation;
  recording.id = recording.slot->issued;
  return cudaSuccess;
}

void acquire(Runtime& runtime, const Recording& recording) {
  runtime.trace(Kind::kAcquire, static_cast<u64>(KeyKind::kEvent), recording.key, recording.id);
}

bool reusable(World& world, EventSlot& slot) {
  const u32 state = slot.state;
  if (state == EventSlot::kFree) return true;
  if (state == EventSlot::kDestroyed) return slot.pending == 0 || world.gone(slot.owner);
  return false;
}

}  // namespace

cudaEvent_t EventTable::add(EventPtr event) {
  const auto handle = reinterpret_cast<cudaEvent_t>(event.get());
  const std::unique_lock lock(mutex_);
  events_[handle] = std::move(event);
  return handle;
}

EventPtr EventTable::find(Runtime& runtime, cudaEvent_t handle) const {
  const std::shared_lock lock(mutex_);
  const auto found = events_.find(handle);
  if (found != events_.end()) return found->second;
  if (handle != nullptr) runtime.violation(Violation::kEventUsedAfterDestroy, kMaxEvents);
  return nullptr;
}

EventPtr EventTable::remove(cudaEvent_t handle) {
  const std::unique_lock lock(mutex_);
  const auto found = events_.find(handle);
  if (found == events_.end()) return nullptr;
  EventPtr event = std::move(found->second);
  events_.erase(found);
  return event;
}

void EventTable::destroy_all(Runtime& runtime) {
  const std::unique_lock lock(mutex_);
  for (const auto& [handle, event] : events_) {
    if (!event->imported)
      runtime.world().layout().events[event->slot].state = EventSlot::kDestroyed;
  }
  events_.clear();
}

cudaError_t create_event(Context& context, cudaEvent_t* handle, unsigned flags) {
  constexpr unsigned kKnown =
      cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
  if (handle == nullptr || (flags & ~kKnown) != 0) return cudaErrorInvalidValue;
  const bool shared = (flags & cudaEventInterprocess) != 0;
  if (shared && (flags & cudaEventDisableTiming) == 0) return cudaErrorInvalidValue;
  Runtime& runtime = context.runtime;
  Layout& layout = runtime.world().layout();
  // Slots are reused as late as can be, so that a destroyed event is known as such for long.
  for (u32 tries = 0; tries < kMaxEvents; ++tries) {
    const u32 index = layout.next_event++ % kMaxEvents;
    EventSlot& slot = layout.events[index];
    u32 state = slot.state;
    if (!reusable(runtime.world(), slot) ||
        !slot.state.compare_exchange_strong(state, EventSlot::kMaking)) {
      continue;
    }
    const u32 generation = ++slot.generation;
    slot.device = context.device;
    slot.owner = runtime.process_index();
    slot.pending = 0;
    slot.issued = slot.newest_done = 0;
    for (auto& done : slot.done) done = 0;
    for (auto& overtaken : slot.overtaken) overtaken = 0;
    slot.state = EventSlot::kLive;
    *handle = runtime.events.add(
        std::make_shared<Event>(index, generation, flags, context.device, &context, false));
    ++runtime.process().events;
    return cudaSuccess;
  }
  return cudaErrorMemoryAllocation;
}

cudaError_t destroy_event(Runtime& runtime, cudaEvent_t handle) {
  const EventPtr event = runtime.events.remove(handle);
  if (event == nullptr) return cudaErrorInvalidResourceHandle;
  --runtime.process().events;
  event->closed = true;
  if (event->imported) {
    return runtime.knob(Knob::kOpensWait) == 0 ? cudaSuccess : event->context->wait_for_all();
  }
  runtime.world().layout().events[event->slot].state = EventSlot::kDestroyed;
  return cudaSuccess;
}

cudaError_t record_event(Runtime& runtime, cudaEvent_t handle, Stream& stream) {
  EventPtr event;
  Recording recording;
  const cudaError_t error = look_up(runtime, handle, event, recording.slot);
  if (error != cudaSuccess) return error;
  if (event->context != &stream.context) return cudaErrorInvalidResourceHandle;
  if (stream.capturing) return cudaErrorStreamCaptureUnsupported;
  recording.key = u64{event->slot} << 32 | event->generation;
  recording.id = ++recording.slot->issued;
  const cudaError_t refused = stream.enqueue(std::make_unique<RecordOperation>(recording, event));
  // Nobody shall wait for a record that will not be.
  u64 last = recording.id;
  if (refused != cudaSuccess) recording.slot->issued.compare_exchange_strong(last, last - 1);
  return refused;
}

cudaError_t wait_event(Runtime& runtime, cudaEvent_t handle, Stream& stream) {
  Recording recording;
  const cudaError_t error = last_recording(runtime, handle, recording);
  if (error != cudaSuccess || recording.id == 0) return error;
  return stream.enqueue(std::make_unique<WaitOperation>(recording));
}

cudaError_t query_event(Runtime& runtime, cudaEvent_t handle) {
  Recording recording;
  const cudaError_t error = last_recording(runtime, handle, recording);
  if (error != cudaSuccess || recording.id == 0) return error;
  if (!recording.complete(runtime)) return cudaErrorNotReady;
  acquire(runtime, recording);
  return cudaSuccess;
}

cudaError_t synchronize_event(Runtime& runtime, cudaEvent_t handle) {
  Recording recording;
  Context* context = nullptr;
  cudaError_t error = runtime.current(context);
  if (error == cudaSuccess) error = last_recording(runtime, handle, recording);
  if (error != cudaSuccess || recording.id == 0) return error;
  for (;;) {
    const u32 seen = recording.slot->wake;
    if (recording.complete(runtime)) break;
    if (context->broken() != cudaSuccess) return context->broken();
    if (runtime.stopping()) return cudaErrorCudartUnloading;
    wait_a_little(recording.slot->wake, seen);
  }
  acquire(runtime, recording);
  return cudaSuccess;
}

cudaError_t elapsed_time(Runtime& runtime, float* ms, cudaEvent_t start, cudaEvent_t end) {
  if (ms == nullptr) return cudaErrorInvalidValue;
  u64 at[2] = {};
  int i = 0;
  for (cudaEvent_t handle : {start, end}) {
    EventPtr event;
    Recording recording;
    cudaError_t error = look_up(runtime, handle, event, recording.slot);
    if (error != cudaSuccess) return error;
    if ((event->flags & cudaEventDisableTiming) != 0) return cudaErrorInvalidResourceHandle;
    error = last_recording(runtime, handle, recording);
    if (error != cudaSuccess) return error;
    if (recording.id == 0) return cudaErrorInvalidResourceHandle;
    if (!recording.complete(runtime)) return cudaErrorNotReady;
    at[i++] = recording.slot->done_at_ns;
  }
  *ms = static_cast<float>(static_cast<double>(static_cast<std::int64_t>(at[1] - at[0])) / 1e6);
  return cudaSuccess;
}

}  // namespace fakecuda
