// A stream: a queue of operations and a thread that does them one after the other. Thread-safe.
#pragma once

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "tests/support/fakecuda/layout.h"
#include "tests/support/fakecuda/memory.h"

namespace fakecuda {

class Context;
class Runtime;
class Stream;

// What an operation throws that the device finds at fault: the context is broken from then on.
struct DeviceFault {
  cudaError_t error;
};

class Operation {
 public:
  // `name` appears in reports.
  explicit Operation(std::string name) : name_(std::move(name)) {}
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  // On the stream's thread. An operation that is dropped is destroyed without it.
  virtual void run(Stream& stream) = 0;
  const std::string& name() const { return name_; }

 private:
  friend class Stream;
  const std::string name_;
  u64 id_ = 0;
};

// A point in a stream that others can wait for.
class Marker {
 public:
  Marker(u64 the_id, u32 the_agent, bool is_blocking)
      : id(the_id), agent(the_agent), blocking(is_blocking) {}

  enum class State { kPending, kReached, kDropped };
  void become(State state);
  State state() const;
  // kReached or kDropped.
  State wait() const;

  const u64 id;
  const u32 agent;
  const bool blocking;  // of a stream that the legacy stream waits for

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  State state_ = State::kPending;
};
using MarkerPtr = std::shared_ptr<Marker>;

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  static std::shared_ptr<Stream> start(Context& context, AgentKind kind, unsigned flags,
                                       int priority);
  ~Stream();

  // --- Host side
  // Appends an operation, after what the rules of default streams put before it.
  cudaError_t enqueue(std::unique_ptr<Operation> operation);
  // The point after all that is in the queue now, and, on the legacy stream, in those it waits for;
  // null if there never was anything.
  cudaError_t mark(MarkerPtr& marker);
  // Waits for that point, and the host knows of all before it.
  cudaError_t synchronize();
  // cudaErrorNotReady if it is not reached.
  cudaError_t query();
  // Waits without the host knowing of anything: for tests that fix an order.
  void drain();
  // No more operations will come: the thread ends after the last one.
  void close();
  bool ended() const;
  // Closes it and waits for its thread. Once, or by the destructor.
  void join();

  // --- For the context, which holds its lock
  MarkerPtr mark_locked();
  void await(const MarkerPtr& marker);

  // --- For operations, on the stream's thread
  // Null on a thread that is no stream's.
  static const Stream* of_this_thread();
  // Where an operation may touch [address, address + bytes); tells the trace. Throws DeviceFault.
  char* access(const void* address, std::size_t bytes, Access access, MappingPtr& keep);
  void trace(Kind kind, u64 a, u64 b = 0, u64 c = 0);
  // The device or the process is going down: do not wait any more.
  bool cancelled() const;
  void pause_us(u64 us);

  Runtime& runtime() const { return runtime_; }

  Context& context;
  const AgentKind kind;
  const unsigned flags;
  const int priority;
  const u64 number;  // counts up in a process
  const u32 agent;
  // Orders itself with the legacy stream.
  const bool blocking;
  std::atomic<bool> capturing = false;  // written by Captures alone

 private:
  Stream(Context& context, AgentKind kind, unsigned flags, int priority);
  // A capture that is waited for, or asked how far it is, is lost.
  cudaError_t refuse_capture();
  void push(std::unique_ptr<Operation> operation);
  void work();
  void run(Operation& operation);

  Runtime& runtime_;
  std::thread thread_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::deque<std::unique_ptr<Operation>> queue_;
  bool busy_ = false;
  bool closing_ = false;
  bool ended_ = false;
  bool dirty_ = false;  // something came after mark_
  MarkerPtr mark_;
  std::unordered_map<u32, u64> awaited_;  // agent -> the last marker of it that we waited for
  u64 random_;
};

// The streams that were made by name, by their handles.
class StreamTable {
 public:
  cudaStream_t add(std::shared_ptr<Stream> stream);
  std::shared_ptr<Stream> find(cudaStream_t handle) const;
  // Null if there is none.
  std::shared_ptr<Stream> remove(cudaStream_t handle);
  void clear();

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<cudaStream_t, std::shared_ptr<Stream>> streams_;
};

// The use of a stream that was destroyed, or never made: CUDA leaves it undefined, and drivers
// crash. Told to the checker; ends the process, or is refused, as the world's knob says.
cudaError_t stale_stream(Runtime& runtime);

// Both APIs' calls. The context keeps a destroyed stream until its work is done.
cudaError_t create_stream(Context& context, cudaStream_t* stream, unsigned flags, int priority);
cudaError_t destroy_stream(Runtime& runtime, cudaStream_t handle);
// Either may be null.
cudaError_t priority_range(int* least, int* greatest);

}  // namespace fakecuda
