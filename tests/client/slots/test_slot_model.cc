// Random sequences of everything that readers, writers and the daemon do, one step at a time,
// against a reference that says in plain terms what must come out.
#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck.h"
#include "rapidcheck/gtest.h"
#include "tests/client/slots/slot_world.h"

namespace memlease::testing {
namespace {

using internal::ReadAttempt;
using internal::WriteAttempt;
using Read = internal::ReadOutcome;
using Write = internal::WriteOutcome;

constexpr std::uint32_t kReaders = 2;

class SlotModel {
 public:
  explicit SlotModel(std::uint32_t slots) : slots_(slots), world_(slots, kReaders) {}

  void step(unsigned action, std::uint32_t number) {
    switch (action % 8) {
      case 0:
        acquire(number % kReaders, 0);
        break;
      case 1:
        acquire(number % kReaders, 1 + number % (highest_ + 2));
        break;
      case 2:
        release(number);
        break;
      case 3:
      case 4:
        write_ ? publish() : begin();
        break;
      case 5:
        write_ ? drop() : begin();
        break;
      case 6:
        if (!write_) move();
        break;
      default:
        if (number % 4 == 0) die();
    }
    for (const auto& [reader, held] : holds_) {
      RC_ASSERT(world_.payload(held.slot).front() == held.version);
    }
  }

 private:
  // What a reader must be told.
  Read expected(std::uint64_t version) const {
    const bool poisoned = std::any_of(poisoned_.begin(), poisoned_.end(),
                                      [&](const auto& p) { return p.second == version; });
    if (version != 0) {
      if (slot_of(version)) return Read::kAcquired;
      if (poisoned) return Read::kProducerDied;
      // While somebody writes, a number that was taken may still come.
      const bool may_come = version > highest_ || (write_ && version > named_);
      return may_come ? Read::kNotYet : Read::kGone;
    }
    if (last_published_ != 0 && slot_of(last_published_)) return Read::kAcquired;
    if (slots_ > 1 || write_ || highest_ == 0) return Read::kNotYet;
    const auto last = poisoned_.find(0);
    return last != poisoned_.end() && last->second == highest_ ? Read::kProducerDied
                                                               : Read::kWriteAborted;
  }

  std::optional<std::uint32_t> slot_of(std::uint64_t version) const {
    for (const auto& [slot, stands] : standing_) {
      if (stands == version) return slot;
    }
    return std::nullopt;
  }
  bool held(std::uint32_t slot) const {
    return std::any_of(holds_.begin(), holds_.end(),
                       [&](const auto& h) { return h.second.slot == slot; });
  }

  void acquire(std::uint32_t reader, std::uint64_t version) {
    const ReadAttempt attempt = world_.reader(reader).acquire(version, 0);
    RC_ASSERT(attempt.outcome == expected(version));
    if (attempt.outcome != Read::kAcquired) return;
    RC_ASSERT(attempt.version == (version == 0 ? last_published_ : version));
    RC_ASSERT(slot_of(attempt.version) == attempt.slot);
    holds_.emplace_back(reader, attempt);
  }
  void release(std::uint32_t which) {
    if (holds_.empty()) return;
    const auto at = holds_.begin() + which % static_cast<std::ptrdiff_t>(holds_.size());
    world_.reader(at->first).release(at->second.slot);
    holds_.erase(at);
  }

  void begin() {
    bool free = false;
    for (std::uint32_t s = 0; s < slots_; ++s) {
      const auto stands = standing_.find(s);
      const bool current = stands != standing_.end() && stands->second == last_published_;
      free = free || (!held(s) && (slots_ == 1 || !current));
    }
    const WriteAttempt attempt = world_.begin(writer_);
    RC_ASSERT(attempt.outcome == (free ? Write::kReady : Write::kNoFreeSlot));
    if (!free) return;
    RC_ASSERT(attempt.version == highest_ + 1);
    RC_ASSERT(!held(attempt.slot));
    RC_ASSERT(world_.writer(writer_).current().version ==
              (slot_of(last_published_) ? last_published_ : 0));
    highest_ = attempt.version;
    standing_.erase(attempt.slot);
    world_.payload(attempt.slot).front() = attempt.version;
    write_ = attempt;
  }
  void publish() {
    world_.writer(writer_).publish(write_->slot, write_->version);
    standing_[write_->slot] = last_published_ = named_ = write_->version;
    write_.reset();
  }
  void drop() {
    world_.writer(writer_).drop(write_->slot);
    write_.reset();
  }

  void move() {
    server::set_moving(world_.board());
    RC_ASSERT(world_.begin(writer_).outcome == Write::kNotMine);
    hand_over(world_.writer_row(writer_));
  }
  // In the middle of a write or not. The takeover row counts until the other writer takes it.
  void die() {
    world_.die(writer_);
    if (write_) poisoned_[write_->slot] = write_->version;
    write_.reset();
    last_published_ = 0;
    for (const auto& [slot, version] : standing_) {
      last_published_ = std::max(last_published_, version);
    }
    if (slots_ > 1) named_ = last_published_;
    // The dead one's row may hold anything; a process that comes after it has a row of its own.
    world_.writer_row(writer_).writing.store(0);
    hand_over(world_.writer_row(SlotWorld::kTakeover));
  }
  void hand_over(const wire::WriterRow& from) {
    const std::uint32_t next = 1 - writer_;
    world_.writer(next).adopt(from);
    world_.give_right_to(next);
    RC_ASSERT(world_.begin(writer_).outcome == Write::kNotMine);
    writer_ = next;
  }

  const std::uint32_t slots_;
  SlotWorld world_;
  std::uint32_t writer_ = 0;
  std::uint64_t highest_ = 0;
  std::uint64_t last_published_ = 0;  // 0 also after a death that left nothing
  std::uint64_t named_ = 0;  // likewise, but that an only slot's last version is named still
  std::optional<WriteAttempt> write_;
  std::map<std::uint32_t, std::uint64_t> standing_;           // slot -> version
  std::map<std::uint32_t, std::uint64_t> poisoned_;           // slot -> version
  std::vector<std::pair<std::uint32_t, ReadAttempt>> holds_;  // reader, what it holds
};

RC_GTEST_PROP(SlotModel, AnySequenceOfStepsGivesWhatTheReferenceSays, ()) {
  SlotModel model(*rc::gen::element(1U, 2U, 3U, 5U, 64U));
  const auto steps = *rc::gen::container<std::vector<std::pair<unsigned, std::uint32_t>>>(
      300, rc::gen::pair(rc::gen::inRange(0U, 8U), rc::gen::inRange<std::uint32_t>(0, 1000)));
  for (const auto& [action, number] : steps) model.step(action, number);
}

}  // namespace
}  // namespace memlease::testing
