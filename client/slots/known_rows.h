// Rows of others as the two halves of the slot protocol look them up: nearly always the writer's
// row that was asked for last, and readers' rows that stand where they stood, and that takes no
// call; else by the resolver. Thread-safe like the resolver.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

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
  // Of the list of subscribers, by one thread at a time: `place` is that of the word in the list,
  // where it stays.
  const wire::ReaderRow* reader_row(std::uint64_t entry, std::size_t place) {
    const wire::ReaderRow* const known =
        listed_ == nullptr ? nullptr : listed_->readers.get(entry, place);
    if (known != nullptr) return known;
    return resolver_.find_reader_row(wire::subscriber_row_of(entry), place);
  }
  const wire::SubscriberChunk* subscriber_chunk(std::uint64_t next, std::size_t place) {
    const wire::SubscriberChunk* const known =
        listed_ == nullptr ? nullptr : listed_->chunks.get(next, place);
    return known != nullptr ? known
                            : resolver_.find_subscriber_chunk(wire::unpack_chunk(next), place);
  }
  // The row of writer_row(), and only if it was asked for last: takes no lock, for signal handlers.
  const wire::WriterRow* last_writer_row(wire::RowRef at) const { return last_writer_.find(at); }

  // For the resolver, by one thread at a time.
  void note_writer(wire::RowRef at, const wire::WriterRow* row) { last_writer_.set(at, row); }
  void note_reader(wire::RowRef at, std::size_t place, const wire::ReaderRow* row) {
    listed().readers.note(wire::pack_subscriber(at), place, row);
  }
  void note_chunk(wire::FileRange at, std::size_t place, const wire::SubscriberChunk* chunk) {
    listed().chunks.note(wire::pack_chunk(at), place, chunk);
  }
  void forget_readers() {
    if (listed_ != nullptr) listed_->readers.clear();
  }

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
  // What has been found for words that stand where they stood.
  template <typename T>
  class ByPlace {
   public:
    const T* get(std::uint64_t word, std::size_t place) const {
      return place < known_.size() && known_[place].word == word ? known_[place].found : nullptr;
    }
    void note(std::uint64_t word, std::size_t place, const T* found) {
      constexpr std::size_t kMost = 1024;
      if (place >= kMost) return;
      if (place >= known_.size()) known_.resize(place + 1);
      known_[place] = {word, found};
    }
    void clear() { known_.clear(); }

   private:
    struct Known {
      std::uint64_t word = 0;
      const T* found = nullptr;
    };
    std::vector<Known> known_;
  };

  struct Listed {
    ByPlace<wire::ReaderRow> readers;
    ByPlace<wire::SubscriberChunk> chunks;
  };
  Listed& listed() {
    if (listed_ == nullptr) listed_ = std::make_unique<Listed>();
    return *listed_;
  }

  RowResolver& resolver_;
  LastWriter last_writer_;
  std::unique_ptr<Listed> listed_;  // nullptr: the list has not been looked at
};

}  // namespace memlease::internal
