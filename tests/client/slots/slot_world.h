// One array's pages in plain memory, with two writers and some readers on them: the client's half
// of the slot protocol is the real one, and so is the daemon's. The bytes of the slots are plain,
// so that ThreadSanitizer sees a race on them as a race.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "client/slots/known_rows.h"
#include "client/slots/row_resolver.h"
#include "client/slots/slot_reader.h"
#include "client/slots/slot_writer.h"
#include "server/core/slot_board.h"
#include "tests/support/slot_wait_of.h"
#include "wire/array_spec.h"

namespace memlease::testing {

// Zeroed bytes with a row or record in it.
template <typename T>
class PlainPage {
 public:
  explicit PlainPage(std::size_t bytes) : words_(bytes / 8), value_(new(words_.data()) T) {}
  T& operator*() { return *value_; }
  T* operator->() { return value_; }

 private:
  std::vector<std::uint64_t> words_;
  T* value_;
};

class SlotWorld : public internal::RowResolver {
 public:
  static constexpr wire::ArrayId kArray{7};
  static constexpr std::size_t kWords = 64;  // of payload, per slot

  SlotWorld(wire::SlotLayout layout, std::uint32_t readers)
      : layout_(layout),
        board_(wire::board_record_units(layout) * wire::kBoardUnitBytes),
        payload_(layout.most, std::vector<std::uint64_t>(kWords)) {
    const std::size_t writer_bytes = wire::writer_row_units(layout.most) * wire::kRowUnitBytes;
    for (std::uint32_t i = 0; i < 3; ++i) {
      writer_rows_.push_back(std::make_unique<PlainPage<wire::WriterRow>>(writer_bytes));
    }
    server::init_board(*board_, kArray, layout.regular, writer_ref(kTakeover));
    for (std::uint32_t i = 0; i < 2; ++i) {
      writers_.push_back(std::make_unique<internal::SlotWriter>(
          *board_, kArray, layout_, writer_ref(i), writer_row(i), rows_));
    }
    give_right_to(0);
    const std::size_t reader_bytes = wire::reader_row_units(layout.most) * wire::kRowUnitBytes;
    for (std::uint32_t i = 0; i < readers; ++i) {
      reader_rows_.push_back(std::make_unique<PlainPage<wire::ReaderRow>>(reader_bytes));
      readers_.push_back(
          std::make_unique<internal::SlotReader>(*board_, kArray, layout_, reader_row(i), rows_));
    }
    for (std::uint32_t i = 0; i < readers; ++i) subscribe(i);
  }

  std::uint32_t slots() const { return layout_.most; }
  wire::BoardRecord& board() { return *board_; }
  internal::SlotReader& reader(std::uint32_t i) { return *readers_[i]; }
  internal::SlotWriter& writer(std::uint32_t i = 0) { return *writers_[i]; }
  wire::WriterRow& writer_row(std::uint32_t i = 0) { return **writer_rows_[i]; }
  wire::ReaderRow& reader_row(std::uint32_t i) { return **reader_rows_[i]; }
  std::vector<std::uint64_t>& payload(std::uint32_t slot) { return payload_[slot]; }

  void subscribe(std::uint32_t reader) {
    server::add_subscriber(*board_, entry(reader), {kReaderFile, reader});
  }
  void unsubscribe(std::uint32_t reader) { server::remove_subscriber(*board_, entry(reader)); }
  // As the daemon does once the new writer has adopted the old one's row.
  void give_right_to(std::uint32_t writer) {
    server::set_writer(*board_, writer_ref(writer), false);
  }
  // The writer's process has exited; the daemon takes its row over.
  void die(std::uint32_t writer) {
    server::take_over(*board_, writer_row(kTakeover), writer_ref(kTakeover), writer_row(writer),
                      layout_, [](std::uint32_t) { return true; });
  }

