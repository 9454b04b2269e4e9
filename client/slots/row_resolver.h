// Port of the slot protocol: from a reference on the board to the row it means. Implemented by
// ArrayPages (client/arrays/array_pages.h), in tests by plain memory; called by SlotReader and
// SlotWriter. Thread-safe.
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

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "wire/board.h"
#include "wire/ids.h"
#include "wire/session_pages.h"

namespace memlease::internal {

class RowResolver {
 public:
  virtual ~RowResolver() = default;
  // Nearly always the row that was asked for last: that takes no call.
  const wire::WriterRow* writer_row(wire::RowRef at) {
    const wire::WriterRow* last = last_writer_.find(at);
    return last != nullptr ? last : find_writer_row(at);
  }
  // Asked for by one thread at a time, the one that writes.
  const wire::ReaderRow* reader_row(wire::RowRef at) {
    const KnownReader& last = last_readers_[place_of(at)];
    return last.row != nullptr && last.at == at ? last.row : find_reader_row(at);
  }
  // The same, and only that one: takes no lock, for signal handlers.
  const wire::WriterRow* last_writer_row(wire::RowRef at) const { return last_writer_.find(at); }
  virtual const wire::SubscriberChunk* subscriber_chunk(wire::FileRange at) = 0;

 protected:
  // One row, read by all threads and set by one at a time. A thread that meets a change finds none.
  class LastWriter {
   public:
    const wire::WriterRow* find(wire::RowRef at) const {
      const std::uint64_t sequence = sequence_.load(std::memory_order_acquire);
      const std::uint64_t key = key_.load(std::memory_order_acquire);
      const wire::WriterRow* row = row_.load(std::memory_order_acquire);
      const bool whole = sequence % 2 == 0 && sequence_.load(std::memory_order_relaxed) == sequence;
      return whole && key == wire::pack_subscriber(at) ? row : nullptr;
    }
    void set(wire::RowRef at, const wire::WriterRow* row) {
      const std::uint64_t sequence = sequence_.load(std::memory_order_relaxed);
      sequence_.store(sequence + 1, std::memory_order_relaxed);
      key_.store(wire::pack_subscriber(at), std::memory_order_release);
      row_.store(row, std::memory_order_release);
      sequence_.store(sequence + 2, std::memory_order_release);
    }

   private:
    std::atomic<std::uint64_t> sequence_{0};  // odd while it changes
    std::atomic<std::uint64_t> key_{0};
    std::atomic<const wire::WriterRow*> row_{nullptr};
  };
  struct KnownReader {
    wire::RowRef at;
    const wire::ReaderRow* row = nullptr;
  };
  virtual const wire::WriterRow* find_writer_row(wire::RowRef at) = 0;
  virtual const wire::ReaderRow* find_reader_row(wire::RowRef at) = 0;
  // For the implementation to set.
  LastWriter last_writer_;
  std::array<KnownReader, 8> last_readers_;
  static std::size_t place_of(wire::RowRef at) { return (to_int(at.file) + at.unit) % 8; }
};

}  // namespace memlease::internal
