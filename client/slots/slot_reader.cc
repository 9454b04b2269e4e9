#include "client/slots/slot_reader.h"

#include <algorithm>

#include "wire/crowd.h"
#include "wire/hooks/test_hooks.h"

namespace memlease::internal {

using wire::Word;
using wire::WriterRow;

namespace {
// A try fails when something has changed meanwhile, so a few are enough; a writer that has stopped
// in the middle, or lies, must not keep a reader from its deadline.
constexpr int kMostTries = 1000;
// A loop that binds each version to the same name holds two for a moment.
constexpr std::uint32_t kAlwaysHeld = 2;
}  // namespace

SlotReader::SlotReader(const wire::BoardRecord& board, wire::ArrayId array, wire::SlotLayout layout,
                       wire::ReaderRow& row, KnownRows& rows)
    : board_(board), array_(array), layout_(layout), row_(row), rows_(rows) {}

// To be asked with the slot's hold announced. An added slot may be taken away: either the daemon
// sees the hold, or we see that the slot is about to go, or has gone.
inline bool SlotReader::exists(std::uint32_t slot) const {
  return slot < layout_.regular || slot < wire::open_slots_of(board_.slots.load(), layout_) ||
         leaves_out("look whether the slot exists");
}

// Where the wanted version stands, by the writer's words; kAcquired means "worth a try".
inline ReadAttempt SlotReader::newest(const WriterRow& writer, std::uint64_t newer_than) const {
  const wire::Publication current = wire::unpack_publication(writer.publication.load());
  if (current.version <= newer_than) return no_version(writer, newer_than);
  if (current.slot >= layout_.most) return {ReadOutcome::kNotYet};
  return {ReadOutcome::kAcquired, current.slot, current.version};
}

ReadAttempt SlotReader::numbered(const WriterRow& writer, std::uint64_t version) const {
  if (version > wire::unpack_publication(writer.publication.load()).version) {
    if (poisoned(version)) return {ReadOutcome::kProducerDied, 0, version};
    return {given_up(writer, version) ? ReadOutcome::kGone : ReadOutcome::kNotYet};
  }
  // Also what is about to go: that may be taken back.
  const std::uint32_t slots = leaves_out("look at a slot that closes")
                                  ? wire::open_slots_of(board_.slots.load(), layout_)
                                  : slots_of_array();
  for (std::uint32_t s = 0; s < slots; ++s) {
    const std::uint64_t word = writer.slot_words()[s].load();
    if (wire::version_of(word) != version) continue;
    if ((word & wire::kHandedOut) != 0) return {ReadOutcome::kGone};
    if (leaves_out("wait for a mark") && word != version) return {ReadOutcome::kGone};
    return {ReadOutcome::kAcquired, s, version};  // a mere mark may be taken back
  }
  return {poisoned(version) ? ReadOutcome::kProducerDied : ReadOutcome::kGone, 0, version};
}

ReadAttempt SlotReader::acquire(std::uint64_t version, std::uint64_t newer_than) {
  for (int tries = 0; tries < kMostTries; ++tries) {
    const std::uint64_t writer_word = board_.writer.load();
    if (board_.array_id.load() != to_int(array_)) return {ReadOutcome::kWithdrawn};
    if ((writer_word & wire::kWriterWithdrawn) != 0) return {ReadOutcome::kWithdrawn};
    if ((writer_word & wire::kWriterDraining) != 0) return {ReadOutcome::kDraining};
    const WriterRow* writer = rows_.writer_row(wire::writer_row_of(writer_word));
    if (writer == nullptr) {
      if (board_.writer.load() == writer_word) return {ReadOutcome::kUnmapped, 0, writer_word};
      continue;
    }
    crash_point("acquire.named");
    const ReadAttempt found =
        version == 0 ? newest(*writer, newer_than) : numbered(*writer, version);
    if (found.outcome != ReadOutcome::kAcquired) {
      if (board_.writer.load() == writer_word || leaves_out("look whose row it was")) return found;
      continue;
    }
    crash_point("acquire.located");
    // Announce the hold, then look whether the version still stands and ownership has not moved:
    // either the writer sees the hold in its scan, or we see its mark.
    std::uint32_t holds_before = 1;
    if (!leaves_out("announce the hold")) holds_before = row_.holds()[found.slot].fetch_add(1);
    crash_point("acquire.held");
    // Whether the slot exists comes before what stands there: an added slot has no version until it
    // is written, so one that is another slot by now has none.
    bool exists = this->exists(found.slot);
    crash_point("acquire.exists");
    const std::uint64_t slot_word = writer->slot_words()[found.slot].load();
    crash_point("acquire.compared");
    if (leaves_out("existence before the word")) exists = this->exists(found.slot);
    if (exists && (slot_word == found.version || leaves_out("check the slot word")) &&
        (board_.writer.load() == writer_word || leaves_out("check the writer word")) &&
        (board_.array_id.load() == to_int(array_) || leaves_out("look whose board it is"))) {
      crash_point("acquire.checked");
      if (holds_before != 0 || !holds_too_many()) return found;
      release(found.slot);
      return {ReadOutcome::kTooManyHeld, 0, found.version};
    }
    crash_point("acquire.undo");
    release(found.slot);
    if (layout_.most == 1 && board_.writer.load() == writer_word) {
      // The only slot is being written, or the write was given up: not worth a spin.
      if ((slot_word & wire::kWriting) != 0) return {ReadOutcome::kNotYet};
      if (slot_word == 0) return no_version(*writer, newer_than);
    }
  }
  return {ReadOutcome::kNotYet};
}

std::uint32_t SlotReader::most_held() const {
  if (!layout_.grows()) return layout_.most;
  // A third: whoever comes later lowers the share, but what was taken under a larger one stays.
  const std::uint32_t subscribed = std::max<std::uint32_t>(board_.subscribed.load(), 1);
  return std::max<std::uint32_t>((layout_.max_slots - 2) / (3 * subscribed), kAlwaysHeld);
}

// Most arrays have three slots as long as nobody is slow: their reads and writes look no further.
inline bool SlotReader::may_exceed_share() const {
  return board_.slots.load(std::memory_order_relaxed) > kAlwaysHeld + 1 && layout_.grows();
}

std::uint32_t SlotReader::held() const {
  std::uint32_t held = 0;
  const std::uint32_t slots = slots_of_array();
  for (std::uint32_t s = 0; s < slots; ++s) held += row_.holds()[s].load() != 0 ? 1 : 0;
  return held;
}

inline void SlotReader::note_share(std::uint32_t most) {
  std::uint32_t known = most_kept();
  while (most > known && !most_kept_.compare_exchange_weak(known, most)) continue;
}

inline bool SlotReader::holds_too_many() {
  if (!may_exceed_share()) return false;
  const std::uint32_t held = this->held();
  if (held <= kAlwaysHeld) return false;
  const std::uint32_t most = most_held();
  note_share(most);
  return held > most;
}

bool SlotReader::views_exceed_share() {
  if (!held_again_.load(std::memory_order_relaxed) || !may_exceed_share()) return false;
  // Before the look: what is held again meanwhile is looked at the next time.
  held_again_.store(false);
  const std::uint32_t held = this->held();
  note_share(most_held());
  if (held <= most_kept()) return false;
  held_again_.store(true);
  return true;
}

// A number that was begun and is not under way any more: it will never be published. Whoever writes
// marks a slot before he takes a number, and the mark becomes the version or goes.
bool SlotReader::given_up(const WriterRow& writer, std::uint64_t version) const {
  if (version > writer.highest_used.load()) return false;
  // A number for a write on a replica is flagged here, and marks no slot.
  if (board_.elsewhere.load() != 0 && writer.writing.load() != 0) return false;
  if (leaves_out("look for a write under way")) return true;
  // How many slots there are after the number: whoever has taken it may have got a new one for it.
  const Word* const words = writer.slot_words();
  return std::none_of(words, words + slots_of_array(), [&](const Word& word) {
    const std::uint64_t now = word.load();
    return (now & wire::kWriting) != 0 || wire::version_of(now) == version;
  });
}

// Why nothing above newer_than stands.
ReadAttempt SlotReader::no_version(const WriterRow& writer, std::uint64_t newer_than) const {
  if (layout_.most > 1) return {ReadOutcome::kNotYet};
  const std::uint64_t highest = wire::bounded_highest(writer.highest_used.load());
  const std::uint64_t word = writer.slot_words()[0].load();
  // Never written, known to the caller, or written just now.
  if (highest <= newer_than || word != 0) return {ReadOutcome::kNotYet};
  // Nor is a number that has been given for a write on a replica, which goes on.
  if (board_.elsewhere.load() != 0 && writer.writing.load() != 0) return {ReadOutcome::kNotYet};
  return {poisoned(highest) ? ReadOutcome::kProducerDied : ReadOutcome::kWriteAborted, 0, highest};
}

bool is_poisoned(const wire::BoardRecord& board, wire::SlotLayout layout, std::uint64_t version) {
  return std::any_of(board.poisoned(), board.poisoned() + layout.most,
                     [&](const Word& word) { return word.load() == version; });
}

bool SlotReader::poisoned(std::uint64_t version) const {
  return is_poisoned(board_, layout_, version);
}

// Whoever lets go of a slot, a failed try too, may be the one that the writer waits for; a writer
// whose row is not mapped here is taken to wait.
inline void SlotReader::wake_writer() {
  const std::uint64_t word = board_.writer.load();
  const WriterRow* writer = rows_.writer_row(wire::writer_row_of(word));
  if (writer != nullptr && writer->wanted.load() == 0) return;
  crash_point("release.wanted");
  row_.release_count.fetch_add(1);
  crash_point("release.counted");
  wire::wake_all(row_.release_count);
}

void SlotReader::release(std::uint32_t slot) {
  crash_point("release.begin");
  row_.holds()[slot].fetch_sub(1);
  crash_point("release.cleared");
  if (!leaves_out("wake the writer")) wake_writer();
}

bool SlotReader::holds_any() const {
  return std::any_of(row_.holds(), row_.holds() + layout_.most,
                     [](const wire::HalfWord& hold) { return hold.load() != 0; });
}

std::vector<std::uint64_t> SlotReader::held_versions() const {
  std::vector<std::uint64_t> held;
  const WriterRow* writer = rows_.writer_row(wire::writer_row_of(board_.writer.load()));
  for (std::uint32_t s = 0; s < layout_.most && writer != nullptr; ++s) {
    if (holds(s) != 0) held.push_back(wire::version_of(writer->slot_words()[s].load()));
  }
  std::sort(held.begin(), held.end());
  return held;
}

std::uint32_t SlotReader::likely_slot() const {
  const WriterRow* writer = rows_.writer_row(wire::writer_row_of(board_.writer.load()));
  if (writer == nullptr) return 0;
  const std::uint32_t slot = wire::unpack_publication(writer->publication.load()).slot;
  if (slot >= layout_.most) return 0;
  __builtin_prefetch(&writer->slot_words()[slot]);
  return slot;
}

SlotReader::Counts SlotReader::counts() const {
  Counts counts;
  // The board's count first: a writer that changes after this line changes it.
  counts.words[counts.used++] = {&board_.event_count, board_.event_count.load()};
  const WriterRow* writer = rows_.writer_row(wire::writer_row_of(board_.writer.load()));
  if (writer != nullptr) {
    counts.words[counts.used++] = {&writer->publish_count, writer->publish_count.load()};
    counts.publisher_cpu = writer->publisher_cpu.load(std::memory_order_relaxed);
  }
  crash_point("counts.writer");
  if (leaves_out("event count first")) counts.words[0].expected = board_.event_count.load();
  return counts;
}

}  // namespace memlease::internal
