// The events of an array's slots: the writer records where the version in a slot is complete,
// readers and later writers wait for it. A wait takes an event's last record at its call.
// Thread-safe; no call waits for the device.
#pragma once

#include <memlease/stream.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/ordering/host_wait.h"
#include "client/ordering/import_cache.h"
#include "client/ordering/importer.h"
#include "client/ordering/shared_events.h"
#include "client/session/interrupt.h"
#include "client/session/known_array.h"
#include "wire/board.h"
#include "wire/ids.h"

namespace memlease::internal {

class VersionEvents {
 public:
  static absl::StatusOr<std::unique_ptr<VersionEvents>> open(Importer& importer,
                                                             ImportCache& imports,
                                                             const KnownArray& known,
                                                             InterruptCheck interrupt);

  Importer& importer() const { return importer_; }
  const wire::SlotLayout& layout() const { return layout_; }
  const SharedEvent& operator[](std::uint32_t slot) const { return events_[slot]; }
  // Do hosts wait in place of streams, as the device cannot?
  bool by_host() const { return events_.by_host(); }
  // For the checker: what tells of a version in this slot.
  std::uint64_t key(std::uint32_t slot) const;

  // Records what the stream was given until now; or the host waits for that, until `usable` fails.
  // One thread at a time, the one that writes; nobody else waits for it before the slot is
  // published.
  absl::Status record(std::uint32_t slot, Stream stream, Usable usable);
  // Is all over that this process has recorded here, whatever others have recorded since? After an
  // error of the GPU it is, and what was not complete is lost(): that keeps nobody waiting.
  bool complete();
  // Has this process lost what it wrote in a slot? Then it is to leave the array: the daemon takes
  // the versions over that are complete, and poisons the others.
  bool lost() const { return lost_.load(); }

 private:
  VersionEvents(Importer& importer, const KnownArray& known, SharedEvents events);

  Importer& importer_;
  const wire::ArrayId array_;
  const wire::SlotLayout layout_;
  SharedEvents events_;
  std::vector<std::atomic<std::uint64_t>> recorded_;  // per slot: this process's last record
  std::atomic<bool> lost_{false};
};

}  // namespace memlease::internal
