#include "server/core/slot_board.h"

#include <algorithm>
#include <span>

#include "server/core/late_wakes.h"
#include "wire/hooks/test_hooks.h"

namespace memlease::server {

using internal::crash_point;
using internal::leaves_out;
using wire::BoardRecord;
using wire::RowRef;
using wire::Word;
using wire::WriterRow;

namespace {

void announce(BoardRecord& board) {
  if (!leaves_out("count the change")) board.event_count.fetch_add(1);
  wake_sleepers(board.event_count);
}

// Entries of other chunks are used once all of the first one are.
void note_used(BoardRecord& board, const Word& entry) {
  if (leaves_out("note the entry")) return;
  const auto first = std::span(board.subscribers.entries);
  std::uint64_t used = 1;
  while (used < first.size() && &first[used - 1] != &entry) ++used;
  if (used > board.used_entries.load()) board.used_entries.store(used);
}

// The version that a slot has now that its writer is gone; 0 if its bytes may be half written.
std::uint64_t surviving_version(std::uint64_t slot_word) {
  if ((slot_word & wire::kHandedOut) != 0 && !leaves_out("torn bytes have no version")) return 0;
  if (slot_word != wire::version_of(slot_word) && leaves_out("a mere mark stands")) return 0;
  return wire::version_of(slot_word);  // marked but not handed out: nobody touched the bytes
}

}  // namespace

void init_board(BoardRecord& board, wire::ArrayId id, std::uint32_t slots, RowRef takeover) {
  board.slots.store(slots);
  board.writer.store(wire::pack_writer(takeover, 1, wire::kWriterVacant));
  board.array_id.store(wire::to_int(id));
}

void add_slot(BoardRecord& board, wire::SlotLayout layout, wire::FileRange place) {
  const std::uint32_t slot = board.slots.load();
  crash_point("add_slot.begin");
  board.places(layout)[slot - layout.regular].store(wire::pack_place(place));
  crash_point("add_slot.placed");
  board.slots.store(slot + 1);
  announce(board);
}

void begin_closing(BoardRecord& board) { board.slots.fetch_or(wire::kSlotsClosing); }

void end_closing(BoardRecord& board, bool gone) {
  const std::uint32_t slots = board.slots.load() & ~wire::kSlotsClosing;
  board.slots.store(gone ? slots - 1 : slots);
  announce(board);
}

// First what is in the slot, then what is current: between the two stores of a publish the slot's
// version is above the current one.
bool writer_uses(const WriterRow& row, std::uint32_t slot) {
  const std::uint64_t word = row.slot_words()[slot].load();
  if ((word & (wire::kWriting | wire::kHandedOut)) != 0) return true;
  const wire::Publication current = wire::unpack_publication(row.publication.load());
  const bool above = wire::version_of(word) > current.version;
  return (above && !leaves_out("see a publish under way")) ||
         (current.version != 0 && current.slot == slot);
}

void set_elsewhere(BoardRecord& home, std::uint32_t number, bool is) {
  const std::uint32_t bit = std::uint32_t{1} << number;
  if (is) {
    home.elsewhere.fetch_or(bit);
  } else {
    home.elsewhere.fetch_and(~bit);
  }
  announce(home);
}

void set_moving(BoardRecord& board) { board.writer.fetch_or(wire::kWriterMoving); }

void clear_moving(BoardRecord& board) {
  board.writer.fetch_and(~wire::kWriterMoving);
  announce(board);
}

bool is_writing(const WriterRow& row) {
  return row.writing.load() != 0 && !leaves_out("see a write under way");
}

void set_writer(BoardRecord& board, RowRef row, bool vacant) {
  crash_point("set_writer.begin");
  const std::uint64_t old = board.writer.load();
  const std::uint64_t generation =
      wire::writer_generation_of(old) + (leaves_out("count the generation") ? 0 : 1);
  const std::uint64_t flags =
      (old & (wire::kWriterWithdrawn | wire::kWriterDraining)) | (vacant ? wire::kWriterVacant : 0);
  board.writer.store(wire::pack_writer(row, generation, flags));
  crash_point("set_writer.word");
  announce(board);
}

void set_withdrawn(BoardRecord& board) {
  if (!leaves_out("set withdrawn")) board.writer.fetch_or(wire::kWriterWithdrawn);
  announce(board);
}

void set_draining(BoardRecord& board) {
  if (!leaves_out("set draining")) board.writer.fetch_or(wire::kWriterDraining);
  announce(board);
}

bool holds_any(const wire::ReaderRow& row, std::uint32_t slots) {
  if (leaves_out("see what a session holds")) return false;
  return std::any_of(row.holds(), row.holds() + slots,
                     [](const wire::HalfWord& hold) { return hold.load() != 0; });
}

void take_over(BoardRecord& board, WriterRow& takeover, RowRef takeover_ref, const WriterRow& from,
               wire::SlotLayout layout, absl::FunctionRef<bool(std::uint32_t)> stands) {
  crash_point("takeover.begin");
  const std::uint32_t slots = wire::slots_of(board.slots.load(), layout);
  // Whatever happens, numbers only grow.
  const std::uint64_t begun = wire::bounded_highest(from.highest_used.load());
  const std::uint64_t highest = std::max(begun, takeover.highest_used.load());
  wire::Publication newest;
  std::uint32_t torn = slots;
  for (std::uint32_t s = 0; s < slots; ++s) {
    const std::uint64_t word = from.slot_words()[s].load();
    std::uint64_t version = surviving_version(word);
    if (version > highest) version = 0;  // a lie
    if ((word & wire::kHandedOut) != 0) torn = s;
    if (version != 0 && !stands(s)) {
      board.poisoned()[s].store(version);
      version = 0;
    }
    if (version > newest.version) newest = {version, s};
    takeover.slot_words()[s].store(version);
  }
  // What goes in an only slot is named still: whoever has an older version elsewhere must not take
  // that for the newest.
  const wire::Publication last = wire::unpack_publication(from.publication.load());
  if (layout.most == 1 && newest.version == 0 && last.version <= highest &&
      !leaves_out("name what an only slot has lost")) {
    newest = {last.version, 0};
  }
  for (std::uint32_t s = slots; s < layout.most; ++s) takeover.slot_words()[s].store(0);
  if (!leaves_out("hand the numbers on")) takeover.highest_used.store(highest);
  takeover.publication.store(newest.version == 0 ? 0 : wire::pack(newest));
  takeover.empty_writes.store(from.empty_writes.load());
  takeover.copied_versions.store(from.copied_versions.load());
  crash_point("takeover.row");
  if (torn != slots && !leaves_out("poison")) board.poisoned()[torn].store(highest);
  set_writer(board, takeover_ref, true);
}

void add_subscriber(BoardRecord& board, Word& entry, RowRef row) {
  board.subscribed.fetch_add(1);
  crash_point("subscriber.begin");
  note_used(board, entry);
  if (!leaves_out("list the subscriber")) entry.store(wire::pack_subscriber(row));
  // For a writer who is about to sleep and has not met this row: he looks again. Who sleeps already
  // does not wait for somebody who has held nothing yet.
  if (!leaves_out("count the subscriber")) board.event_count.fetch_add(1);
}

void remove_subscriber(BoardRecord& board, Word& entry) {
  entry.store(0);
  board.subscribed.fetch_sub(1);
  announce(board);
}

}  // namespace memlease::server
