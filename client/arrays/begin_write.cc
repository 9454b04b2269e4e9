#include "client/arrays/begin_write.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "client/arrays/acquire_ownership.h"
#include "client/arrays/counted_wait.h"
#include "client/arrays/not_now.h"
#include "client/arrays/share.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "wire/error.h"
#include "wire/hooks/test_hooks.h"
#include "wire/process_name.h"

namespace memlease::internal {
namespace {

using wire::ErrorCode;
using wire::make_error;

// "pid 4242 (plot.py) reads version 7": whom the writer waits for. `itself`: this process is one.
std::string holders_text(OpenArray& array, WaitLimit& wait_limit, bool& itself) {
  auto holders = array.session().control().holders(array.facts().id,
                                                   [&] { return wait_limit.check_interrupt(); });
  if (!holders.ok()) {
    return fmt::format("by whom is not known, as {}", wire::message_of(holders.status()));
  }
  std::vector<std::string> parts;
  for (const Holder& holder : *holders) {
    if (holder.versions.empty()) continue;
    const bool ours = holder.session == to_int(array.session().id());
    itself = itself || ours;
    const std::string who = ours ? "this process itself (leases or views that are alive)"
                                 : wire::process_name(holder.pid, holder.session, holder.command);
    parts.push_back(fmt::format("{} reads version {}", who, fmt::join(holder.versions, ", ")));
  }
  return parts.empty() ? "holders that have just let go"
                       : fmt::format("{}", fmt::join(parts, "; "));
}

// `refused`: why the array has not been given one more.
absl::Status no_free_slot(OpenArray& array, WaitLimit& wait_limit, const absl::Status& refused) {
  const std::uint32_t slots = wire::slots_of(array.board().slots.load(), array.layout());
  // A daemon that did not answer just now is not asked for the holders.
  const bool silent = wire::code_of(refused) == ErrorCode::kTimeout && !refused.ok();
  bool itself = false;
  std::string text =
      fmt::format("all slots of '{}' that could be written are held ({} slots, waited {}): {}",
                  array.name(), slots, wait_limit.limit_text(),
                  silent ? "by whom is not known, as the daemon does not answer"
                         : holders_text(array, wait_limit, itself));
  const std::string own = itself ? "Release this process's leases and delete its views (in Python: "
                                   "memlease.release_views(array)). For others: "
                                 : "";
  if (array.layout().grows()) {
    text += "; it got no further slot: ";
    text += refused.ok() ? fmt::format("it may have {}", array.kind().max_slots)
                         : wire::message_of(refused);
  }
  if (wire::code_of(refused) == ErrorCode::kQuotaExceeded && !refused.ok()) {
    return make_error(ErrorCode::kNoFreeSlot, text,
                      own +
                          "Wait longer, end these readers, or make room in the quota: memleasectl "
                          "status shows what each uid uses, memleasectl ls by which arrays.");
  }
  return make_error(ErrorCode::kNoFreeSlot, text,
                    own +
                        "Wait longer, end these readers, or create the array with more slots (the "
                        "number of slow readers + 2) or a larger max_slots.");
}

absl::Status numbers_used_up(const OpenArray& array) {
  return make_error(
      ErrorCode::kUnsupported,
      fmt::format("the version numbers of '{}' are used up: the last one is {}, and a process that "
                  "may write it has said that it was used",
                  array.name(), wire::kLastVersion),
      "Withdraw the array and create it again.");
}

void count_without_slot(const OpenArray& array) {
  if (wire::SessionCounts* const counts = array.counts()) {
    counts->writes_without_slot.fetch_add(1, std::memory_order_relaxed);
  }
}

// Nobody else would let it go.
bool holds_only_slot(OpenArray& array) {
  const SlotReader* reader = array.reader_if_subscribed();
  return array.slots() == 1 && reader != nullptr && reader->holds(0) != 0;
}

absl::Status refuse_own_read(const OpenArray& array) {
  return make_error(ErrorCode::kBusy,
                    fmt::format("this process itself holds the only slot of '{}'", array.name()),
                    "Release its leases and delete its views first, or use slots=2 or more.");
}

// One attempt's wait for a free slot. After a wait to the deadline it is tried once more; after an
// interrupt it is not, as a slot that was taken then would have no lease.
class WriteWait final : public SlotWait {
 public:
  WriteWait(OpenArray& array, WaitLimit& wait_limit, CountedWait& counted, IfNoSlot if_none)
      : array_(array), wait_limit_(wait_limit), counted_(counted), if_none_(if_none) {}
  // What has ended the wait before its deadline, or kept the slot from being used.
  const absl::Status& stopped() const { return stopped_; }
  // Why the array has not been given one more slot.
  const absl::Status& refused() const { return refused_; }

