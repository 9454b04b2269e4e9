// Orders the writes of one process behind whoever used a slot of an array on a GPU before, and
// tells readers where a version is complete. Beside SlotWriter, which decides what slot is next.
//
//   take a slot -> its stream waits for the current version, for whoever used the slot last -> work
//               -> record the slot's event -> publish
//
// Nobody records an event again that somebody has yet to wait for: the slot is held, or marked.
// Where the device cannot order streams so, hosts wait: what records waits for the work instead,
// until `usable` fails.
//
// Used inside of a write: one thread at a time. No call waits for the device unless it says so.
#pragma once

#include <memlease/stream.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/ordering/host_wait.h"
#include "client/ordering/import_cache.h"
#include "client/ordering/importer.h"
#include "client/ordering/reader_order.h"
#include "client/ordering/shared_events.h"
#include "client/ordering/version_events.h"
#include "client/ordering/work_end.h"
#include "client/session/interrupt.h"
#include "client/slots/slot_writer.h"
#include "wire/ids.h"

namespace memlease::internal {

class WriterOrder {
 public:
  // `own`: this process's reads of the same array.
  WriterOrder(VersionEvents& versions, ReaderOrder& own, ImportCache& imports)
      : versions_(versions), importer_(versions.importer()), own_(own), imports_(imports) {}

  // Are the reads that the slot's earlier readers left over? Asks the daemon for the pages of
  // readers that it meets for the first time, as collect() does: a wait for that ends with what
  // `interrupt` says.
  absl::StatusOr<bool> reads_complete(SlotWriter& writer, std::uint32_t slot,
                                      InterruptCheck interrupt);
  // Everything that must be over before the slot's bytes change. Kept for the length of the write.
  absl::Status collect(SlotWriter& writer, std::uint32_t slot, InterruptCheck interrupt);
  // Is there something among that for which no stream can wait? Then slot_free() is to be asked.
  bool by_host() const;
  absl::Status stream_wait_slot(Stream stream);
  absl::StatusOr<bool> slot_free();
  // The write goes on, and `stream`, or whoever asks slot_free() next, comes behind what `own`,
  // which has waited for the slot, was given until now.
  absl::Status stream_wait_own(std::uint32_t slot, Stream own, Stream stream, Usable usable);
  absl::Status record_own(std::uint32_t slot, Stream own, Usable usable) {
    return versions_.record(slot, own, usable);
  }
  // Where the version ends, or the work on a version that is given up. Without a stream it waits
  // for the device.
  absl::Status record_write(std::uint32_t slot, std::uint64_t version, const WorkEnd& end,
                            Usable usable);

 private:
  // A reader's row, as this process knows it.
  struct ReaderEvents {
    SharedEvents events;  // another process's, once asked for
    // Per slot, the count of its last record that is behind a write which has ended.
    std::vector<std::uint64_t> awaited;
  };
  // Something that a write waits for.
  struct Dependency {
    const SharedEvent* event = nullptr;
    std::uint64_t key = 0;  // for the checker: what tells of it; 0 = nothing
    std::uint64_t value = 0;
    std::uint64_t row = 0;  // of a reader, else 0
  };

  // Of the row, for the slot; nullptr: there can be nothing to wait for.
  absl::StatusOr<const SharedEvent*> event_of(SlotWriter& writer, wire::RowRef row,
                                              std::uint32_t slot, InterruptCheck interrupt);
  void forget_readers(SlotWriter& writer);
  ReaderEvents& reader_of(wire::RowRef row);
  absl::Status collect_reads(SlotWriter& writer, std::uint32_t slot, InterruptCheck interrupt);

  VersionEvents& versions_;
  Importer& importer_;
  ReaderOrder& own_;
  ImportCache& imports_;
  absl::flat_hash_map<std::uint64_t, ReaderEvents> readers_;  // by the row
  std::vector<Dependency> dependencies_;
  bool ordered_ = false;  // somebody waits, or has waited, for all of dependencies_
};

}  // namespace memlease::internal
