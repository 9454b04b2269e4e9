// Orders the reads of one process behind the versions of an array on a GPU, and tells writers where
// these reads end. Beside SlotReader, which decides who may have a slot: what that hands over
// between processes at once, this hands over between their streams.
//
//   acquire -> its stream waits for the slot's event -> work -> record the row's event for the slot
//           -> count it -> let go of the hold
//
// A wait takes an event's last record at its call, so the order of these calls is all there is to
// it: a record has returned before a writer can see what makes it wait. Where the device cannot do
// that, the end of a read waits for the work instead.
//
// Thread-safe. No call waits for the device unless it says so.
#pragma once

#include <memlease/stream.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/ordering/host_wait.h"
#include "client/ordering/importer.h"
#include "client/ordering/shared_events.h"
#include "client/ordering/version_events.h"
#include "client/ordering/work_end.h"
#include "client/slots/slot_reader.h"
#include "wire/ids.h"
#include "wire/mutex.h"

namespace memlease::internal {

class ReaderOrder {
 public:
  explicit ReaderOrder(VersionEvents& versions);

  // The reader's row is there, and its events behind it. Once, before the first read; a wait for
  // the daemon ends with what `interrupt` says.
  absl::Status open_events(wire::RowRef row, ImportCache& imports, InterruptCheck interrupt);
  // Is it this process's row?
  bool is_own(std::uint64_t packed_row) const;
  // Of that row; nullptr: nothing of this array has been read in the slot.
  const SharedEvent* own_event(std::uint32_t slot) const {
    return row_.load(std::memory_order_acquire) == 0 ? nullptr : &events_[slot];
  }
  // For the checker: what tells of a read's end.
  static std::uint64_t key(std::uint64_t packed_row, std::uint32_t slot);

  // Do hosts wait in place of streams, as its own events' page could not be registered?
  bool by_host() const { return events_.by_host(); }

  // ---- Under a hold.
  absl::Status stream_wait_version(std::uint32_t slot, std::uint64_t version, Stream stream);
  absl::StatusOr<bool> version_complete(std::uint32_t slot, std::uint64_t version);
  // Ends the read: `end` is what a writer waits for. Without a stream it waits for the device.
  // Gives the hold up, also after an error; but if it cannot be told what is under
  // way (work_unknown), the next release_deferred() that can tell does. A wait ends with `usable`,
  // whose error is returned. When the hold is given up, this may be destroyed.
  struct Released {
    absl::Status status;
    bool deferred;  // the hold's end, to release_deferred()
  };
  Released release(SlotReader& reader, std::uint32_t slot, std::uint64_t version,
                   const WorkEnd& end, Usable usable);

  // ---- Pins of read leases. A pin that dies while its lease lives is covered by what the lease
  // records; the hold of one that dies later ends by release_deferred().
  struct PinMark {
    bool lease_ended = false;
  };
  void end_lease(PinMark& mark);
  // True if the hold is to be given up now.
  bool end_pin(const PinMark& mark, std::uint32_t slot);
  // Are there holds whose work ends nobody knows where?
  bool has_deferred() const { return any_deferred_->load(std::memory_order_relaxed); }
  // The same, to be asked by those who have nothing that keeps this here.
  std::shared_ptr<const std::atomic<bool>> deferred_flag() const { return any_deferred_; }
  // Waits for the device once for all of these, and gives them up. Not while a graph is being
  // captured: then a later one does.
  absl::Status release_deferred(SlotReader& reader);

  // Is all over that this process recorded as a reader? After an error of the GPU it is, and no
  // writer waits for it any more.
  bool complete();

 private:
  class ReadEnd;

  absl::Status end_read(std::uint32_t slot, const WorkEnd& end, Usable usable);
  absl::Status record(std::uint32_t slot, Stream stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status host_wait_stream(Stream stream, Usable usable);
  // Until the version is complete, or `usable` fails.
  void host_wait_version(std::uint32_t slot, Usable usable);
  void note_failure();
  void defer_release(std::uint32_t slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  VersionEvents& versions_;
  Importer& importer_;
  // Set once, before the first read.
  std::atomic<std::uint64_t> row_{0};  // packed; last, as a writer in another thread asks for it
  SharedEvents events_;

  wire::Mutex mutex_{wire::HeldOverLocks(7)};  // nothing waits for the device under it
  // Per slot: whose order its event has; none: of several.
  std::vector<Stream> last_read_ ABSL_GUARDED_BY(mutex_);
  // Per slot: holds that release_deferred() gives up.
  std::vector<std::uint32_t> deferred_ ABSL_GUARDED_BY(mutex_);
  const std::shared_ptr<std::atomic<bool>> any_deferred_ =
      std::make_shared<std::atomic<bool>>(false);
};

}  // namespace memlease::internal
