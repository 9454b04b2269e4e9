// Port of the slot protocol: from a reference on the board to the row it means. Implemented by
// ArrayPages (client/arrays/array_pages.h), in tests by plain memory; called by KnownRows, on
// behalf of SlotReader and SlotWriter. Thread-safe, but for readers' rows: these are asked for by
// one thread at a time, the one that writes.
//
// nullptr: the row is not mapped. It has to be fetched from the daemon then, once per peer and
// array, not in steady state: whoever begins a read or a write does that, and stops waiting for the
// daemon when its time is over. It may not be had any more, because its process has gone and the
// board is about to say so, and the board's word is to be loaded again.
//
// A writer's row may be let go while a thread uses it, once others have followed its writer. It can
// be read all the same, but says something else: what was read counts if the board's writer word is
// unchanged afterwards.
#pragma once

#include <cstddef>

#include "wire/board.h"
#include "wire/ids.h"
#include "wire/session_pages.h"

namespace memlease::internal {

class RowResolver {
 public:
  virtual ~RowResolver() = default;
  virtual const wire::WriterRow* find_writer_row(wire::RowRef at) = 0;
  // `place`: in the array's list of subscribers, or of chunks of that list.
  virtual const wire::ReaderRow* find_reader_row(wire::RowRef at, std::size_t place) = 0;
  virtual const wire::SubscriberChunk* find_subscriber_chunk(wire::FileRange at,
                                                             std::size_t place) = 0;
};

}  // namespace memlease::internal
