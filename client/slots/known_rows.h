// Rows of others as the two halves of the slot protocol look them up: nearly always the row that
// was asked for last, and that takes no call; else by the resolver, which notes here what it has
// found. Thread-safe like the resolver.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "client/slots/row_resolver.h"
#include "wire/board.h"
#include "wire/ids.h"
#include "wire/session_pages.h"

namespace memlease::internal {

class KnownRows {
 public:
  explicit KnownRows(RowResolver& resolver) : resolver_(resolver) {}
  KnownRows(const KnownRows&) = delete;
  KnownRows& operator=(const KnownRows&) = delete;

  // nullptr: not mapped (RowResolver).
  const wire::WriterRow* writer_row(wire::RowRef at) {
    const wire::WriterRow* last = last_writer_.find(at);
    return last != nullptr ? last : resolver_.find_writer_row(at);
  }
  const wire::ReaderRow* reader_row(wire::RowRef at) {
    const KnownReader& last = last_readers_[index_of(at)];
    return last.row != nullptr && last.at == at ? last.row : resolver_.find_reader_row(at);
  }
  const wire::SubscriberChunk* subscriber_chunk(wire::FileRange at) {
    return resolver_.subscriber_chunk(at);
  }
  // The row of writer_row(), and only if it was asked for last: takes no lock, for signal handlers.
  const wire::WriterRow* last_writer_row(wire::RowRef at) const { return last_writer_.find(at); }

  // For the resolver, by one thread at a time.
  void note_writer(wire::RowRef at, const wire::WriterRow* row) { last_writer_.set(at, row); }
  void note_reader(wire::RowRef at, const wire::ReaderRow* row) {
    last_readers_[index_of(at)] = {at, row};
  }
  void forget_readers() { last_readers_ = {}; }

 private:
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
  static std::size_t index_of(wire::RowRef at) { return (to_int(at.file) + at.unit) % 8; }

  RowResolver& resolver_;
  LastWriter last_writer_;
  std::array<KnownReader, 8> last_readers_;
};

}  // namespace memlease::internal
