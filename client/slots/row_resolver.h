// Port of the slot protocol: from a reference on the board to the row it means. Implemented by
// OpenArray (client/arrays/open_array.h), in tests by plain memory. Thread-safe.
//
// A row that is not mapped yet is fetched from the daemon: that happens once per peer and array,
// not in steady state. nullptr: the row cannot be had, because its process has gone and the board
// is about to say so; load the board's word again. The end of a read or a write calls nobody, and
// passes Unmapped::kLeave: nullptr also means then that the row is not mapped yet.
#pragma once

#include <atomic>

#include "wire/board.h"
#include "wire/ids.h"
#include "wire/session_pages.h"

namespace memlease::internal {

// What to do about a row that is not mapped yet.
enum class Unmapped { kFetch, kLeave };

class RowResolver {
 public:
  virtual ~RowResolver() = default;
  // Nearly always the row that was asked for last: that takes no call.
  const wire::WriterRow* writer_row(wire::RowRef at, Unmapped unmapped = Unmapped::kFetch) {
    const KnownWriter* last = last_writer_.load(std::memory_order_acquire);
    return last != nullptr && last->at == at ? last->row : find_writer_row(at, unmapped);
  }
  // Asked for by one thread at a time, the one that writes.
  const wire::ReaderRow* reader_row(wire::RowRef at, Unmapped unmapped) {
    return last_reader_.row != nullptr && last_reader_.at == at ? last_reader_.row
                                                                : find_reader_row(at, unmapped);
  }
  virtual const wire::SubscriberChunk* subscriber_chunk(wire::FileRange at, Unmapped unmapped) = 0;

 protected:
  struct KnownWriter {
    wire::RowRef at;
    const wire::WriterRow* row = nullptr;
  };
  struct KnownReader {
    wire::RowRef at;
    const wire::ReaderRow* row = nullptr;
  };
  virtual const wire::WriterRow* find_writer_row(wire::RowRef at, Unmapped unmapped) = 0;
  virtual const wire::ReaderRow* find_reader_row(wire::RowRef at, Unmapped unmapped) = 0;
  // For the implementation to set. What last_writer_ points to stays.
  std::atomic<const KnownWriter*> last_writer_{nullptr};
  KnownReader last_reader_;
};

}  // namespace memlease::internal
