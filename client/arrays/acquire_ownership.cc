#include "client/arrays/acquire_ownership.h"

#include <chrono>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "client/arrays/count_watch.h"
#include "client/ordering/backoff.h"
#include "fmt/format.h"
#include "wire/error.h"
#include "wire/futex.h"
#include "wire/hooks/test_hooks.h"

namespace memlease::internal {
namespace {

using wire::ErrorCode;
using wire::make_error;

// What to sleep on until ownership may be had: the board, and the present writer's row, if it is
// mapped.
struct OwnershipWords {
  explicit OwnershipWords(OpenArray& array) : board(&array.board()) {
    words.push_back({&board->event_count, board->event_count.load()});
    writer = array.writer_row(wire::writer_row_of(board->writer.load()));
    if (writer != nullptr) words.push_back({&writer->publish_count, writer->publish_count.load()});
  }
  // To be asked once the daemon has been: it is at work still, its end changes the words, and wakes
  // who sleeps on them. That it does where MOVING is set alone: not yet for who has asked before
  // this writer began.
  bool writer_is_at_work() const {
    return writer != nullptr && writer->writing.load() != 0 &&
           (board->writer.load() & wire::kWriterMoving) != 0 && are_as_expected(words);
  }

  const wire::BoardRecord* board;
  std::vector<wire::FutexWait> words;
  const wire::WriterRow* writer = nullptr;
};

// The writer's row; nullptr: it cannot be had just now, as its process has gone, and the daemon is
// about to name another one.
absl::StatusOr<const wire::WriterRow*> row_of_writer(OpenArray& array, wire::RowRef at,
                                                     WaitLimit& wait_limit) {
  auto mapped = array.map_writer_row(at, [&] { return wait_limit.check_call(); });
  if (!mapped.ok() && wait_limit.ends_with(mapped)) return mapped;
  return array.writer_row(at);
}

// The daemon is asked again once the writer has ended its write; or after a pause, as no word says
// when its work on a GPU is over, or an offer to somebody who does not take it, or when who has
// just got ownership has begun.
absl::Status sleep_until_due(const OwnershipWords& own, WaitLimit& wait_limit, Backoff& pauses) {
  if (!own.writer_is_at_work()) {
    wait_limit.sleep(own.words, pauses.next());
    return absl::OkStatus();
  }
  while (own.writer_is_at_work() && !wait_limit.expired()) {
    wait_limit.sleep(own.words);
    if (auto status = wait_limit.step(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// Who is the next but one looks whether the next one has been stopped; those behind may look later.
// Nobody's turn comes within one write: while a long one goes on they sleep until its end, too.
absl::Status sleep_until_its_turn(OpenArray& array, const OwnershipWords& own,
                                  const WriterAnswer& answer, WaitLimit& wait_limit) {
  constexpr std::chrono::seconds kFarBehind{1};
  const std::chrono::nanoseconds longest =
      answer.ahead == 1 ? std::chrono::nanoseconds(kInterruptInterval) : kFarBehind;
  CountWatch& turns = array.writing().turn_watch();
  for (;;) {
    auto status = turns.await_change(array.session(), answer.turn, wait_limit, longest);
    if (!status.ok() || turns.has_changed(answer.turn) || wait_limit.expired()) return status;
    if (own.writer == nullptr) {
      const auto at = wire::writer_row_of(array.board().writer.load());
      return row_of_writer(array, at, wait_limit).status();
    }
    if (!own.writer_is_at_work()) return absl::OkStatus();
    status = turns.await_change(array.session(), answer.turn, wait_limit, kForever, own.words);
    if (!status.ok()) return status;
  }
}

struct Asked {
  std::uint32_t ahead = 0;  // how many come first
  absl::Status slept;       // how the sleep behind the question ended
};

// One round of asking for ownership. True once it is ours.
absl::StatusOr<bool> ask_for_ownership(OpenArray& array, WaitLimit& wait_limit, CountedWait& wait,
                                       Backoff& pauses, Asked& asked) {
  ControlPort& control = array.session().control();
  const auto check = [&] { return wait_limit.check_call(); };
  OwnershipWords own(array);
  auto answer = control.acquire_writer(array.facts().id, check);
  if (!answer.ok()) return array.named(answer.status());
  crash_point("ownership.asked");
  const auto brought = array.bring_to_write(answer->row, answer->from, check);
  if (!brought.ok()) return brought.status();
  auto writer = array.writer(answer->row, check);
  if (!writer.ok()) return writer.status();
  if (answer->state == WriterAnswer::State::kGranted) return true;
  if (answer->state == WriterAnswer::State::kOffered) {
    const auto from = row_of_writer(array, answer->from, wait_limit);
    if (!from.ok()) return from.status();
    if (*from == nullptr) return false;
    crash_point("ownership.offered");
    (*writer)->adopt(**from);
    crash_point("ownership.copied");
    absl::Status confirmed = control.confirm_writer(array.facts().id, answer->offer, check);
    crash_point("ownership.confirmed");
    if (!confirmed.ok() && wire::code_of(confirmed) != ErrorCode::kBusy) return confirmed;
    return confirmed.ok();
  }
  crash_point("ownership.busy");
  asked.ahead = answer->ahead;
  if (answer->ahead != 0) {
    wait.sleeps();
    asked.slept = sleep_until_its_turn(array, own, *answer, wait_limit);
    return false;
  }
  if (leaves_out("counts before the question")) own = OwnershipWords(array);
  if (own.writer == nullptr) {
    const wire::RowRef at = wire::writer_row_of(array.board().writer.load());
    const auto present = row_of_writer(array, at, wait_limit);
    if (!present.ok()) return present.status();
    if (*present != nullptr) return false;
  }
  wait.sleeps();
  asked.slept = sleep_until_due(own, wait_limit, pauses);
  return false;
}

absl::Status did_not_come(OpenArray& array, const WaitLimit& wait_limit, std::uint32_t ahead) {
  const std::string why =
      ahead == 0
          ? "another process is in the middle of a write"
          : fmt::format("so many other processes that want to write it come first: {}", ahead);
  return make_error(
      ErrorCode::kTimeout,
      fmt::format("writer ownership of '{}' did not come within {}: {}", array.name(),
                  wait_limit.limit_text(), why),
      fmt::format("Wait longer, or look who it is: memleasectl --directory={} holders {}",
                  array.session().directory(), array.name()));
}

}  // namespace

absl::Status acquire_ownership(OpenArray& array, WaitLimit& wait_limit, CountedWait& wait) {
  ControlPort& control = array.session().control();
  absl::Cleanup cancel = [&] {
    if (!control.silent()) control.cancel_writer(array.facts().id).IgnoreError();
  };
  Backoff pauses(std::chrono::milliseconds(1), kInterruptInterval);
  for (;;) {
    const bool last = wait_limit.expired();
    Asked asked;
    const auto mine = ask_for_ownership(array, wait_limit, wait, pauses, asked);
    if (!mine.ok()) {
      // A daemon that has not answered is not waited for once more: an offer ends by itself.
      if (wait_limit.ends_with(mine.status())) std::move(cancel).Cancel();
      return mine.status();
    }
    if (*mine) {
      std::move(cancel).Cancel();
      return absl::OkStatus();
    }
    absl::Status status = asked.slept;
    if (status.ok()) status = wait_limit.step();
    if (status.ok() && last) status = did_not_come(array, wait_limit, asked.ahead);
    if (!status.ok()) return status;
  }
}

}  // namespace memlease::internal
