#include "server/core/writer_ownership.h"

#include <algorithm>
#include <memory>
#include <string>
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

namespace {

// On the board of names.
std::string turn_of(const Array& array, SessionId session) {
  return fmt::format("{} {}", wire::to_int(array.id), wire::to_int(session));
}

}  // namespace

wire::FileRange WriterOwnership::current(const Array& array) const {
  if (array.writer == SessionId{0}) return *array.takeover_at;
  return *sessions_.find(array.writer)->memberships.at(array.id).writer_row;
}

absl::Status WriterOwnership::may_ask(const Array& array, SessionId session) const {
  const Session* owner = sessions_.find(array.exclusive_to);
  if (owner == nullptr || owner->id == session || !owner->connected) return absl::OkStatus();
  return wire::make_error(
      wire::ErrorCode::kDenied,
      fmt::format(
          "'{}' has an exclusive writer: {}", array.name,
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
  const auto wait_behind = [&] {
    this->wait_behind(array, session, answer);
    return answer;
  };
  if (array.pending && array.pending->to != session) {
    // Nobody would get further while the writer is at work. Once it is not, who was first has his
    // time, which an owner that writes again may not take.
    if (!array.pending->offered && at_work()) return wait_behind();
    if (!std::exchange(array.pending->due, true)) array.pending->since_ms = now_ms;
    if (now_ms - array.pending->since_ms < kOfferMs) return wait_behind();
    cancel(array, array.pending->to);
  }
  if (array.writer == session) {
    leave_queue(array, session);
    answer.state = WriterAnswer::State::kGranted;
    return answer;
  }
  if (!array.pending) {
    if (!is_its_turn(array, session) || has_yet_to_begin(array)) return wait_behind();
    array.pending = std::make_unique<PendingMove>(PendingMove{session, 0, false, false, now_ms});
    leave_queue(array, session);
    if (!leaves_out("set moving")) set_moving(*array.board);
  }
  if (at_work()) return answer;
  crash_point("ask.looked");
  // What is not complete when its writer dies is poisoned, and only the present writer's is looked
  // at.
  if (!array.rare().write_events.all_complete()) return answer;
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
        fmt::format("the offer of writer ownership of '{}' is not valid any more", array.name),
        "Ask for it again.");
  }
  array.pending.reset();
  array.writer = session;
  if (array.kind->writer == wire::Writer::kExclusive) array.exclusive_to = session;
  set_writer(*array.board, row_ref(current(array)), false);
  if (array.queue) {
    array.queue->moved_ms = clock_.monotonic_ms();
    array.queue->moved_highest = current_row(array).highest_used.load();
    next_turn(array);
  }
  return absl::OkStatus();
}

void WriterOwnership::cancel(Array& array, SessionId session) {
  leave_queue(array, session);
  if (!array.pending || array.pending->to != session) return;
  array.pending.reset();
  if (!leaves_out("let the owner go on")) clear_moving(*array.board);
  next_turn(array);
}

// ---- The queue.

void WriterOwnership::wait_behind(Array& array, SessionId session, WriterAnswer& answer) {
  const auto turn = name_board_.count_of(turn_of(array, session));
  if (!turn.ok()) return;  // without the page it asks again and again
  answer.turn = *turn;
  if (!array.queue) array.queue = std::make_unique<WriterQueue>();
  auto& waiting = array.queue->waiting;
  const auto place = std::ranges::find(waiting, session);
  answer.ahead = static_cast<std::uint32_t>(place - waiting.begin()) + (array.pending ? 1 : 0);
  if (place != waiting.end()) return;
  if (waiting.empty()) array.queue->turn_ms = clock_.monotonic_ms();
  waiting.push_back(session);
}

// Who does not ask when it is his turn, as he has been stopped, loses his place.
bool WriterOwnership::is_its_turn(Array& array, SessionId session) {
  while (array.queue && !array.queue->waiting.empty() && array.queue->waiting.front() != session) {
    if (clock_.monotonic_ms() - array.queue->turn_ms < kOfferMs) return false;
    array.queue->waiting.erase(array.queue->waiting.begin());
    next_turn(array);
  }
  return true;
}

bool WriterOwnership::has_yet_to_begin(const Array& array) const {
  if (!array.queue || array.writer == SessionId{0}) return false;
  const wire::WriterRow& row = current_row(array);
  return clock_.monotonic_ms() - array.queue->moved_ms < kBeginMs && !is_writing(row) &&
         row.highest_used.load() == array.queue->moved_highest;
}

void WriterOwnership::next_turn(Array& array) {
  if (!array.queue) return;
  if (array.queue->waiting.empty()) {
    array.queue.reset();
    return;
  }
  array.queue->turn_ms = clock_.monotonic_ms();
  tell(array, array.queue->waiting.front());
}

void WriterOwnership::leave_queue(Array& array, SessionId session) {
  if (!array.queue) return;
  auto& waiting = array.queue->waiting;
  const auto place = std::ranges::find(waiting, session);
  if (place == waiting.end()) return;
  const bool first = place == waiting.begin();
  waiting.erase(place);
  if (first && !array.pending) next_turn(array);
}

void WriterOwnership::tell(const Array& array, SessionId session) {
  if (!leaves_out("tell whose turn it is")) name_board_.happened(turn_of(array, session));
}

void WriterOwnership::tell_all(const Array& array) {
  if (!array.queue) return;
  for (const SessionId session : array.queue->waiting) tell(array, session);
}

void WriterOwnership::gone(Array& array, SessionId session, Departure how) {
  if (!leaves_out("cancel for who is gone")) cancel(array, session);
  if (array.exclusive_to == session) array.exclusive_to = SessionId{0};
  if (array.writer != session) return;
  const wire::FileRange row = current(array);
  array.writer = SessionId{0};
  // Who leaves may have work under way, which goes on unless its device has failed.
  const bool over = how == Departure::kExited || array.rare().write_events.any_lost();
  const auto stands = [&](std::uint32_t slot) {
    return !over || array.rare().write_events.complete(slot);
  };
  if (!leaves_out("takeover")) {
    array.takeover_at = array.own_takeover;
    array.takeover = reinterpret_cast<wire::WriterRow*>(rows_.files().data(*array.own_takeover));
    take_over(*array.board, *array.takeover, row_ref(*array.takeover_at), rows_.writer(row),
              array.layout(), stands);
  }
  if (over) array.rare().write_events.release(rows_.files());
  // Who was promised the dead writer's row must copy the takeover row instead.
  if (array.pending) {
    if (!leaves_out("end the offer with its owner")) array.pending->offered = false;
    set_moving(*array.board);
  }
}

}  // namespace memlease::server
