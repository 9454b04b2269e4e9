#include "client/slots/slot_writer.h"

#include <sched.h>

#include <algorithm>
#include <bit>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "wire/crowd.h"
#include "wire/hooks/test_hooks.h"

namespace memlease::internal {

using wire::ReaderRow;
using wire::RowRef;
using wire::Word;

namespace {
// How long to sleep where not everybody who may release a slot can wake this writer.
constexpr std::chrono::milliseconds kPollInterval{1};
// The same where a row cannot be looked at, which counts as holding everything.
constexpr std::chrono::milliseconds kUnmappedInterval{100};
// How many writes believe one look at who holds the added slots.
constexpr std::uint32_t kWritesPerLook = 16;

// No slot is worth a wait any more.
bool is_over(WriteOutcome outcome) {
  return outcome == WriteOutcome::kWithdrawn || outcome == WriteOutcome::kDraining;
}

// For stores that others must not see before those in front of them. Sequentially consistent, and a
// locked instruction, are those alone behind which this process looks for what others have stored:
// the flag `writing`, the mark, `wanted`, the publish count.
constexpr std::memory_order kInOrder = std::memory_order_release;

// What the caller has written by non-temporal stores, as compilers and libraries do for large
// arrays, comes before the stores that follow: on x86 these alone are not ordered among others.
void order_streaming_stores() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}
}  // namespace

SlotWriter::SlotWriter(const wire::BoardRecord& board, wire::ArrayId array, wire::SlotLayout layout,
                       wire::RowRef row_ref, wire::WriterRow& row, KnownRows& rows)
    : board_(board), array_(array), layout_(layout), row_ref_(row_ref), row_(row), rows_(rows) {}

void SlotWriter::adopt(const wire::WriterRow& from) {
  // Numbers only grow, also where `from` lies. The daemon poisons none while this row is the
  // writer's.
  std::uint64_t highest = wire::bounded_highest(from.highest_used.load());
  for (std::uint32_t s = 0; s < layout_.most; ++s) {
    if (leaves_out("go on above what is poisoned")) break;
    highest = std::max(highest, wire::bounded_highest(board_.poisoned()[s].load()));
  }
  const std::uint32_t slots = this->slots();
  for (std::uint32_t s = 0; s < slots; ++s) {
    // A mark that its writer left behind in a slot that was never handed out means nothing; a
    // version above the highest one is a lie.
    const std::uint64_t word = from.slot_words()[s].load();
    std::uint64_t version = wire::version_of(word);
    if ((word & wire::kHandedOut) != 0 || version > highest) version = 0;
    row_.slot_words()[s].store(version);
    crash_point("adopt.slot");
  }
  if (!leaves_out("clear what does not exist")) clear_from(slots);
  if (!leaves_out("adopt the highest number")) row_.highest_used.store(highest);
  const wire::Publication current = wire::unpack_publication(from.publication.load());
  if (!leaves_out("adopt the publication")) {
    row_.publication.store(current.version > highest ? 0 : wire::pack(current));
  }
  row_.empty_writes.store(from.empty_writes.load(), std::memory_order_relaxed);
  row_.copied_versions.store(from.copied_versions.load(), std::memory_order_relaxed);
}

// What stood in slots that have been taken away. One that is added has no version.
void SlotWriter::clear_from(std::uint32_t slot) {
  for (std::uint32_t s = slot; s < layout_.most; ++s) row_.slot_words()[s].store(0);
}

// ---- Begin.

