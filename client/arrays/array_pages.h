// The pages of one array that is read or written, as this process has them mapped: its record on
// the board, and the rows of its writers and readers. Thread-safe, but for what a writer calls: one
// write at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/session/control_port.h"
#include "client/session/known_array.h"
#include "client/session/mapping_cache.h"
#include "client/slots/known_rows.h"
#include "client/slots/row_resolver.h"
#include "wire/board.h"
#include "wire/mutex.h"
#include "wire/session_counts.h"

namespace memlease::internal {

// The daemon's record of an array, which stays mapped while this lives.
struct MappedRecord {
  const wire::BoardRecord* board = nullptr;
  std::shared_ptr<Mapping> file;
};

// What is fetched by one request, and stays mapped for the calls below while this lives.
using Brought = absl::StatusOr<std::vector<std::shared_ptr<Mapping>>>;
// What it takes to open the array; what came with the answer is not fetched.
Brought bring_to_open(const OpenAnswer& answer, MappingCache& mappings, InterruptCheck interrupt);
// Maps the record. Fetches what this process does not have yet, and so does each call that returns
// a status or a row; a wait for the daemon ends with what `interrupt` says. kInternal: the answer
// does not fit its files.
absl::StatusOr<MappedRecord> map_record(const OpenAnswer& answer, MappingCache& mappings,
                                        InterruptCheck interrupt);

class ArrayPages final : public RowResolver {
 public:
  // What is known and the cache must outlive this.
  ArrayPages(const KnownArray& known, MappedRecord record, MappingCache& mappings);

  // What it takes to read the array: a row of this process's own, and the slots.
  Brought bring_to_read(wire::RowRef own, InterruptCheck interrupt);
  // What it takes to become its writer: with a row of this process's own, and one to copy from,
  // unless that one's file is 0.
  Brought bring_to_write(wire::RowRef own, wire::RowRef from, InterruptCheck interrupt);

  // If the array has been subscribed to as it was opened: this process's row, and the writer's.
  absl::Status map_rows(const OpenAnswer& answer, InterruptCheck interrupt);

  // A row of this process's own, which it may write: the daemon has just given it.
  absl::StatusOr<std::byte*> own_row(wire::RowRef at, std::uint32_t units,
                                     InterruptCheck interrupt);
  // What this process counts, in the page of a row of its own; nullptr before it has one.
  wire::SessionCounts* counts() const { return counts_.load(std::memory_order_acquire); }

  // Maps a writer's row unless it is.
  absl::StatusOr<const wire::WriterRow*> map_writer_row(wire::RowRef at, InterruptCheck interrupt);

  // Maps the readers' rows that are not mapped yet; for a writer, in a write. True if there were
  // some that can be. What cannot be had because its process has gone is left out.
  absl::StatusOr<bool> map_reader_rows(InterruptCheck interrupt);

  // Those that are mapped.
  KnownRows& rows() { return rows_; }
  const KnownRows& rows() const { return rows_; }
  const wire::WriterRow* writer_row(wire::RowRef at) { return rows_.writer_row(at); }
  // RowResolver.
  const wire::WriterRow* find_writer_row(wire::RowRef at) override;
  const wire::ReaderRow* find_reader_row(wire::RowRef at, std::size_t place) override;
  const wire::SubscriberChunk* find_subscriber_chunk(wire::FileRange at,
                                                     std::size_t place) override;

 private:
  struct MappedWriter {
    wire::RowRef at;
    const wire::WriterRow* row = nullptr;
    std::shared_ptr<Mapping> mapping;
  };
  // So many writers take turns without a fetch.
  static constexpr std::size_t kMostWriters = 16;
  struct MappedReader {
    const wire::ReaderRow* row = nullptr;
    std::shared_ptr<Mapping> mapping;
  };
  std::shared_ptr<Mapping>* find_mapping(wire::FileId file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void keep(wire::FileId file, std::shared_ptr<Mapping> mapping) ABSL_LOCKS_EXCLUDED(mutex_);
  const wire::WriterRow* known_writer(wire::RowRef at) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::shared_ptr<Mapping>> map_listing(wire::FileId file, InterruptCheck interrupt);
  const wire::SubscriberChunk* chunk_at(wire::FileRange at) ABSL_LOCKS_EXCLUDED(mutex_);
  void forget_dead_readers();

  const KnownArray& known_;
  const wire::BoardRecord& board_;
  MappingCache& mappings_;
  KnownRows rows_{*this};
  std::atomic<wire::SessionCounts*> counts_{nullptr};  // in one of mapped_
  // Used inside of a write alone; nullptr: there are none.
  using Readers = absl::flat_hash_map<std::uint64_t, MappedReader>;
  std::unique_ptr<Readers> readers_;

  wire::Mutex mutex_;
  // Boards and own pages.
  absl::InlinedVector<std::pair<wire::FileId, std::shared_ptr<Mapping>>, 2> mapped_
      ABSL_GUARDED_BY(mutex_);
  // The one that was asked for last in front.
  std::vector<MappedWriter> writers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memlease::internal
