// Layout of session pages: the pages that one client process writes and its peers map read-only.
//
// A session page is a shared file of kSessionPageBytes that belongs to one session and one access
// domain. It begins with the process's counts (wire/session_counts.h). Behind them it holds rows,
// each placed by the daemon at a multiple of 64 bytes: reader rows (what this process reads) and
// writer rows (what it published). The daemon's own takeover pages have no counts and hold
// writer rows only: what a dead or departed writer published last stands there in the same form, so
// that a reader need not know who wrote. A row that is given back keeps its words: it is used again
// for an array of as many slots, where every word counts on from there (reader) or is copied over
// (writer).
//
// docs/protocol.md explains the steps; client/slots/slot_reader.cc and slot_writer.cc take them.
// Another layout is another version of the protocol: wire/protocol.cc sees to that.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/ids.h"
#include "wire/session_counts.h"
#include "wire/shared_word.h"

namespace memlease::wire {

inline constexpr std::uint64_t kSessionPageBytes = std::uint64_t{64} * 1024;
inline constexpr std::uint64_t kRowUnitBytes = 64;
inline constexpr std::uint32_t kSessionPageUnits = kSessionPageBytes / kRowUnitBytes;
inline constexpr std::uint64_t kSessionCountsBytes = sizeof(SessionCounts);
static_assert(kSessionCountsBytes % kRowUnitBytes == 0);
// That an array can have: a publication word has six bits for its slot.
inline constexpr std::uint32_t kMaxSlots = 64;

// ---- Reader row: one per (session, array). Written by the reader's process.
// Behind the header: hold count per slot, then the read fence per slot.
struct ReaderRow {
  HalfWord release_count{0};  // +1 for a release while the writer wants a slot; a futex
  HalfWord sleeping{0};       // threads of this process that sleep or are about to
  // holds()[s] != 0: this process uses slot s. A count, since its threads share the row.
  HalfWord* holds() { return reinterpret_cast<HalfWord*>(this + 1); }
  const HalfWord* holds() const { return reinterpret_cast<const HalfWord*>(this + 1); }
  // For a device whose work goes on after a call returns: how often the row's event for the slot
  // has been recorded, counted before the hold goes. 0 on the host, whose bytes the words above
  // order.
  Word* read_fences(std::uint32_t slots) {
    return reinterpret_cast<Word*>(reinterpret_cast<std::byte*>(this + 1) + fence_offset(slots));
  }
  const Word* read_fences(std::uint32_t slots) const {
    return const_cast<ReaderRow*>(this)->read_fences(slots);
  }
  static constexpr std::size_t fence_offset(std::uint32_t slots) {
    return (slots + slots % 2) * sizeof(HalfWord);
  }
};
static_assert(sizeof(ReaderRow) == 8);

constexpr std::uint32_t reader_row_units(std::uint32_t slots) {
  const std::size_t bytes =
      sizeof(ReaderRow) + ReaderRow::fence_offset(slots) + slots * sizeof(Word);
  return static_cast<std::uint32_t>((bytes + kRowUnitBytes - 1) / kRowUnitBytes);
}

// ---- Writer row: one per (session, array). Written by the writer's process, or, in a takeover
// page, by the daemon. Behind the header: the slot words.
struct WriterRow {
  // The line that waiting readers watch: nothing in it changes until a write ends.
  Word publication{0};        // version * 64 + slot of the current version; 0 = none
  HalfWord publish_count{0};  // +1 for each publish, drop and mark taken back; a futex
  HalfWord publisher_cpu{0};  // CPU number + 1 of the last publish
  Word empty_writes{0};       // that ended without a look at their bytes: for operators
  Word copies_at{0};        // the board's writer word, without flags, if its owner has only copied
  Word copied_versions{0};  // brought here from other places of the array: for operators
  Word reserved[3]{};
  // What the writer works with.
  Word highest_used{0};  // highest version number ever begun: numbers are never used twice
  HalfWord writing{0};   // 1 while a write is under way
  HalfWord wanted{0};    // 1 while the writer waits for a slot
  Word* slot_words() { return reinterpret_cast<Word*>(this + 1); }
  const Word* slot_words() const { return reinterpret_cast<const Word*>(this + 1); }
};
static_assert(sizeof(WriterRow) == 80);

constexpr std::uint32_t writer_row_units(std::uint32_t slots) {
  const std::size_t bytes = sizeof(WriterRow) + slots * sizeof(Word);
  return static_cast<std::uint32_t>((bytes + kRowUnitBytes - 1) / kRowUnitBytes);
}

// ---- Slot word: the version that stands in the slot (0 = none), and marks.
inline constexpr std::uint64_t kWriting = std::uint64_t{1} << 63;    // the writer is at it
inline constexpr std::uint64_t kHandedOut = std::uint64_t{1} << 62;  // and its bytes may be changed
inline constexpr std::uint64_t kVersionMask = (std::uint64_t{1} << 58) - 1;

constexpr std::uint64_t version_of(std::uint64_t slot_word) { return slot_word & kVersionMask; }

// The last number that a version can have. Numbers are never used twice, so whoever would need one
// above it begins no write.
inline constexpr std::uint64_t kLastVersion = kVersionMask;
// What another process's row says about the highest number. Nobody begins so many versions, so a
// number near the end is a lie; but it is counted on from, since a smaller one may have been used.
constexpr std::uint64_t bounded_highest(std::uint64_t highest_used) {
  return highest_used < kLastVersion ? highest_used : kLastVersion;
}

// ---- Publication word.
struct Publication {
  std::uint64_t version = 0;
  std::uint32_t slot = 0;
};
constexpr std::uint64_t pack(Publication p) { return (p.version << 6) | p.slot; }
constexpr Publication unpack_publication(std::uint64_t word) {
  return {word >> 6, static_cast<std::uint32_t>(word & 63)};
}

// Of an array with one slot: a write of it was dropped, and nothing has been published since. What
// was published last is gone then. Other arrays do not write the current slot.
inline bool only_slot_is_empty(const WriterRow& row, std::uint32_t slots) {
  return slots == 1 && version_of(row.slot_words()[0].load()) == 0;
}

}  // namespace memlease::wire