WriteAttempt SlotWriter::begin(SlotWait& wait, const Preferred* preferred,
                               const WriteNumber& number) {
  // First the flag, then the look: either the daemon sees that we write, or we see that it moves
  // ownership (or has withdrawn the array).
  if (!leaves_out("flag the write")) row_.writing.store(1);
  crash_point("write.flagged");
  if (const WriteOutcome outcome = may_begin();
      outcome != WriteOutcome::kReady && !leaves_out("check the writer word")) {
    end_write();
    return {outcome};
  }
  crash_point("write.allowed");
  const std::uint32_t slot = choose_waiting(preferred, wait);
  if (slot == none()) {
    const WriteOutcome now = may_begin();
    end_write();
    return {is_over(now) ? now : WriteOutcome::kNoFreeSlot};
  }
  crash_point("write.chosen");
  if (!wait.prepare(slot)) {
    take_back(slot);
    end_write();
    return {WriteOutcome::kNoFreeSlot};
  }
  if (number.none) {
    take_back(slot);
    end_write();
    return {WriteOutcome::kReady, slot};
  }
  const bool keeps = number.copied != 0 && !number.is_new;
  const SlotWriter& giver = number.home == nullptr ? *this : *number.home;
  const std::uint64_t version = keeps ? number.copied : giver.next_version();
  if (const WriteOutcome outcome = may_have(version, number); outcome != WriteOutcome::kReady) {
    take_back(slot);
    end_write();
    return {outcome};
  }
  const bool copies = number.copied != 0 && !leaves_out("say that it only copies");
  if (number.home != nullptr) {
    number.home->use_number(version, copies);
  } else if (!copies) {
    note_own_version();
  }
  hand_out(slot, version);
  return {WriteOutcome::kReady, slot, version};
}

WriteOutcome SlotWriter::claim_number() {
  if (!leaves_out("flag the write")) row_.writing.store(1);
  crash_point("device.number_flagged");
  const WriteOutcome outcome = may_begin();
  if (outcome != WriteOutcome::kReady && !leaves_out("check the writer word")) {
    end_write();
    return outcome;
  }
  return WriteOutcome::kReady;
}

void SlotWriter::use_number(std::uint64_t version, bool copies) {
  if (!copies) note_own_version();
  row_.highest_used.store(version, kInOrder);
  crash_point("device.number_taken");
}

void SlotWriter::note_own_version() {
  if (row_.copies_at.load(std::memory_order_relaxed) != 0) row_.copies_at.store(0);
}

// The numbers of all places of an array are the home's to give, so one that is copied has been used
// there. Not here, unless somebody was faster; or died while he copied it, and whoever looked for
// it here was told that it is lost.
bool SlotWriter::may_copy(std::uint64_t number) const {
  if (number <= wire::unpack_publication(row_.publication.load()).version) return false;
  for (std::uint32_t s = 0; s < layout_.most; ++s) {
    if (number <= board_.poisoned()[s].load() && !leaves_out("look at what is poisoned")) {
      return false;
    }
  }
  return true;
}

wire::Publication SlotWriter::current() const {
  const wire::Publication current = wire::unpack_publication(row_.publication.load());
  if (current.slot >= layout_.most) return {};
  const std::uint64_t word = row_.slot_words()[current.slot].load();
  // With slots=1 it is in writing, and its bytes are what an update begins with.
  const std::uint64_t stands = layout_.most == 1 ? wire::version_of(word) : word;
  return stands == current.version ? current : wire::Publication{};
}

WriteOutcome SlotWriter::may_begin() const {
  const std::uint64_t word = board_.writer.load();
  if (board_.array_id.load() != to_int(array_)) return WriteOutcome::kWithdrawn;
  if ((word & wire::kWriterWithdrawn) != 0) return WriteOutcome::kWithdrawn;
  if ((word & wire::kWriterDraining) != 0) return WriteOutcome::kDraining;
  const bool mine = wire::writer_row_of(word) == row_ref_;
  return mine && (word & wire::kWriterMoving) == 0 ? WriteOutcome::kReady : WriteOutcome::kNotMine;
}

// A copy with a new number looks whether somebody was faster, as bytes in an only slot are gone
// once it is handed out.
WriteOutcome SlotWriter::may_have(std::uint64_t version, const WriteNumber& number) const {
  if (version > wire::kLastVersion) return WriteOutcome::kNumbersUsedUp;
  const bool is_own = number.home == nullptr && (number.copied == 0 || number.is_new);
  const bool may =
      (is_own || may_copy(version)) && (!number.is_new || current().version <= number.copied);
  return may ? WriteOutcome::kReady : WriteOutcome::kNumberUsed;
}

