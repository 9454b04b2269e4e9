// The writer's half of the slot protocol, on one array's pages: how to come by a slot that nobody
// reads, and how to publish or drop what was written. Read it beside tests/model/ and
// docs/protocol.md.
//
// Not thread-safe: one write at a time, OpenArray sees to that.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "client/slots/known_rows.h"
#include "client/slots/slot_wait.h"
#include "wire/board.h"
#include "wire/futex.h"
#include "wire/session_pages.h"

namespace memlease::internal {

enum class WriteOutcome : std::uint32_t {
  kReady,    // version and slot are set; publish(), drop() next
  kNotMine,  // ownership is elsewhere or on its way: ask the daemon
  kNoFreeSlot,
  kNumbersUsedUp,  // kLastVersion has been begun: nobody writes this array any more
  kNumberUsed,     // of a version that was to be copied: a version here has it, or a higher one
  kWithdrawn,
  kDraining,
};

// Two registers, as ReadAttempt.
struct WriteAttempt {
  WriteOutcome outcome = WriteOutcome::kNotMine;
  std::uint32_t slot = 0;
  std::uint64_t version = 0;
};
static_assert(sizeof(WriteAttempt) == 16);

class SlotWriter;

// Which number a write gets: the next one of its array, if nothing else is said.
struct WriteNumber {
  // For a copy of this version from another place of the array; 0: for a new version.
  std::uint64_t copied = 0;
  // It cannot keep that number here, and gets the next one.
  bool is_new = false;
  // Of the array's home, which has claimed its next number; nullptr: this is the home, or the copy
  // keeps its number.
  SlotWriter* home = nullptr;
  // Nothing begins: a slot is waited for.
  bool none = false;
};

class SlotWriter {
 public:
  // `row` is this process's own, all zero or adopted. All of it outlives this.
  SlotWriter(const wire::BoardRecord& board, wire::ArrayId array, wire::SlotLayout layout,
             wire::RowRef row_ref, wire::WriterRow& row, KnownRows& rows);

  // Copies what stands in `from`, another process's row, as far as it can be true; ownership is
  // about to become ours.
  void adopt(const wire::WriterRow& from);

  // Takes a free slot; while none is free, goes on as `wait` says. Of several free slots one that
  // is `preferred` comes first; asked with the slot's mark set.
  using Preferred = absl::FunctionRef<bool(std::uint32_t slot)>;
  // A new version makes this process the array's writer, a copy does not.
  WriteAttempt begin(SlotWait& wait, const Preferred* preferred = nullptr,
                     const WriteNumber& number = {});
  // For a version that is written on a replica of the array: no slot of this one is written, and
  // nobody else gets a number before end_number(). kReady, or why not.
  WriteOutcome claim_number();
  // That number has been given, by begin() there, with its slot chosen and not yet handed out.
  void use_number(std::uint64_t version, bool copies);
  void end_number() { end_write(); }
  // Returns after the version is current. Wakes sleeping readers, and calls nobody.
  void publish(std::uint32_t slot, std::uint64_t version);
  // The slot has no version from now on. Calls nobody.
  void drop(std::uint32_t slot);

  // Ownership has been acquired to copy versions of others here: who asks for a writer finds none
  // before the first version of this process's own.
  void note_copies_only() { row_.copies_at.store(board_.writer.load() & ~wire::kWriterFlags); }
  // Before the end of a write whose bytes nobody has asked for: for operators.
  void count_empty() { row_.empty_writes.fetch_add(1, std::memory_order_relaxed); }
  // Likewise of one that has brought a version here from another place of the array.
  void count_copied() { row_.copied_versions.fetch_add(1, std::memory_order_relaxed); }

  // Inside of a write: where GPU work on the slot ends that its readers, all gone now, have left
  // behind. Not for the host.
  using OnRead = absl::FunctionRef<void(wire::RowRef row, std::uint64_t count)>;
  void for_each_read_fence(std::uint32_t slot, OnRead fn);

  wire::RowRef row_ref() const { return row_ref_; }
  const wire::WriterRow& row() const { return row_; }
  // What stands, in a write or between two; version 0 = nothing.
  wire::Publication current() const;

 private:
  WriteOutcome may_begin() const;
  // The slot, or none() if none is free.
  std::uint32_t none() const { return layout_.most; }
  std::uint32_t choose(const Preferred* preferred);
  std::uint32_t choose_among(const Preferred* preferred);
  std::uint32_t first_free(const Preferred* preferred, std::uint32_t slots,
                           std::uint64_t passed_over);
  std::uint64_t held_now(std::uint32_t from, std::uint32_t to);
  SlotWait::Grown ask_for_slot(SlotWait& wait);
  std::uint32_t choose_mapped(const Preferred* preferred, SlotWait& wait);
  std::uint32_t choose_waiting(const Preferred* preferred, SlotWait& wait);
  // How many there are; one that is about to go counts.
  std::uint32_t slots() const {
    return layout_.grows() ? wire::slots_of(board_.slots.load(), layout_) : layout_.regular;
  }
  bool exists(std::uint32_t slot) const;
  void clear_from(std::uint32_t slot);
  bool try_slot(std::uint32_t slot, const Preferred* preferred);
  void hand_out(std::uint32_t slot, std::uint64_t version);
  std::uint64_t next_version() const;
  void note_own_version();
  bool may_copy(std::uint64_t number) const;
  WriteOutcome may_have(std::uint64_t version, const WriteNumber& number) const;
  bool held(std::uint32_t slot);
  struct SleepWords {
    std::vector<wire::FutexWait> words;
    std::chrono::nanoseconds longest = std::chrono::nanoseconds::max();
  };
  SleepWords sleep_words();
  // Calls fn(row or nullptr) for each subscriber until it returns false.
  template <typename Fn>
  void for_each_subscriber(Fn fn);
  void take_back(std::uint32_t slot);
  void end_write();

  const wire::BoardRecord& board_;
  const wire::ArrayId array_;
  const wire::SlotLayout layout_;
  const wire::RowRef row_ref_;
  wire::WriterRow& row_;
  KnownRows& rows_;
  std::uint64_t added_held_lately_ = 0;  // a bit for each slot
  std::uint32_t writes_to_look_ = 0;
  bool unmapped_ = false;  // the last look at the slots has met a row that is not mapped
};

}  // namespace memlease::internal
