// The stand-in in one process: its view of a world, and the tables of what it has made there.
// Thread-safe. It comes to be with the first call that needs it, and ends with the process or with
// fakecuda_detach().
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/support/fakecuda/capture.h"
#include "tests/support/fakecuda/context.h"
#include "tests/support/fakecuda/event.h"
#include "tests/support/fakecuda/memory.h"
#include "tests/support/fakecuda/world.h"

namespace fakecuda {

class Runtime {
 public:
  // The one of this process, made if there is none. 35: no world; 3: forked; 4: the process ends.
  static cudaError_t get(Runtime*& runtime);
  // The one of this process, or null.
  static Runtime* running();
  // Ends it: streams drop what they have not begun. A later call attaches again.
  static void detach();

  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  ~Runtime();

  World& world() { return *world_; }
  Process& process() { return world_->layout().processes[process_]; }
  u32 process_index() const { return process_; }
  u64 epoch() const { return epoch_; }
  u32 knob(Knob knob) const { return world_->knob(knob); }
  bool stopping() const { return stopping_.load(std::memory_order_relaxed); }

  // The agent of the calling thread's host side.
  u32 host_agent();
  u32 name(const std::string& text);
  void trace(Kind kind, u64 a = 0, u64 b = 0, u64 c = 0) {
    world_->append(kind, host_agent(), a, b, c);
  }
  void violation(Violation what, u64 b = 0, u64 c = 0) {
    trace(Kind::kViolation, static_cast<u64>(what), b, c);
  }

  // Devices that CUDA_VISIBLE_DEVICES lets this process see, by ordinal.
  int device_count() const { return static_cast<int>(contexts_.size()); }
  Context& primary(int ordinal) { return *contexts_[static_cast<std::size_t>(ordinal)]; }
  // -1 if this process does not see it.
  int ordinal_of(u32 device) const;

  // --- Contexts. A destroyed one stays in the table, so that it is known as such.
  Context& make_context(int ordinal);
  // Of a handle as the driver's API takes it; null: there never was such a context.
  Context* context_of(CUcontext handle) const;
  // A primary context's is the same for as long as the process lives, whatever world it is in.
  static CUcontext handle_of(const Context* context);
  // The runtime API's current context: the device's primary one if the thread has none.
  cudaError_t current(Context*& context);
  // A stream handle as the API takes it. `per_thread` says what 0 means.
  cudaError_t find(cudaStream_t handle, bool per_thread, std::shared_ptr<Stream>& stream);

  MemoryMap memory;
  EventTable events;
  StreamTable streams;
  Captures captures;

 private:
  explicit Runtime(std::unique_ptr<World> world);
  static cudaError_t attach(Runtime*& runtime);
  static void at_exit();
  void stop();
  friend struct AtExit;
  u32 enter_world();

  const std::unique_ptr<World> world_;
  const u32 process_;
  const u64 epoch_;
  u32 host_agent_ = 0;
  std::vector<std::unique_ptr<Context>> contexts_;  // the primary ones, by ordinal
  mutable std::mutex made_mutex_;                   // guards what follows
  std::vector<std::unique_ptr<Context>> made_;      // the others
  std::atomic<bool> stopping_ = false;
  std::mutex names_mutex_;
  std::unordered_map<std::string, u32> names_;
};

// What belongs to a thread. Forgotten when the runtime is a later one.
struct ThreadState {
  ThreadState();
  ~ThreadState();
  ThreadState(const ThreadState&) = delete;
  ThreadState& operator=(const ThreadState&) = delete;

  const u64 number;  // of the thread; never given twice
  u64 epoch = 0;
  int ordinal = 0;                // of cudaSetDevice
  std::vector<Context*> current;  // the driver's stack; its top is current
  u32 agent = 0;                  // with Knob::kThreadsApart
  std::unordered_map<Context*, std::shared_ptr<Stream>> streams;
  cudaError_t last_error = cudaSuccess;
  bool in_host_function = false;
  cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
};
ThreadState& this_thread();

}  // namespace fakecuda
