// The reader's half of the slot protocol, on one array's pages: how to come by a version without a
// call, and how to let it go. Read it beside tests/model/ and docs/protocol.md.
//
// Thread-safe: the threads of this process share the row, each hold is a count. The writer's words
// are loaded once and bounded before use.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "client/slots/known_rows.h"
#include "wire/board.h"
#include "wire/futex.h"
#include "wire/session_pages.h"

namespace memlease::internal {

enum class ReadOutcome : std::uint32_t {
  kAcquired,      // version and slot are set; release(slot) when done
  kNotYet,        // nothing above newer_than, or not that version yet: wait for a change
  kGone,          // that version has been overwritten or given up
  kProducerDied,  // its writer died in the middle of `version`
  kWriteAborted,  // slots=1: the last write, of `version`, was dropped; nothing stands
  kWithdrawn,
  kDraining,
  kTooManyHeld,  // this process holds its share of the array's versions
  kUnmapped,     // the writer's row is not mapped; `version` is the board's word that names it
  kUntried,      // nobody has looked
};

// Two registers: on its way to the caller it does not go through memory.
struct ReadAttempt {
  ReadOutcome outcome = ReadOutcome::kUntried;
  std::uint32_t slot = 0;
  std::uint64_t version = 0;
};
static_assert(sizeof(ReadAttempt) == 16);

// `version` will never come: a follower is told once, and waits for what comes after it.
constexpr bool came_to_nothing(const ReadAttempt& attempt) {
  return attempt.outcome == ReadOutcome::kProducerDied ||
         attempt.outcome == ReadOutcome::kWriteAborted;
}

// By what the board says, a writer died before this version was complete. Calls nobody.
bool is_poisoned(const wire::BoardRecord& board, wire::SlotLayout layout, std::uint64_t version);

class SlotReader {
 public:
  // `row` is this process's own. All of it outlives this.
  SlotReader(const wire::BoardRecord& board, wire::ArrayId array, wire::SlotLayout layout,
             wire::ReaderRow& row, KnownRows& rows);

  // Calls nobody. version 0: the current one, if it is above newer_than. With slots=1 a write that
  // came to nothing is told to those who have not heard of its number: with newer_than there or
  // above it the next version can be waited for.
  ReadAttempt acquire(std::uint64_t version, std::uint64_t newer_than);
  // One more hold of a slot that this process reads or writes: it does not count against the share
  // before views_exceed_share().
  void hold_again(std::uint32_t slot) {
    row_.holds()[slot].fetch_add(1);
    if (!held_again_.load(std::memory_order_relaxed)) held_again_.store(true);
  }
  // Calls nobody.
  void release(std::uint32_t slot);
  // To be called before release(), with the slot's event recorded: one more read that a writer has
  // to wait for.
  void count_read_fence(std::uint32_t slot) {
    wire::Word& count = row_.read_fences(layout_.most)[slot];
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  // How many reads of the slot, of all threads, have ended on a GPU since this process subscribed.
  std::uint64_t read_fence_count(std::uint32_t slot) const {
    return row_.read_fences(layout_.most)[slot].load(std::memory_order_relaxed);
  }
  // Its writer died before the version was complete.
  bool poisoned(std::uint64_t version) const;
  // How often this process holds the slot.
  std::uint32_t holds(std::uint32_t slot) const { return row_.holds()[slot].load(); }
  bool holds_any() const;
  // Of how many slots has this process a lease or view?
  std::uint32_t held() const;
  // The versions that this process holds; and of how many slots it may hold them at once, so that
  // no process stops the writer of an array that can grow.
  std::vector<std::uint64_t> held_versions() const;
  std::uint32_t most_held() const;
  // The same for its writes, which views of earlier ones may refuse: the largest share that it has
  // had, since a reader that comes later stops no writer.
  std::uint32_t most_kept() const { return most_kept_.load(std::memory_order_relaxed); }
  // Does it hold more than that? False, at once, where nothing has been held again since the answer
  // was no.
  bool views_exceed_share();

  // What to sleep on: take the counts, then announce the sleep, then try again, then sleep.
  struct Counts {
    wire::FutexWait words[2];
    std::uint32_t used = 0;
    std::uint32_t publisher_cpu = 0;
    std::span<const wire::FutexWait> span() const { return {words, used}; }
  };
  // To be taken before the look whose result is waited for. Of what is mapped.
  Counts counts() const;
  // Where the newest version seems to stand; its slot word is sent for. A guess, not an acquire.
  std::uint32_t likely_slot() const;
  // By Sleeper alone: writers of every process see that a thread of this one sleeps.
  void announce_sleep() { row_.sleeping.fetch_add(1); }
  void end_sleep() { row_.sleeping.fetch_sub(1); }

 private:
  ReadAttempt no_version(const wire::WriterRow& writer, std::uint64_t newer_than) const;
  ReadAttempt newest(const wire::WriterRow& writer, std::uint64_t newer_than) const;
  ReadAttempt numbered(const wire::WriterRow& writer, std::uint64_t version) const;
  bool given_up(const wire::WriterRow& writer, std::uint64_t version) const;
  bool exists(std::uint32_t slot) const;
  bool may_exceed_share() const;
  bool holds_too_many();
  void note_share(std::uint32_t most);
  std::uint32_t slots_of_array() const {
    return layout_.grows() ? wire::slots_of(board_.slots.load(), layout_) : layout_.regular;
  }
  void wake_writer();

  const wire::BoardRecord& board_;
  const wire::ArrayId array_;
  const wire::SlotLayout layout_;
  wire::ReaderRow& row_;
  KnownRows& rows_;
  std::atomic<std::uint32_t> most_kept_{0};
  std::atomic<bool> held_again_{false};
};

// A thread that sleeps on the counts: from its announcement on writers wake it.
class Sleeper {
 public:
  explicit Sleeper(SlotReader& reader) : reader_(reader) { reader_.announce_sleep(); }
  ~Sleeper() { reader_.end_sleep(); }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

 private:
  SlotReader& reader_;
};

}  // namespace memlease::internal