std::uint32_t SlotWriter::choose_mapped(const Preferred* preferred, SlotWait& wait) {
  for (;;) {
    unmapped_ = false;
    const std::uint32_t slot = choose(preferred);
    if (slot != none() || !unmapped_ || !wait.map_rows()) return slot;
  }
}

std::uint32_t SlotWriter::choose_waiting(const Preferred* preferred, SlotWait& wait) {
  std::uint32_t slot = choose_mapped(preferred, wait);
  if (slot == none() && layout_.grows()) {
    const SlotWait::Grown grown = ask_for_slot(wait);
    if (grown == SlotWait::Grown::kStop) return slot;
    if (grown == SlotWait::Grown::kAdded) slot = choose_mapped(preferred, wait);
  }
  if (slot != none()) return slot;
  for (bool go_on = true; go_on && slot == none();) {
    if (!leaves_out("want a slot")) row_.wanted.store(1);
    crash_point("write.wanted");
    const SleepWords sleep = sleep_words();
    crash_point("write.words");
    if (!leaves_out("look again before sleeping")) slot = choose_mapped(preferred, wait);
    if (slot == none()) go_on = wait.sleep_on(sleep.words, sleep.longest) && !is_over(may_begin());
  }
  row_.wanted.store(0);
  if (slot == none() && layout_.most == 1) take_back(0);
  return slot;
}

// The daemon adds a slot only where it finds no version in our row. It may do so long after we have
// stopped to wait for its answer.
SlotWait::Grown SlotWriter::ask_for_slot(SlotWait& wait) {
  const std::uint32_t slots = this->slots();
  if (slots == layout_.most) return SlotWait::Grown::kRefused;
  if (!leaves_out("clear what does not exist")) clear_from(slots);
  crash_point("grow.cleared");
  const SlotWait::Grown grown = wait.grow(slots);
  crash_point("grow.answered");
  return grown;
}

// The regular slot that has been waiting longest comes first; those that were added come last, so
// that they fall idle and can be taken away.
std::uint32_t SlotWriter::choose(const Preferred* preferred) {
  if (layout_.most == 1) return try_slot(0, nullptr) ? 0 : none();
  const std::uint32_t slot = preferred == nullptr ? none() : choose_among(preferred);
  return slot == none() ? choose_among(nullptr) : slot;
}

// Slots are added for readers who hold the others, are held for long, and may be many: to look at
// all of them costs more than to fill a small one. So an added slot that was held a few writes ago
// is passed over, and who finds no slot that way looks again.
std::uint32_t SlotWriter::choose_among(const Preferred* preferred) {
  const std::uint32_t slots = this->slots();
  if (slots == layout_.regular) return first_free(preferred, slots, 0);
  std::uint32_t slot = none();
  const bool looked = writes_to_look_ != 0;
  if (looked) {
    if (!leaves_out("look again after some writes")) --writes_to_look_;
    slot = first_free(preferred, slots, held_now(0, layout_.regular) | added_held_lately_);
  }
  if (slot == none() && !(looked && leaves_out("look again where none seems free"))) {
    added_held_lately_ = held_now(layout_.regular, slots);
    writes_to_look_ = kWritesPerLook;
    slot = first_free(preferred, slots, held_now(0, layout_.regular) | added_held_lately_);
  }
  return slot;
}

std::uint32_t SlotWriter::first_free(const Preferred* preferred, std::uint32_t slots,
                                     std::uint64_t passed_over) {
  if (const wire::Publication stands = current(); stands.version != 0) {
    passed_over |= std::uint64_t{1} << stands.slot;
  }
  const auto may_take = [&](std::uint32_t s) {
    return (passed_over >> s & 1) == 0 && try_slot(s, preferred);
  };
  std::uint32_t slot = wire::unpack_publication(row_.publication.load()).slot;
  for (std::uint32_t i = 0; i < layout_.regular; ++i) {
    slot = slot + 1 < layout_.regular ? slot + 1 : 0;
    if (may_take(slot)) return slot;
  }
  for (slot = layout_.regular; slot < slots; ++slot) {
    slot += static_cast<std::uint32_t>(std::countr_one(passed_over >> slot));
    if (slot < slots && try_slot(slot, preferred)) return slot;
  }
  return none();
}

