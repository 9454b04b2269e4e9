#include "server/core/writer_ownership.h"

#include <utility>

#include "fmt/format.h"
#include "server/core/slot_board.h"
#include "wire/error.h"
#include "wire/hooks/test_hooks.h"
#include "wire/process_name.h"

namespace memlease::server {

using internal::crash_point;
using internal::leaves_out;
using wire::SessionId;

wire::FileRange WriterOwnership::current(const Array& array) const {
  if (array.writer == SessionId{0}) return array.takeover_at;
  return *sessions_.find(array.writer)->memberships.at(array.id).writer_row;
}

absl::Status WriterOwnership::may_ask(const Array& array, SessionId session) const {
  const Session* owner = sessions_.find(array.exclusive_to);
  if (owner == nullptr || owner->id == session || !owner->connected) return absl::OkStatus();
  return wire::make_error(
      wire::ErrorCode::kDenied,
      fmt::format(
          "'{}' has an exclusive writer: {}", array.spec.name,
          wire::process_name(owner->peer.pid, wire::to_int(owner->id), owner->peer.command)),
      "Read it here. When that process has closed the array or ended, the next one that writes "
      "becomes its writer.");
}

WriterAnswer WriterOwnership::ask(Array& array, SessionId session, wire::FileRange row) {
  WriterAnswer answer;
  answer.row = row_ref(row);
  const wire::FileRange from = current(array);
  answer.from = row_ref(from);
  const std::uint64_t now_ms = clock_.monotonic_ms();
  const auto at_work = [&] {
    return array.writer != SessionId{0} && is_writing(rows_.writer(from)) &&
           !leaves_out("look at the flag");
  };
  if (array.pending && array.pending->to != session) {
    // Nobody would get further while the writer is at work: those who wait do not wake each other.
    // Once it is not, who was first has his time, which an owner that writes again may not take.
    if (!array.pending->offered && at_work()) return answer;
    if (!std::exchange(array.pending->due, true)) array.pending->since_ms = now_ms;
    if (now_ms - array.pending->since_ms < kOfferMs) return answer;
    cancel(array, array.pending->to);
  }
  if (array.writer == session) {
    answer.state = WriterAnswer::State::kGranted;
    return answer;
  }
  if (!array.pending) {
    array.pending = std::make_unique<PendingMove>(PendingMove{session, 0, false, false, now_ms});
    if (!leaves_out("set moving")) set_moving(*array.board);
  }
  if (at_work()) return answer;
  crash_point("ask.looked");
  // What is not complete when its writer dies is poisoned, and only the present writer's is looked
  // at.
  if (!array.write_events.all_complete()) return answer;
  if (!array.pending->offered) array.pending->since_ms = now_ms;
  array.pending->due = array.pending->offered = true;
  array.pending->offer = ++last_offer_;
  answer.offer = array.pending->offer;
  answer.state = WriterAnswer::State::kOffered;
  return answer;
}

absl::Status WriterOwnership::confirm(Array& array, SessionId session, std::uint64_t offer) {
  if (!array.pending || !array.pending->offered ||
      (array.pending->to != session && !leaves_out("look who confirms")) ||
      (array.pending->offer != offer && !leaves_out("look at the offer's number"))) {
    return wire::make_error(
        wire::ErrorCode::kBusy,
        fmt::format("the offer of writer ownership of '{}' is not valid any more", array.spec.name),
        "Ask for it again.");
  }
  array.pending.reset();
  array.writer = session;
  if (array.spec.writer == wire::Writer::kExclusive) array.exclusive_to = session;
  set_writer(*array.board, row_ref(current(array)), false);
  return absl::OkStatus();
}

void WriterOwnership::cancel(Array& array, SessionId session) {
  if (!array.pending || array.pending->to != session) return;
  array.pending.reset();
  if (!leaves_out("let the owner go on")) clear_moving(*array.board);
}

void WriterOwnership::gone(Array& array, SessionId session, Departure how) {
  if (!leaves_out("cancel for who is gone")) cancel(array, session);
  if (array.exclusive_to == session) array.exclusive_to = SessionId{0};
  if (array.writer != session) return;
  const wire::FileRange row = current(array);
  array.writer = SessionId{0};
  // Who leaves may have work under way, which goes on unless its device has failed.
  const bool over = how == Departure::kExited || array.write_events.any_lost();
  const auto stands = [&](std::uint32_t slot) {
    return !over || array.write_events.complete(slot);
  };
  if (!leaves_out("takeover")) {
    take_over(*array.board, *array.takeover, row_ref(array.takeover_at), rows_.writer(row),
              array.layout(), stands);
  }
  if (over) array.write_events.release(rows_.files());
  // Who was promised the dead writer's row must copy the takeover row instead.
  if (array.pending) {
    if (!leaves_out("end the offer with its owner")) array.pending->offered = false;
    set_moving(*array.board);
  }
}

}  // namespace memlease::server
