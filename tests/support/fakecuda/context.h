// A context of one visible device, its primary one or another: its streams and how they are
// ordered, its peers, and the error that broke it. Thread-safe.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "tests/support/fakecuda/stream.h"

namespace fakecuda {

inline constexpr int kLeastPriority = 0;
inline constexpr int kGreatestPriority = -5;

class Context {
 public:
  Context(Runtime& runtime, u32 device, int ordinal, bool primary);
  ~Context();

  Runtime& runtime;
  const u32 device;   // in the world
  const int ordinal;  // in this process
  const bool primary;

  // --- Its existence. The first use makes it, and the world counts that.
  void use();
  void retain();
  // False if nobody had retained it.
  bool release();
  bool exists() const { return exists_; }
  // With its streams; what they have not begun is dropped. Not of a primary one.
  void destroy();

  // The error that broke it; it stays.
  cudaError_t broken() const { return broken_; }
  void break_with(cudaError_t error);

  // May its kernels touch this memory?
  bool reaches(const Mapping& mapping) const;
  cudaError_t enable_peer(u32 device);
  cudaError_t disable_peer(u32 device);

  // --- Streams
  // A priority out of range becomes the nearest.
  std::shared_ptr<Stream> new_stream(unsigned flags, int priority);
  std::shared_ptr<Stream> legacy_stream();
  // The calling thread's.
  std::shared_ptr<Stream> thread_stream();
  // Work that is queued is still done.
  void retire(const std::shared_ptr<Stream>& stream);
  // All streams, and the host knows of what they did. Conflicts with a capture of any of them.
  cudaError_t synchronize();
  // As a call waits that may be made during a capture.
  cudaError_t wait_for_all();
  // The same where something is closed, unless a knob says no: it orders nothing for the checker,
  // as nobody may rely on it.
  cudaError_t wait_to_close();
  cudaError_t host_wait_marker(const MarkerPtr& marker);
  // Ends all streams; they drop what they have not begun.
  void stop();

  // Held while one operation is put in its place among the others.
  std::mutex order_mutex;
  // Puts a stream behind what the legacy stream's rules say. order_mutex is held. The legacy stream
  // would take part in the capture of a blocking one: that is refused, and loses the capture.
  cudaError_t order(Stream& stream);
  // Would it? Asking does no harm.
  bool captures_implicitly(const Stream& stream) const;

 private:
  std::shared_ptr<Stream> start(AgentKind kind, unsigned flags, int priority);
  void drop_ended();

  std::atomic<cudaError_t> broken_ = cudaSuccess;
  std::atomic<bool> exists_ = false;
  std::atomic<bool> used_ = false;  // by the runtime API, which never releases it
  mutable std::mutex mutex_;        // of what follows
  int retained_ = 0;
  std::set<u32> peers_;
  // order_mutex guards these.
  std::shared_ptr<Stream> legacy_;
  std::vector<std::shared_ptr<Stream>> streams_;
  std::vector<std::shared_ptr<Stream>> retired_;
  std::vector<MarkerPtr> leftovers_;  // of retired streams, that nobody waited for
};

}  // namespace fakecuda