  bool map_rows() override {
    const auto mapped = array_.map_reader_rows([&] { return wait_limit_.check_call(); });
    if (!mapped.ok() && wait_limit_.ends_with(mapped.status())) stopped_ = mapped.status();
    return mapped.ok() && *mapped;
  }

  // On a device: are the reads that the slot's earlier readers left over? What keeps that from
  // being known, and does not end the wait, is prepare()'s to tell.
  bool reads_over(SlotWriter& writer, std::uint32_t slot) {
    if (!stopped_.ok()) return false;
    const auto over = array_.gpu()->order()->writer().reads_complete(
        writer, slot, [&] { return wait_limit_.check_call(); });
    if (over.ok()) return *over;
    if (wait_limit_.ends_with(over.status())) stopped_ = over.status();
    return stopped_.ok();
  }

  // For one who skips a version the question costs more than the version may be worth.
  Grown grow(std::uint32_t slots) override {
    if (!stopped_.ok()) return Grown::kStop;
    if (if_none_ == IfNoSlot::kReturn) return Grown::kRefused;
    if (if_none_ == IfNoSlot::kExplain) return ask_for_slot(slots);
    const auto begin = Clock::now();
    if (begin < array_.writing().next_growth()) return Grown::kRefused;
    const Grown grown = ask_for_slot(slots);
    const auto end = Clock::now();
    const auto pause = std::max<Clock::duration>(kAskedAgain, 10 * (end - begin));
    if (!refused_.ok()) array_.writing().set_next_growth(end + pause);
    return grown;
  }

  bool sleep_on(const std::vector<wire::FutexWait>& counts,
                std::chrono::nanoseconds longest) override {
    if (!stopped_.ok() || wait_limit_.expired()) return false;
    const bool by_itself = array_.holds_back_slots();
    counted_.sleeps();
    wait_limit_.sleep(counts, longest);
    // A loop that rebinds a name may keep a write waiting for a moment: that is no news.
    if (by_itself && wait_limit_.is_long()) array_.view_warning().note_starved();
    stopped_ = wait_limit_.step();
    // Not at once: another thread may be about to let it go.
    if (stopped_.ok() && wait_limit_.is_long() && holds_only_slot(array_)) {
      stopped_ = refuse_own_read(array_);
    }
    return stopped_.ok();
  }

