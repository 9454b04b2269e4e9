// The arrays that this process has open with one daemon, each once: one table for all clients,
// alive as long as a client, an array, a lease or a view needs it. Thread-safe. No lock is held
// over a call, an open or a close.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/status/statusor.h"
#include "client/arrays/array_owner.h"
#include "client/arrays/open_array.h"
#include "wire/mutex.h"

namespace memlease::internal {

class ArrayTable final : public ArrayOwner {
 public:
  using ArrayOwner::ArrayOwner;

  // An array that the daemon has opened: the same one for all handles of this process, for one more
  // of which it counts. Opens it without the lock; threads that open one array wait for the first.
  // A wait ends with what `interrupt` says; after an error a later call gives the answer back.
  // kBusy: this thread itself opens the array, and has been interrupted. kUnsupported: it is on a
  // GPU that this process does not see; join_to_look() gives a replica all the same
  // (MappedArray::reach).
  absl::StatusOr<std::shared_ptr<OpenArray>> join(const OpenAnswer& answer,
                                                  InterruptCheck interrupt);
  absl::StatusOr<std::shared_ptr<OpenArray>> join_to_look(const OpenAnswer& answer,
                                                          InterruptCheck interrupt);
  // The same without a call, where this process has the array of that name open and the board says
  // that the name is still its own; nullptr: ask the daemon.
  std::shared_ptr<OpenArray> find_open(const std::string& name);
  // The process's last client has been closed: ends the session, unless leases or pins live: then
  // it ends with the last of these.
  // `interrupt` ends what waits for the daemon or the GPU; it is closed all the same.
  absl::Status close(InterruptCheck interrupt);
  // The array of that name has been withdrawn, with its replicas: leaves those that this process
  // has open, unless leases or pins live.
  void leave_withdrawn(const std::string& name);
  // Does what was noted where no call could be made: tells the daemon what has been closed and
  // left, unless the daemon is silent, and releases what was deferred, which waits for the GPU.
  // Fails with what `interrupt` says alone; the rest is for a later one then.
  absl::Status flush(InterruptCheck interrupt);
  // flush() until the GPU has done what it was given for arrays that have been closed, for some
  // time at most. For a process that may end next, and takes its GPU work along, which others may
  // wait for.
  absl::Status drain(InterruptCheck interrupt);
  // A lease or pin lives.
  bool in_use();

  std::shared_ptr<OpenArray> handle_of(OpenArray& array) override;
  void depart(const Departure& departure, GpuUse use) override;

 private:
  struct ByName {
    using is_transparent = void;
    static std::string_view name_of(std::string_view name) { return name; }
    static std::string_view name_of(const OpenArray* array) { return array->name(); }
    std::size_t operator()(const auto& one) const { return absl::HashOf(name_of(one)); }
    bool operator()(const auto& a, const auto& b) const { return name_of(a) == name_of(b); }
  };
  struct Departed {
    Departure departure;
    GpuUse use;
  };
  void release_all_deferred() override;
  absl::Status leave_if_due(const std::vector<std::shared_ptr<OpenArray>>& arrays,
                            InterruptCheck interrupt);
  bool waits_for_gpu();
  absl::StatusOr<std::shared_ptr<OpenArray>> join_known(const OpenAnswer& answer,
                                                        InterruptCheck interrupt);
  std::vector<std::shared_ptr<OpenArray>> live_arrays();
  absl::StatusOr<std::shared_ptr<OpenArray>> publish(
      wire::ArrayId id, absl::StatusOr<std::unique_ptr<OpenArray>> made);
  std::shared_ptr<OpenArray> make_handle(OpenArray& array) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void end_handle(OpenArray* array);

  wire::Mutex mutex_;
  // Each lives as long as a handle, a lease or a pin needs it.
  absl::flat_hash_set<std::unique_ptr<OpenArray>> arrays_ ABSL_GUARDED_BY(mutex_);
  // The newest of each name.
  absl::flat_hash_set<OpenArray*, ByName, ByName> named_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<OpenArray*> replicas_ ABSL_GUARDED_BY(mutex_);
  // That are being opened, each by this thread.
  absl::flat_hash_map<wire::ArrayId, std::thread::id> joining_ ABSL_GUARDED_BY(mutex_);
  wire::CondVar joined_;  // joining_ has lost one
  std::vector<Departed> departed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memlease::internal
