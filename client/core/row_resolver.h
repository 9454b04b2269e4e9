// Port of the slot protocol: from a reference on the board to the row it means. Implemented by
// ArrayState (client/core/array_state.h), in tests by plain memory. Thread-safe.
//
// A row that is not mapped yet is fetched from the daemon: that happens once per peer and array,
// not in steady state. nullptr: the row cannot be had, because its process has gone and the board
// is about to say so; load the board's word again.
#pragma once

#include "proto/wire/board.h"
#include "proto/wire/ids.h"
#include "proto/wire/session_pages.h"

namespace memlease::internal {

class RowResolver {
 public:
  virtual ~RowResolver() = default;
  virtual const wire::WriterRow* writer_row(wire::RowRef at) = 0;
  virtual const wire::ReaderRow* reader_row(wire::RowRef at) = 0;
  virtual const wire::SubscriberChunk* subscriber_chunk(wire::FileRange at) = 0;
};

}  // namespace memlease::internal