// A bit for each slot in [from, to). Rows that cannot be looked at count in held().
std::uint64_t SlotWriter::held_now(std::uint32_t from, std::uint32_t to) {
  std::uint64_t held = 0;
  if (leaves_out("look at the holds")) return held;
  for_each_subscriber([&](RowRef /*at*/, const ReaderRow* reader) {
    for (std::uint32_t s = from; reader != nullptr && s < to; ++s) {
      held |= std::uint64_t{reader->holds()[s].load() != 0} << s;
    }
    return true;
  });
  return held;
}

// To be asked with the slot marked: either the daemon sees the mark, or we see that the slot is
// about to go, or has gone.
bool SlotWriter::exists(std::uint32_t slot) const {
  return slot < layout_.regular || slot < wire::open_slots_of(board_.slots.load(), layout_) ||
         leaves_out("look whether the slot exists");
}

// First the mark, then the scan, and the list of subscribers again each time. Only a mark that was
// never handed out is taken back; with slots=1 it stays, so that no new reader comes in.
bool SlotWriter::try_slot(std::uint32_t slot, const Preferred* preferred) {
  Word& word = row_.slot_words()[slot];
  const std::uint64_t old = word.load();
  if (!leaves_out("mark the slot")) word.store(old | wire::kWriting);
  crash_point("write.marked");
  if (exists(slot) && (leaves_out("look at the holds") || !held(slot)) &&
      (preferred == nullptr || (*preferred)(slot)))
    return true;
  crash_point("write.held");
  if (layout_.most > 1 && !leaves_out("take the mark back")) word.store(old, kInOrder);
  return false;
}

bool SlotWriter::held(std::uint32_t slot) {
  bool found = false;
  for_each_subscriber([&](RowRef /*at*/, const ReaderRow* reader) {
    // A row that cannot be looked at counts as holding everything.
    unmapped_ = unmapped_ || reader == nullptr;
    found = reader == nullptr ? !leaves_out("count a row that cannot be seen")
                              : reader->holds()[slot].load() != 0;
    return !found;
  });
  return found;
}

template <typename Fn>
void SlotWriter::for_each_subscriber(Fn fn) {
  const wire::SubscriberChunk* chunk = &board_.subscribers;
  // Of the first chunk, which is full before there is another.
  std::size_t used = board_.used_entries.load();
  const bool goes_on = used >= wire::SubscriberChunk::kEntries;
  if (goes_on) used = wire::SubscriberChunk::kEntries;
  for (std::size_t chunks = 0; chunk != nullptr; ++chunks) {
    for (std::size_t i = 0; i < used; ++i) {
      const Word& entry = chunk->entries[i];
      const std::uint64_t word = entry.load();
      if (word == 0) continue;
      const ReaderRow* reader =
          rows_.reader_row(word, chunks * wire::SubscriberChunk::kEntries + i);
      // Gone from the board meanwhile?
      if (reader == nullptr && entry.load() != word) continue;
      if (!fn(wire::subscriber_row_of(word), reader)) return;
    }
    if (!goes_on) return;
    const std::uint64_t next = chunk->next.load();
    if (next == 0) return;
    chunk = rows_.subscriber_chunk(next, chunks);
    if (chunk == nullptr && !leaves_out("count a chunk that cannot be seen")) {
      fn(RowRef{}, nullptr);
    }
  }
}

// After the scan that found no hold: a fence is stored before its hold goes. Who has subscribed
// since has never held the slot.
void SlotWriter::for_each_read_fence(std::uint32_t slot, OnRead fn) {
  for_each_subscriber([&](RowRef at, const ReaderRow* reader) {
    const std::uint64_t count =
        reader == nullptr ? 0 : reader->read_fences(layout_.most)[slot].load();
    if (count != 0) fn(at, count);
    return true;
  });
}