  // An added slot may lie where this process has nothing mapped. On a device the write comes behind
  // the current version, and that may stand in one, and behind the slot's earlier readers.
  bool prepare(std::uint32_t slot) override {
    if (!stopped_.ok()) return false;
    const auto check = [&] { return wait_limit_.check_call(); };
    SlotWriter& writer = *array_.writing().slot_writer();
    stopped_ = array_.map_slot_to_write(slot, check);
    if (stopped_.ok() && array_.gpu() != nullptr) {
      const wire::Publication current = writer.current();
      if (current.version != 0) stopped_ = array_.map_slot_to_write(current.slot, check);
      if (stopped_.ok()) stopped_ = array_.gpu()->order()->writer().collect(writer, slot, check);
    }
    return stopped_.ok();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kAskedAgain{100};

  // A daemon that does not answer keeps the writer until its deadline, or for a moment if it does
  // not want to wait at all; the slot may be there the next time.
  Grown ask_for_slot(std::uint32_t slots) {
    constexpr std::chrono::milliseconds kShortest{100};
    constexpr std::chrono::milliseconds kLongest{30'000};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(wait_limit_.left());
    const auto check = [&] { return stopped_ = wait_limit_.check_interrupt(); };
    refused_ = array_.session().control().add_slot(array_.facts().id, slots,
                                                   std::clamp(left, kShortest, kLongest), check);
    if (!stopped_.ok()) return Grown::kStop;
    return refused_.ok() ? Grown::kAdded : Grown::kRefused;
  }

  OpenArray& array_;
  WaitLimit& wait_limit_;
  CountedWait& counted_;
  const IfNoSlot if_none_;
  absl::Status stopped_;
  absl::Status refused_;
};

// On a device a slot whose last reads are over is better than one that a stream would have to wait
// for: a reader may be slow, or never end.
WriteAttempt begin_slot(OpenArray& array, SlotWriter& writer, WriteWait& wait,
                        const WriteNumber& number) {
  if (array.gpu() == nullptr) return writer.begin(wait, nullptr, number);
  const auto reads_over = [&](std::uint32_t slot) { return wait.reads_over(writer, slot); };
  const SlotWriter::Preferred preferred(reads_over);
  return writer.begin(wait, &preferred, number);
}

// What keeps an array from being written, by the outcome of a try, and is not to be waited for.
absl::Status refusal(const OpenArray& array, WriteOutcome outcome) {
  if (outcome == WriteOutcome::kNumbersUsedUp) return numbers_used_up(array);
  return array.gone(outcome == WriteOutcome::kDraining);
}

// `to_copy`: who gets ownership for that is no writer, but who has it already stays what he is.
absl::Status become_owner(OpenArray& array, WaitLimit& wait_limit, CountedWait& counted,
                          bool to_copy) {
  const auto tenure = [&] { return array.board().writer.load() & ~wire::kWriterFlags; };
  const bool is_first = array.writing().slot_writer() == nullptr;
  const std::uint64_t before = tenure();
  auto status = acquire_ownership(array, wait_limit, counted);
  if (status.ok() && to_copy && (is_first || tenure() != before)) {
    array.writing().slot_writer()->note_copies_only();
  }
  return status;
}

absl::Status begin_entered(OpenArray& array, WaitLimit& wait_limit, WriteAttempt& attempt,
                           IfNoSlot if_none, const WriteNumber& number) {
  CountedWait counted(array, &wire::SessionCounts::slot_waits);
  // Whoever writes on a replica is its home's writer.
  const bool to_copy = number.copied != 0 || number.home != nullptr || number.none;
  for (;;) {
    if (!array.usable_at_once()) {
      if (auto status = array.usable(); !status.ok()) return status;
    }
    if (auto status = write_within_share(array); !status.ok()) return status;
    WriteWait wait(array, wait_limit, counted, if_none);
    attempt = {};
    if (SlotWriter* writer = array.writing().slot_writer()) {
      attempt = begin_slot(array, *writer, wait, number);
    }
    if (!wait.stopped().ok()) return wait.stopped();
    switch (attempt.outcome) {
      case WriteOutcome::kReady:
        return absl::OkStatus();
      case WriteOutcome::kNoFreeSlot:
        if (if_none == IfNoSlot::kReturn) return make_error(ErrorCode::kNoFreeSlot, "", "");
        if (array.holds_back_slots()) array.view_warning().note_starved();
        count_without_slot(array);
        if (if_none == IfNoSlot::kSkip) return make_error(ErrorCode::kNoFreeSlot, "", "");
        if (holds_only_slot(array)) return refuse_own_read(array);
        return no_free_slot(array, wait_limit, wait.refused());
      case WriteOutcome::kNumberUsed:
        return not_now("the number is used");
      case WriteOutcome::kNumbersUsedUp:
      case WriteOutcome::kWithdrawn:
      case WriteOutcome::kDraining:
        return refusal(array, attempt.outcome);
      case WriteOutcome::kNotMine:
        if (auto status = become_owner(array, wait_limit, counted, to_copy); !status.ok())
          return status;
    }
  }
}

// Nobody would end that write meanwhile.
absl::Status refuse_own_write(const OpenArray& array) {
  if (auto status = array.usable(); !status.ok()) return status;
  return make_error(
      ErrorCode::kBusy,
      fmt::format("this thread itself has begun a write of '{}' that has not ended", array.name()),
      "Publish or drop that lease first (in Python: leave its `with`); put() is a write, too.");
}

// At first without waiting, so that the clock is looked at only if there is something to wait for.
// Whoever waits already has a moment to be woken in.
absl::Status enter_writing(OpenArray& array, WaitLimit& wait_limit) {
  // The lock may be held by a thread that is not in this process.
  if (array.forked()) return array.usable();
  constexpr std::chrono::milliseconds kOthersTurn{1};
  Writing& writing = array.writing();
  if (writing.has_waiters() && !writing.entered() && !wait_limit.expired()) {
    const wire::FutexWait seen = writing.look();
    wait_limit.sleep({&seen, 1}, kOthersTurn);
  }
  if (writing.enter()) return absl::OkStatus();
  const WriteLock::Waiter waiter = writing.waiter();
  for (;;) {
    const wire::FutexWait seen = writing.look();
    if (writing.enter()) return absl::OkStatus();
    // Not at once: the lease may be on its way to another thread.
    const bool own = writing.entered_by_this_thread();
    if (own && wait_limit.is_long()) return refuse_own_write(array);
    if (auto status = wait_limit.step(); !status.ok()) return status;
    if (wait_limit.expired()) {
      return make_error(
          ErrorCode::kTimeout,
          fmt::format("another write of '{}' is under way in this process, or a copy to it, and if "
                      "that has ended the next one, for all of {}",
                      array.name(), wait_limit.limit_text()),
          "Publish or drop the other lease first, if it is one: one write at a time.");
    }
    wait_limit.sleep({&seen, 1}, own ? kInterruptInterval : std::chrono::nanoseconds::max());
  }
}

void leave_unwritten(OpenArray& array) {
  array.writing().leave();
  array.leave_if_due();  // it was closed meanwhile, and its close() has left that to us
}

// The rest of begin_write(), for whoever has entered.
absl::Status begin_or_leave(OpenArray& array, WaitLimit& wait_limit, WriteAttempt& attempt,
                            IfNoSlot if_none, const WriteNumber& number) {
  absl::Cleanup leave = [&] { leave_unwritten(array); };
  // First what this process itself still keeps: it may be the only slot.
  auto status = array.gpu() == nullptr ? absl::OkStatus() : array.release_deferred();
  if (status.ok()) status = begin_entered(array, wait_limit, attempt, if_none, number);
  if (status.ok()) std::move(leave).Cancel();
  return status;
}

}  // namespace

absl::Status begin_write(OpenArray& array, WaitLimit& wait_limit, WriteAttempt& attempt,
                         IfNoSlot if_none, const WriteNumber& number) {
  if (auto status = enter_writing(array, wait_limit); !status.ok()) return status;
  return begin_or_leave(array, wait_limit, attempt, if_none, number);
}

absl::Status wait_for_free_slot(OpenArray& array, WaitLimit& wait_limit, IfNoSlot if_none) {
  WriteAttempt none;
  auto status = begin_write(array, wait_limit, none, if_none, {.none = true});
  if (status.ok()) leave_unwritten(array);
  return status;
}

absl::Status HeldOwnership::acquire(WaitLimit& wait_limit) {
  release();
  if (auto status = enter_writing(array_, wait_limit); !status.ok()) return status;
  held_ = true;
  absl::Cleanup leave = [&] { release(); };
  if (auto status = array_.usable(); !status.ok()) return status;
  CountedWait counted(array_, &wire::SessionCounts::slot_waits);
  if (auto status = become_owner(array_, wait_limit, counted, true); !status.ok()) return status;
  std::move(leave).Cancel();
  return absl::OkStatus();
}

absl::Status HeldOwnership::begin(WaitLimit& wait_limit, WriteAttempt& attempt, IfNoSlot if_none,
                                  const WriteNumber& number) {
  const bool held = std::exchange(held_, false);
  return held ? begin_or_leave(array_, wait_limit, attempt, if_none, number)
              : begin_write(array_, wait_limit, attempt, if_none, number);
}

void HeldOwnership::release() {
  if (std::exchange(held_, false)) leave_unwritten(array_);
}

absl::Status claim_number(OpenArray& home, WaitLimit& wait_limit, bool to_copy) {
  if (auto status = enter_writing(home, wait_limit); !status.ok()) return status;
  absl::Cleanup leave = [&] { leave_unwritten(home); };
  CountedWait counted(home, &wire::SessionCounts::slot_waits);
  for (;;) {
    if (auto status = home.usable(); !status.ok()) return status;
    WriteOutcome outcome = WriteOutcome::kNotMine;
    if (SlotWriter* writer = home.writing().slot_writer()) outcome = writer->claim_number();
    if (outcome == WriteOutcome::kReady) {
      std::move(leave).Cancel();
      return absl::OkStatus();
    }
    if (outcome != WriteOutcome::kNotMine) return refusal(home, outcome);
    auto status = become_owner(home, wait_limit, counted, to_copy);
    if (!status.ok()) return status;
  }
}

absl::Status copy_current(OpenArray& array, WaitLimit& wait_limit, const WriteAttempt& attempt) {
  auto status = copy_current_to(array, attempt.slot, [&] { return wait_limit.check_call(); });
  if (!status.ok()) array.end_write(attempt.slot, attempt.version, false);
  return status;
}

absl::Status copy_current_to(OpenArray& array, std::uint32_t slot, InterruptCheck interrupt) {
  const wire::Publication current = array.writing().slot_writer()->current();
  if (current.version == 0) {
    return make_error(array.slots() == 1 ? ErrorCode::kWriteAborted : ErrorCode::kInvalidArgument,
                      fmt::format("'{}' has no version that could be updated", array.name()),
                      "Publish one first: put() all elements, or write() the whole array.");
  }
  // A device copies out of an added slot as a reader does.
  if (array.gpu() != nullptr && array.is_added(current.slot)) {
    if (auto status = array.reader(interrupt).status(); !status.ok()) return status;
  }
  // Nobody but this process could begin to overwrite the current version, so it stays mapped.
  if (auto status = array.map_slot(current.slot, interrupt); !status.ok()) return status;
  // A device copies on the lease's stream.
  if (slot != current.slot && array.gpu() == nullptr) {
    std::memcpy(array.write_data(slot), array.read_data(current.slot), array.facts().slot_bytes);
    crash_point("update.copied");
    array.session().count_copy();
  }
  return absl::OkStatus();
}

}  // namespace memlease::internal
