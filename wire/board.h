// Layout of boards: the pages that the daemon alone writes, one set of files per access domain,
// mapped read-only by every session that opened an array of the domain.
//
// A board file of kBoardBytes holds records (one per array) and subscriber chunks, placed at
// multiples of 64 bytes. A record's subscriber entries never move; an entry that is empty again may
// be used by a later subscriber. Clients trust the daemon, and still check each offset.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/ids.h"
#include "wire/session_pages.h"
#include "wire/shared_word.h"

namespace memlease::wire {

inline constexpr std::uint64_t kBoardBytes = std::uint64_t{256} * 1024;
inline constexpr std::uint64_t kBoardUnitBytes = 64;
// That an array can have at a time: BoardRecord::elsewhere has a bit for each.
inline constexpr std::uint32_t kMaxReplicas = 32;

// ---- Writer word: whose writer row counts, and what goes on.
//   bits 0..3 flags | 4..13 unit | 14..41 session page | 42..63 generation
// The generation grows with each change of the writer, so that an equal word means that nothing
// has changed in between.
inline constexpr std::uint64_t kWriterMoving = 1;  // the daemon moves ownership: no write may begin
inline constexpr std::uint64_t kWriterWithdrawn =
    2;  // the array has no name any more: nothing may begin
inline constexpr std::uint64_t kWriterVacant =
    4;  // the row is the daemon's: the array has no writer
inline constexpr std::uint64_t kWriterDraining = 8;  // the daemon is about to end: likewise
inline constexpr std::uint64_t kWriterFlags = 15;
inline constexpr std::uint32_t kWriterUnitBits = 10;
inline constexpr std::uint32_t kWriterFileBits = 28;
inline constexpr std::uint32_t kWriterGenerationBits = 22;
static_assert(kSessionPageUnits <= 1U << kWriterUnitBits && kMaxFileId < 1U << kWriterFileBits);

constexpr std::uint64_t pack_writer(RowRef row, std::uint64_t generation, std::uint64_t flags) {
  return flags | (std::uint64_t{row.unit} << 4) | (std::uint64_t{to_int(row.file)} << 14) |
         (generation << 42);
}
constexpr RowRef writer_row_of(std::uint64_t word) {
  return {FileId{static_cast<std::uint32_t>((word >> 14) & kMaxFileId)},
          static_cast<std::uint32_t>((word >> 4) & (kSessionPageUnits - 1))};
}
constexpr std::uint64_t writer_generation_of(std::uint64_t word) { return word >> 42; }

// ---- Subscriber entry: where a reader's row stands; 0 = empty.
//   bit 0 set | 4..13 unit | 14..41 session page
constexpr std::uint64_t pack_subscriber(RowRef row) { return pack_writer(row, 0, 1); }
constexpr RowRef subscriber_row_of(std::uint64_t word) { return writer_row_of(word); }

// Subscriber chunks are chained; the first one stands in the record.
//   bits 0..31 offset | 32..59 file; 0 = no further chunk
constexpr std::uint64_t pack_chunk(FileRange at) {
  return at.offset | (std::uint64_t{to_int(at.file)} << 32);
}
constexpr FileRange unpack_chunk(std::uint64_t word) {
  return {FileId{static_cast<std::uint32_t>(word >> 32)}, word & 0xffffffffU};
}

struct SubscriberChunk {
  static constexpr std::uint32_t kEntries = 7;
  Word next{0};
  Word entries[kEntries]{};
};
static_assert(sizeof(SubscriberChunk) == 64);

// ---- Slots. An array has its regular slots from its creation to its end. Behind them the daemon
// adds others while readers hold all of these, and takes them away again: the last one first.
struct SlotLayout {
  // NOLINTNEXTLINE(google-explicit-constructor): of an array that does not grow
  constexpr SlotLayout(std::uint32_t slots) : SlotLayout(slots, slots) {}
  constexpr SlotLayout(std::uint32_t slots, std::uint32_t at_most)
      : regular(slots), max_slots(at_most), most(at_most > slots ? kMaxSlots : slots) {}
  std::uint32_t regular;
  std::uint32_t max_slots;  // that its creator allows
  // That rows and records have room for. Above max_slots stand those that evicted sessions hold.
  std::uint32_t most;
  constexpr bool grows() const { return most > regular; }
};

// The word `slots`: how many there are, and whether the last one of them is about to go: then
// nobody begins to use it, and looks again if he wants it.
inline constexpr std::uint32_t kSlotsClosing = std::uint32_t{1} << 31;
constexpr std::uint32_t slots_of(std::uint32_t word, SlotLayout layout) {
  const std::uint32_t slots = word & ~kSlotsClosing;
  return slots < layout.most ? slots : layout.most;
}
// Of them those that may be used.
constexpr std::uint32_t open_slots_of(std::uint32_t word, SlotLayout layout) {
  return slots_of(word, layout) - ((word & kSlotsClosing) != 0 ? 1 : 0);
}

// Place word: where the bytes of an added slot are; 0 = never placed.
//   bits 0..27 file | 28..63 offset, in units of 64 bytes
inline constexpr std::uint64_t kPlaceUnitBytes = 64;
inline constexpr std::uint64_t kMaxPlaceOffset = ((std::uint64_t{1} << 36) - 1) * kPlaceUnitBytes;
constexpr std::uint64_t pack_place(FileRange at) {
  return to_int(at.file) | (at.offset / kPlaceUnitBytes) << 28;
}
constexpr FileRange unpack_place(std::uint64_t word) {
  return {FileId{static_cast<std::uint32_t>(word & kMaxFileId)}, (word >> 28) * kPlaceUnitBytes};
}

// For a checker of races: under this key the daemon tells of what it has seen to be over before it
// gives a place in the file away.
constexpr std::uint64_t checker_key_of_places(FileId file) {
  return (std::uint64_t{3} << 62) | to_int(file);
}

// Behind the record: the poisoned version per slot (a version that was begun there and never
// completed; 0 = none), then the place of each slot that is not regular.
struct BoardRecord {
  Word array_id{0};  // 0 = not in use
  Word writer{0};    // writer word
  // +1 for each change of the writer, of the subscribers and of the slots, and poison; a futex
  HalfWord event_count{0};
  HalfWord slots{0};
  HalfWord subscribed{0};  // processes that have subscribed
  // Of an array's home: a bit for each replica, by its number, on which versions have been written
  // that the home may not have. 0 on replicas.
  HalfWord elsewhere{0};
  // Of `subscribers`, how many entries have been used, which only grows; those behind them are 0.
  Word used_entries{0};
  SubscriberChunk subscribers;
  Word* poisoned() { return reinterpret_cast<Word*>(this + 1); }
  const Word* poisoned() const { return reinterpret_cast<const Word*>(this + 1); }
  // Of slot `layout.regular`, and so on.
  Word* places(SlotLayout layout) { return poisoned() + layout.most; }
  const Word* places(SlotLayout layout) const { return poisoned() + layout.most; }
};
static_assert(sizeof(BoardRecord) == 40 + 64);  // and three slots: two units

constexpr std::uint32_t board_record_units(SlotLayout layout) {
  const std::size_t words = layout.most + (layout.most - layout.regular);
  const std::size_t bytes = sizeof(BoardRecord) + words * sizeof(Word);
  return static_cast<std::uint32_t>((bytes + kBoardUnitBytes - 1) / kBoardUnitBytes);
}

}  // namespace memlease::wire