// From here on the slot's bytes are the writer's. The number counts as used, come what may.
void SlotWriter::hand_out(std::uint32_t slot, std::uint64_t version) {
  if (!leaves_out("use up the number") && version > row_.highest_used.load()) {
    row_.highest_used.store(version, kInOrder);
  }
  crash_point("write.numbered");
  Word& word = row_.slot_words()[slot];
  if (!leaves_out("hand the slot out")) word.store(word.load() | wire::kHandedOut, kInOrder);
  // Before the first byte changes. That matters if this process dies in between, and then what
  // counts is the order of the instructions: only the compiler must be kept from changing it.
  // Readers let go because of the mark.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  crash_point("write.handed_out");
}

std::uint64_t SlotWriter::next_version() const {
  // Within a tenure no slot's version is above these.
  return std::max(row_.highest_used.load(),
                  wire::unpack_publication(row_.publication.load()).version) +
         1;
}

// What to sleep on for a slot: the board's events, and everybody's release count. Also of those who
// hold nothing now: one may take a slot before the next scan, which then fails because of it; who
// subscribes after the events were counted counts one more. But they come last, and where there are
// more words than one can sleep on, the sleep is short.
SlotWriter::SleepWords SlotWriter::sleep_words() {
  SleepWords sleep;
  sleep.words.push_back({&board_.event_count, board_.event_count.load()});
  std::vector<wire::FutexWait> of_others;
  for_each_subscriber([&](RowRef /*at*/, const ReaderRow* reader) {
    if (reader == nullptr) {
      sleep.longest = kUnmappedInterval;
      return true;
    }
    const wire::FutexWait count{&reader->release_count, reader->release_count.load()};
    const bool holds = std::any_of(reader->holds(), reader->holds() + layout_.most,
                                   [](const wire::HalfWord& hold) { return hold.load() != 0; });
    (holds ? sleep.words : of_others).push_back(count);
    return true;
  });
  crash_point("write.listed");
  if (leaves_out("event count before the list")) {
    sleep.words[0].expected = board_.event_count.load();
  }
  sleep.words.insert(sleep.words.end(), of_others.begin(), of_others.end());
  if (sleep.words.size() > wire::kMaxFutexWaits) {
    sleep.words.resize(wire::kMaxFutexWaits);
    sleep.longest = kPollInterval;
  }
  return sleep;
}

// ---- End.

void SlotWriter::publish(std::uint32_t slot, std::uint64_t version) {
  if (!leaves_out("order streaming stores")) order_streaming_stores();
  // Slot word, publication, count: in this order.
  crash_point("publish.begin");
  row_.slot_words()[slot].store(version, kInOrder);
  crash_point("publish.slot");
  row_.publication.store(wire::pack({version, slot}), kInOrder);
  crash_point("publish.publication");
  row_.publisher_cpu.store(static_cast<std::uint32_t>(sched_getcpu()) + 1,
                           std::memory_order_relaxed);
  end_write();
}

void SlotWriter::drop(std::uint32_t slot) {
  crash_point("drop.begin");
  row_.slot_words()[slot].store(0, kInOrder);
  crash_point("drop.slot");
  end_write();
}

// At the deadline with slots=1, unprepared, or without a number: the bytes are untouched, the old
// version stands again.
void SlotWriter::take_back(std::uint32_t slot) {
  Word& word = row_.slot_words()[slot];
  crash_point("take_back.begin");
  if (!leaves_out("take the mark back")) word.store(wire::version_of(word.load()));
  crash_point("take_back.done");
}

// Everybody who waits for this row (readers for a version, the next writer for ownership) looks
// again. A reader whose row is not mapped here is taken to sleep.
void SlotWriter::end_write() {
  row_.writing.store(0, kInOrder);
  crash_point("end_write.unflagged");
  if (!leaves_out("count the end of a write")) row_.publish_count.fetch_add(1);
  crash_point("end_write.counted");
  bool wake = (board_.writer.load() & wire::kWriterMoving) != 0 && !leaves_out("wake who asks");
  if (!wake) {
    for_each_subscriber([&](RowRef /*at*/, const ReaderRow* reader) {
      wake = reader == nullptr || reader->sleeping.load() != 0;
      return !wake;
    });
  }
  if (wake) {
    crash_point("end_write.waking");
    wire::wake_all(row_.publish_count);
  }
}

}  // namespace memlease::internal
