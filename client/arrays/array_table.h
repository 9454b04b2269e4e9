// The arrays that this process has open with one daemon, each once: one table for all clients,
// alive as long as a client, an array, a lease or a view needs it. Thread-safe. No lock is held
// over a call, an open or a close.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "client/arrays/array_owner.h"
#include "client/arrays/open_array.h"

namespace memlease::internal {

class ArrayTable final : public ArrayOwner {
 public:
  using ArrayOwner::ArrayOwner;

  // An array that the daemon has opened: the same one for all handles of this process. Opens it
  // without the lock; threads that open one array wait for the first.
  absl::StatusOr<std::shared_ptr<OpenArray>> join(const OpenAnswer& answer);
  // The same without a call, where this process has the array of that name open and the board says
  // that the name is still its own; nullptr: ask the daemon.
  std::shared_ptr<OpenArray> find_open(const std::string& name);
  // Closes all arrays, and the session with them unless leases or pins live: then it ends with the
  // last of these.
  void close();
  // Does what was noted where no call could be made: tells the daemon what has been closed and
  // left, and releases what was deferred, which waits for the GPU.
  void flush();

  std::shared_ptr<OpenArray> handle_of(OpenArray& array) override;
  void depart(wire::ArrayId array, std::uint32_t opens, GpuUse use) override;

 private:
  // An array lives as long as a handle, a lease or a pin needs it.
  struct Entry {
    std::unique_ptr<OpenArray> array;
    std::weak_ptr<OpenArray> handle;
    std::uint32_t handles = 0;
  };
  struct Departed {
    wire::ArrayId array;
    std::uint32_t opens;
    GpuUse use;
  };
  void release_all_deferred() override;
  bool departing();
  std::shared_ptr<OpenArray> join_known(const OpenAnswer& answer);
  std::vector<std::shared_ptr<OpenArray>> live_arrays();
  std::shared_ptr<OpenArray> make_handle(Entry& entry);  // mutex_ is held
  void end_handle(OpenArray* array);

  std::mutex mutex_;  // guards what follows
  std::unordered_map<const OpenArray*, Entry> arrays_;
  std::unordered_map<std::string_view, Entry*> named_;  // the newest of each name
  absl::flat_hash_set<wire::ArrayId> joining_;          // that a thread opens
  std::condition_variable joined_;                      // joining_ has lost one
  std::vector<Departed> departed_;
};

}  // namespace memlease::internal