  // As the daemon adds a slot, and takes the last one away unless somebody uses it. True if so.
  void add_slot() { server::add_slot(*board_, layout_, {}); }
  bool last_slot_used() {
    const std::uint32_t slot = wire::slots_of(board_->slots.load(), layout_) - 1;
    if (server::writer_uses(writer_row(), slot)) return true;
    return std::any_of(reader_rows_.begin(), reader_rows_.end(),
                       [slot](const auto& row) { return (**row).holds()[slot].load() != 0; });
  }
  bool take_last_slot() {
    server::begin_closing(*board_);
    const bool gone = !last_slot_used();
    server::end_closing(*board_, gone);
    return gone;
  }

  // One attempt, without waiting.
  internal::WriteAttempt begin(std::uint32_t i = 0) {
    SlotWaitOf none;
    return writer(i).begin(none);
  }
  // Writer 0 sleeps so while no slot is free.
  internal::WriteAttempt begin_sleeping(SlotWaitOf::SleepOn sleep) {
    SlotWaitOf wait(std::move(sleep));
    return writer().begin(wait);
  }
  // Puts a version there. The number is the writer's to choose.
  internal::WriteAttempt publish(std::uint32_t i = 0) {
    const internal::WriteAttempt attempt = begin(i);
    writer(i).publish(attempt.slot, attempt.version);
    return attempt;
  }

  // ---- RowResolver.
  const wire::WriterRow* find_writer_row(wire::RowRef at) override {
    if (rows_unmapped) return nullptr;
    return at.file == kWriterFile && at.unit < 3 ? &**writer_rows_[at.unit] : nullptr;
  }
  const wire::ReaderRow* find_reader_row(wire::RowRef at, std::size_t /*place*/) override {
    if (rows_unmapped) return nullptr;
    if (at.file != kReaderFile || at.unit >= reader_rows_.size() || rows_lost) return nullptr;
    on_reader_row(at.unit);
    return subscribers_hidden ? &*nobody_ : &**reader_rows_[at.unit];
  }
  const wire::SubscriberChunk* find_subscriber_chunk(wire::FileRange at,
                                                     std::size_t /*place*/) override {
    if (at.file != kChunkFile || at.offset >= chunks_.size() || chunks_lost) return nullptr;
    return &chunks_[at.offset];
  }

  bool rows_unmapped = false;       // of others: they would have to be fetched
  bool rows_lost = false;           // no reader's row can be mapped
  bool chunks_lost = false;         // nor what the list of subscribers goes on with
  bool subscribers_hidden = false;  // the mistake of negative controls: every row looks unused

  static constexpr std::uint32_t kTakeover = 2;
  static wire::RowRef writer_ref(std::uint32_t i) { return {kWriterFile, i}; }
  // Called when somebody looks up a reader's row.
  std::function<void(std::uint32_t)> on_reader_row = [](std::uint32_t) {};

 private:
  static constexpr wire::FileId kWriterFile{1};
  static constexpr wire::FileId kReaderFile{2};
  static constexpr wire::FileId kChunkFile{3};
  // In the board's own chunk, or in one of those chained to it.
  wire::Word& entry(std::uint32_t reader) {
    wire::SubscriberChunk* chunk = &board_->subscribers;
    for (std::uint32_t i = 0; i < reader / wire::SubscriberChunk::kEntries; ++i) {
      if (i == chunks_.size()) {
        chunks_.emplace_back();
        chunk->next.store(wire::pack_chunk({kChunkFile, i}));
      }
      chunk = &chunks_[i];
    }
    return chunk->entries[reader % wire::SubscriberChunk::kEntries];
  }

  const wire::SlotLayout layout_;
  PlainPage<wire::BoardRecord> board_;
  std::deque<wire::SubscriberChunk> chunks_;
  std::vector<std::vector<std::uint64_t>> payload_;
  std::vector<std::unique_ptr<PlainPage<wire::WriterRow>>> writer_rows_;
  std::vector<std::unique_ptr<PlainPage<wire::ReaderRow>>> reader_rows_;
  internal::KnownRows rows_{*this};
  PlainPage<wire::ReaderRow> nobody_{wire::reader_row_units(wire::kMaxSlots) * wire::kRowUnitBytes};
  std::vector<std::unique_ptr<internal::SlotWriter>> writers_;
  std::vector<std::unique_ptr<internal::SlotReader>> readers_;
};

}  // namespace memlease::testing
