// This process's connection to one daemon: shared by all clients, arrays, leases and views in the
// process, and alive as long as one of them is. Thread-safe.
#pragma once

#include <time.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "client/core/control_port.h"
#include "client/core/file_source.h"
#include "client/core/fork_guard.h"
#include "client/core/import_cache.h"
#include "client/core/kept_sources.h"
#include "client/core/mapping_cache.h"
#include "proto/wire/ids.h"

namespace memlease::internal {

class ArrayState;
class DeviceOrder;

// What an array on a device has open: nothing of it may be closed before its work is done.
struct DeviceUse {
  DeviceUse();
  DeviceUse(DeviceUse&&) noexcept;
  DeviceUse& operator=(DeviceUse&&) noexcept;
  // Work that will not end keeps it open until the process exits.
  ~DeviceUse();
  bool complete() const;

  std::vector<std::shared_ptr<DeviceMemory>> memory;
  std::unique_ptr<DeviceOrder> order;  // nullptr for the host
};

// The time of day in seconds: a library's call and one load from a page that the kernel keeps,
// where the monotonic clocks cost as much as an atomic operation. Serves to see that it changes.
inline std::int64_t coarse_second() { return time(nullptr); }

class Session : public std::enable_shared_from_this<Session>, private ForkObserver {
 public:
  Session(std::string directory, wire::SessionId id, std::unique_ptr<FileSource> files,
          std::unique_ptr<ControlPort> control, ImporterSource& importers);
  ~Session() override;

  const std::string& directory() const { return directory_; }
  wire::SessionId id() const { return id_; }
  ControlPort& control() { return *control_; }
  MappingCache& mappings() { return mappings_; }
  ImportCache& imports() { return imports_; }
  KeptSources& kept() { return kept_; }

  // kForkedClient, kDaemonLost or OK. Looks at the socket at most once a second: cheap enough for
  // each acquire and publish.
  absl::Status usable();
  // Nothing speaks against it, and no look is due: usable() would say OK.
  bool usable_at_once() const {
    return !forked() && !ended_.load(std::memory_order_relaxed) &&
           !lost_.load(std::memory_order_relaxed) &&
           last_look_s_.load(std::memory_order_relaxed) == coarse_second();
  }
  // As usable(), but looks at the socket now.
  absl::Status look();

  bool forked() const { return fork_generation_ != fork_generation(); }

  // One more Client. False if the last one has closed the session: make a new one.
  bool add_connection();
  // True if it was the last one, and closed by its user: nothing new begins, close() is next.
  bool remove_connection(bool closed);

  // The state of an opened array: the same one for all handles of this process. Opens it without
  // the lock; threads that open one array wait for the first.
  absl::StatusOr<std::shared_ptr<ArrayState>> join(const OpenedArray& opened);
  // The same without a call, where this process has the array of that name open and the board says
  // that the name is still its own; nullptr: ask the daemon.
  std::shared_ptr<ArrayState> find_open(const std::string& name);
  // One more handle of the state, for whoever has a mark on it (ReleaseMark); nullptr if it is
  // dying.
  std::shared_ptr<ArrayState> handle_of(ArrayState& state);
  // Closes all arrays, and the session with them unless leases or pins live: then it ends with the
  // last of these.
  void close();
  // The array's state has died where no call may be made; flush() leaves it, once the device is
  // done with what it had open there. It waits for the device where pins have died after the leases
  // of an array that gets no other.
  void depart(wire::ArrayId array, std::uint32_t opens, DeviceUse use);
  void flush();
  // A hold has ended, or is to be settled, where no call may be made: flush() looks whether an
  // array is to be left.
  void note_release() { release_noted_.store(true, std::memory_order_relaxed); }
  // A hold is kept of which nobody knows whether its work is over: whatever call comes next in this
  // process, on an array of a device or to the daemon, sees to it by settle_noted(). That waits for
  // the device; not to be called under a lock.
  void note_unsettled() {
    unsettled_noted_.store(true, std::memory_order_relaxed);
    note_release();
  }
  void settle_noted() {
    if (unsettled_noted_.load(std::memory_order_relaxed)) settle_all();
  }

  // Bytes copied by put, get and update, as a number of copies.
  void count_copy() { copies_.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t copies() const { return copies_.load(std::memory_order_relaxed); }

  void set_check_interrupt(std::function<void()> check);
  // OK, or kInterrupted with what the caller's function has thrown. To be asked by every wait.
  absl::Status check_interrupt() const;

 private:
  const std::string directory_;
  const wire::SessionId id_;
  const std::unique_ptr<FileSource> files_;
  const std::unique_ptr<ControlPort> control_;
  MappingCache mappings_;
  ImportCache imports_;
  KeptSources kept_;
  const std::uint32_t fork_generation_;
  std::atomic<std::int64_t> last_look_s_{0};
  std::atomic<bool> lost_{false};
  std::atomic<bool> ended_{false};  // closed by its last user; set under mutex_
  std::atomic<bool> release_noted_{false};
  std::atomic<bool> unsettled_noted_{false};
  std::atomic<std::uint64_t> copies_{0};

  void after_fork_in_child() override { files_->abandon(); }
  bool departing() const;
  void settle_all();
  std::shared_ptr<ArrayState> join_known(const OpenedArray& opened);
  std::vector<std::shared_ptr<ArrayState>> live_arrays();
  std::shared_ptr<ArrayState> make_handle(ArrayState& state);
  static void end_handle(ArrayState* state);

  mutable std::mutex mutex_;  // guards what follows
  std::uint32_t connections_ = 0;
  // Each as long as a handle, a lease or a pin needs it.
  std::unordered_map<const ArrayState*, std::unique_ptr<ArrayState>> arrays_;
  std::unordered_map<std::string_view, ArrayState*> named_;  // the newest of each name
  absl::flat_hash_set<wire::ArrayId> joining_;               // that a thread opens
  std::condition_variable joined_;                           // joining_ has lost one
  struct Departed {
    wire::ArrayId array;
    std::uint32_t opens;
    DeviceUse use;
  };
  std::vector<Departed> departed_;

  mutable std::mutex interrupt_mutex_;  // guards what follows
  std::function<void()> check_interrupt_;
};

}  // namespace memlease::internal
