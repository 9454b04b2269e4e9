// One array on a GPU as this process has it: its slots' memory, and what orders streams on them.
// Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/ordering/gpu_order.h"
#include "client/ordering/gpu_use.h"
#include "client/ordering/import_cache.h"
#include "client/ordering/importer.h"
#include "client/session/known_array.h"
#include "client/session/session.h"
#include "client/slots/slot_reader.h"
#include "wire/ids.h"
#include "wire/mutex.h"

namespace memlease::internal {

class GpuArray {
 public:
  // Opens the memory and the slots' events, which may wait for the device; a wait for the daemon
  // ends with what `interrupt` says. What is known of it and the session must outlive this.
  static absl::StatusOr<std::unique_ptr<GpuArray>> open(const KnownArray& known, Session& session,
                                                        ImportCache& imports,
                                                        InterruptCheck interrupt);

  Importer& importer() const { return importer_; }
  const std::vector<std::byte*>& slot_data() const { return slot_data_; }
  // An added slot that stands there, which this process holds, or is about to write. May ask the
  // daemon, and wait for the device.
  struct AddedSlot {
    std::byte* data = nullptr;
    std::shared_ptr<const void> memory;  // open as long as anybody keeps it
  };
  absl::StatusOr<AddedSlot> open_added(wire::FileRange at, InterruptCheck interrupt);
  // Memory of slots that have gone: ImportCache closes it. May wait for the device, and tells the
  // daemon.
  void close_gone(OpenMemory gone);
  // nullptr once take_use() has been called.
  GpuOrder* order() const { return order_.get(); }
  Session& session() const { return session_; }
  const std::string& name() const { return known_.name; }
  // Do calls that take a stream wait on the host instead, as the operator wants it?
  bool host_waits() const { return known_.rare().host_wait_limit.count() != 0; }
  // How long such a wait lasts at most, also where streams cannot wait.
  std::chrono::milliseconds host_wait_limit() const {
    constexpr std::chrono::milliseconds kAsTheDaemonByDefault{30'000};
    return host_waits() ? known_.rare().host_wait_limit : kAsTheDaemonByDefault;
  }
  // What a call has come to: if the device has failed, what this process has recorded here is over.
  // The caller has a lease.
  absl::Status noted(absl::Status status);
  // Versions of this process were lost by that: the array is to be left.
  bool lost() const { return lost_.load(); }
  // Are there holds of reads whose work ends nobody knows where? Also without a lease.
  bool has_deferred() const { return deferred_->load(std::memory_order_relaxed); }
  // If so, what has failed.
  absl::Status check_lost() const { return lost() ? importer_.check_device() : absl::OkStatus(); }
  // Hosts wait in place of streams, as a page of events could not be registered. Counted once.
  void note_by_host();

  // The reader's half, once there is one.
  void set_reader(const SlotReader& reader) {
    reader_.store(&reader);
    if (order_->reader().by_host()) note_by_host();
  }
  // Has the version's writer died before it was complete? Not known without a reader.
  bool poisoned(std::uint64_t version) const {
    const SlotReader* const reader = reader_.load();
    return version != 0 && reader != nullptr && reader->poisoned(version);
  }

  // What is open, to be closed when its work is done. Nobody may use the order any more.
  GpuUse take_use();

 private:
  GpuArray(const KnownArray& known, Session& session, Importer& importer, ImportCache& imports)
      : known_(known), session_(session), importer_(importer), imports_(imports) {}
  absl::Status open_slots(InterruptCheck interrupt);
  // A slot's place in its segment, if it fits there.
  absl::StatusOr<std::byte*> place_in(const DeviceMemory& segment, wire::FileRange at) const;

  const KnownArray& known_;
  Session& session_;
  Importer& importer_;
  ImportCache& imports_;
  std::map<std::uint32_t, std::shared_ptr<DeviceMemory>> segments_;  // by their files
  std::vector<std::byte*> slot_data_;
  std::unique_ptr<GpuOrder> order_;
  std::atomic<const SlotReader*> reader_{nullptr};
  std::atomic<bool> reported_by_host_{false};
  std::shared_ptr<const std::atomic<bool>> deferred_;  // of the reader's half
  std::atomic<bool> lost_{false};
};

}  // namespace memlease::internal
