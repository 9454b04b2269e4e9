// The layout of the shared pages as one number, for the compiler to compare: whoever changes a
// field, a size or an encoding that other processes rely on changes the number, and
// wire/protocol.cc does not compile until the version of the protocol has been raised. All of it
// is for the compiler: nothing is called when a program runs.
//
// A field, size or encoding is seen here only if it is among the facts below: who adds one that
// another process relies on adds it to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "wire/board.h"
#include "wire/event_words.h"
#include "wire/session_pages.h"

namespace memlease::wire {

// FNV-1a of the facts' bytes, least significant first: the same for every compiler.
constexpr std::uint64_t hash_of(std::initializer_list<std::uint64_t> facts) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::uint64_t fact : facts) {
    for (int bit = 0; bit < 64; bit += 8) {
      hash = (hash ^ ((fact >> bit) & 0xff)) * 0x100000001b3;
    }
  }
  return hash;
}

// Boards, and the chunks that their lists of subscribers go on in. Templates, so that a test can
// ask what another layout would give. What stands behind a row or record begins at its size.
template <typename Board = BoardRecord, typename Chunk = SubscriberChunk>
constexpr std::uint64_t hash_of_boards() {
  constexpr SlotLayout kGrows{3, kMaxSlots};
  return hash_of({kBoardBytes, kBoardUnitBytes, sizeof(Board), offsetof(Board, array_id),
                  offsetof(Board, writer), offsetof(Board, event_count), offsetof(Board, slots),
                  offsetof(Board, subscribed), offsetof(Board, elsewhere), kMaxReplicas,
                  offsetof(Board, used_entries), offsetof(Board, subscribers), sizeof(Chunk),
                  offsetof(Chunk, next), offsetof(Chunk, entries), Chunk::kEntries,
                  board_record_units(1), board_record_units(kMaxSlots),
                  board_record_units(kGrows)});
}

// Rows of readers and of writers in session pages.
template <typename Reader = ReaderRow, typename Writer = WriterRow>
constexpr std::uint64_t hash_of_rows() {
  return hash_of({kSessionPageBytes,
                  kRowUnitBytes,
                  kMaxSlots,
                  sizeof(Reader),
                  offsetof(Reader, release_count),
                  offsetof(Reader, sleeping),
                  Reader::fence_offset(1),
                  Reader::fence_offset(2),
                  reader_row_units(1),
                  reader_row_units(kMaxSlots),
                  sizeof(Writer),
                  offsetof(Writer, publication),
                  offsetof(Writer, publish_count),
                  offsetof(Writer, publisher_cpu),
                  offsetof(Writer, empty_writes),
                  offsetof(Writer, copies_at),
                  offsetof(Writer, copied_versions),
                  offsetof(Writer, highest_used),
                  offsetof(Writer, writing),
                  offsetof(Writer, wanted),
                  writer_row_units(1),
                  writer_row_units(kMaxSlots)});
}

// What stands in front of the rows: a session's counts.
template <typename Page = SessionCounts>
constexpr std::uint64_t hash_of_counts() {
  return hash_of({kSessionCountsBytes, sizeof(Page), offsetof(Page, version_waits),
                  offsetof(Page, slot_waits), offsetof(Page, versions_skipped),
                  offsetof(Page, writes_without_slot), kWaitBounds.size(),
                  static_cast<std::uint64_t>(kWaitBounds.front().count()),
                  static_cast<std::uint64_t>(kWaitBounds.back().count())});
}

// How words are packed: marks, places, rows, versions. By examples.
constexpr std::uint64_t hash_of_words() {
  constexpr RowRef kRow{FileId{0x1234567}, 0x2ab};
  constexpr FileRange kRange{FileId{0x1234567}, 0x5678'0000};
  constexpr SlotLayout kGrows{3, kMaxSlots};
  return hash_of({kWriterMoving, kWriterWithdrawn, kWriterVacant, kWriterDraining,
                  pack_writer(kRow, 0x3f1234, 0), pack_subscriber(kRow), pack_chunk(kRange),
                  pack_place(kRange), kSlotsClosing, slots_of(kSlotsClosing | 5, kGrows),
                  kGrows.most, kWriting, kHandedOut, kVersionMask, kLastVersion, pack({0x1234, 5}),
                  kMaxFileId});
}

// Events, and where they stand behind a row.
template <typename Event = EventWords>
constexpr std::uint64_t hash_of_events() {
  return hash_of({kEventPageBytes, sizeof(Event), offsetof(Event, recorded),
                  offsetof(Event, complete), event_units(1), event_units(kMaxSlots),
                  events_offset(3), reader_row_units_with_events(kMaxSlots)});
}

// The number that wire/protocol.cc has for each version of the protocol.
constexpr std::uint64_t page_layout_hash() {
  return hash_of(
      {hash_of_boards(), hash_of_rows(), hash_of_counts(), hash_of_words(), hash_of_events()});
}

// One that compiles only where the number is what it was; what it is stands in the compiler's
// message.
template <std::uint64_t is, std::uint64_t was>
struct PageLayouts {
  static_assert(is == was,
                "The layout of a shared page differs from that of this version of the protocol. "
                "Raise kMinProtocol and kMaxProtocol in wire/protocol.h, and give the new version "
                "its line in wire/protocol.cc, with the number that this page layout has. If no "
                "release speaks this version yet, change the number of its line.");
  static constexpr bool kUnchanged = true;
};

}  // namespace memlease::wire
