// Orders the caller's streams behind the versions of one array on a device, and tells other
// processes where the caller's own work on them ends. Beside the slot protocol, which decides who
// may have a slot: what that hands over between processes at once, this hands over between their
// streams.
//
//   writer: take a slot -> its stream waits for the current version, for whoever used the slot last
//           -> work -> record the slot's event -> publish
//   reader: acquire -> its stream waits for the slot's event -> work -> record the row's event for
//           the slot -> count it -> let go of the hold
//
// A wait takes an event's last record at its call, so the order of these calls is all there is to
// it: a record has returned before the other side can see what makes it wait. Nobody records an
// event again that somebody has yet to wait for: the slot is held, or marked.
//
// Where the device had no events left for an array or a row, recording waits for the work instead.
//
// Thread-safe, but for what a writer calls: one write at a time. No call waits for the device
// unless it says so.
#pragma once

#include <memlease/lease.h>
#include <memlease/stream.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/ordering/import_cache.h"
#include "client/ordering/importer.h"
#include "client/ordering/row_events.h"
#include "client/session/control_port.h"
#include "client/slots/slot_reader.h"
#include "client/slots/slot_writer.h"

namespace memlease::internal {

// After an attempt to see the end of all work: true if that was not possible, as a graph is being
// captured, the caller was interrupted, or the daemon that tells of deaths has gone. False if all
// work is over, or the device itself has failed, which ends it.
bool work_unknown(const absl::Status& idle);

class DeviceOrder {
 public:
  // Opens the slots' events.
  static absl::StatusOr<std::unique_ptr<DeviceOrder>> open(Importer& importer, ImportCache& imports,
                                                           const OpenAnswer& opened);

  Importer& importer() const { return importer_; }
  // The reader's row is there, and these are its events.
  absl::Status open_read_events(wire::RowRef row, const std::vector<wire::DeviceHandle>& handles);

  // Where a lease's work ends: what both streams were given until then. A lease whose views have
  // been given a stream of the library's is not over before that one, whoever says what else.
  struct WorkEnd {
    Stream stream;    // none: nobody knows
    Stream exported;  // none: there is none, or it is the same
  };

  // ---- A reader, under its hold.
  absl::Status stream_wait_version(std::uint32_t slot, std::uint64_t version, Stream stream);
  absl::StatusOr<bool> version_complete(std::uint32_t slot, std::uint64_t version);
  // Ends the read: `end` is what a writer waits for. Without a stream it waits for the device,
  // unless the version's writer has died before it was complete: a stream that waits for that may
  // never go on. Gives the hold up, also after an error; but if it cannot be told what is under
  // way (work_unknown), the next settle() that can tell does. A wait ends with `usable`, whose
  // error is returned. When the hold is given up, this may be destroyed.
  using Usable = absl::FunctionRef<absl::Status()>;
  struct Released {
    absl::Status status;
    bool kept;  // the hold, for settle()
  };
  Released release(SlotReader& reader, std::uint32_t slot, std::uint64_t version,
                   const WorkEnd& end, Usable usable);

  // ---- A writer, inside of its write.
  // Are the reads that the slot's earlier readers left over?
  bool reads_complete(SlotWriter& writer, std::uint32_t slot);
  // Everything that must be over before the slot's bytes change. Kept for the length of the write.
  absl::Status collect(SlotWriter& writer, std::uint32_t slot);
  absl::Status stream_wait_slot(Stream stream);
  absl::StatusOr<bool> slot_free();
  // The write goes on, and `stream`, or whoever asks slot_free() next, comes behind what `own`,
  // which has waited for the slot, was given until now.
  absl::Status stream_wait_own(std::uint32_t slot, Stream own, Stream stream);
  absl::Status record_own(std::uint32_t slot, Stream own);
  // Where the version ends, or the work on a version that is given up. Without a stream it waits
  // for the device.
  absl::Status record_write(std::uint32_t slot, std::uint64_t version, const WorkEnd& end);

  // In place of an end that could not be recorded: waits for the device, true if all is over then.
  // Not if `stream` itself is being captured: the wait would lose its graph.
  bool host_wait_all(Stream stream);

  // ---- Pins of read leases. A pin that dies while its lease lives is covered by what the lease
  // records; one that dies later keeps the slot until settle().
  struct PinMark {
    bool lease_ended = false;
  };
  void end_lease(PinMark& mark);
  // True if the hold is to be given up now.
  bool end_pin(const PinMark& mark, std::uint32_t slot);
  bool must_settle() const { return unsettled_.load(std::memory_order_relaxed); }
  // Waits for the device once, for all holds whose work ends nobody knows where; gives them up. Not
  // while a graph is being captured: then a later one does.
  absl::Status settle(SlotReader& reader);

  // Is all over that this process recorded, or may have been given behind what was lost? Asked
  // before leaving. After an error of the GPU it is.
  bool complete();

 private:
  // A reader's row, as a writer knows it.
  struct Peer {
    std::shared_ptr<RowEvents> events;  // null: this process's own, or not asked for yet
    // Per slot, the count of its last record that is behind a write which has ended.
    std::vector<std::uint64_t> awaited;
  };
  // One that a write waits for.
  struct Behind {
    DeviceEvent* event = nullptr;
    std::uint64_t key = 0;  // for the checker: what tells of it; 0 = nothing
    std::uint64_t value = 0;
    std::uint64_t row = 0;  // of a reader, else 0
  };

  class ReadEnd;

  DeviceOrder(Importer& importer, ImportCache& imports, const OpenAnswer& opened);
  absl::StatusOr<RowEvents*> events_of(SlotWriter& writer, wire::RowRef row);
  void forget_readers(SlotWriter& writer);
  absl::StatusOr<Stream> join(const WorkEnd& end);
  absl::Status end_read(std::uint32_t slot, const WorkEnd& end, Usable usable);
  absl::Status record_read(std::uint32_t slot, Stream stream);
  absl::Status wait_for_read(Stream stream, Usable usable);
  void note_lost(const WorkEnd& end);
  void keep_for_settle(std::uint32_t slot);
  // Until the version is complete, or lost, which is true, or `usable` fails.
  bool await_lost(const SlotReader& reader, std::uint32_t slot, std::uint64_t version,
                  Usable usable);
  Peer& peer_of(wire::RowRef row);
  absl::Status collect_reads(SlotWriter& writer, std::uint32_t slot);
  std::uint64_t write_key(std::uint32_t slot) const;
  static std::uint64_t read_key(std::uint64_t packed_row, std::uint32_t slot);

  Importer& importer_;
  ImportCache& imports_;
  const wire::ArrayId array_;
  const std::uint32_t slots_;
  RowEvents write_events_;

  // The writer's.
  absl::flat_hash_map<std::uint64_t, Peer> peers_;  // by the row
  std::vector<Behind> behind_;
  bool ordered_ = false;  // somebody waits, or has waited, for all of behind_

  // The reader's. Set once, before the first read.
  std::atomic<std::uint64_t> row_{0};  // packed; last, as a writer in another thread asks for it
  RowEvents read_events_;
  bool reads_by_host_ = false;  // the device had no events left for the row

  std::mutex mutex_;               // guards what follows; nothing waits for the device under it
  std::vector<Stream> last_read_;  // per slot: whose order its event has; none: of several
  std::vector<std::uint32_t> unfenced_;  // per slot: holds that settle() gives up
  std::vector<char> recorded_;           // per slot: its event has a record of this process's
  RowEvents lost_;                       // work that was given behind versions that were lost
  std::atomic<bool> unsettled_{false};
};

}  // namespace memlease::internal
