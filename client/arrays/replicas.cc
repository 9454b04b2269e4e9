#include "client/arrays/replicas.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>
#include <vector>

#include "client/arrays/await_any.h"
#include "client/arrays/begin_read.h"
#include "client/arrays/places.h"
#include "client/arrays/version_copier.h"
#include "client/ordering/backoff.h"
#include "wire/error.h"
#include "wire/hooks/test_hooks.h"

namespace memlease::internal {
namespace {

using wire::ErrorCode;

// Whether another place has a version that is not here.
absl::StatusOr<bool> is_newer_elsewhere(ArrayHandle& handle, WaitLimit& wait_limit) {
  const auto check = [&] { return wait_limit.check_call(); };
  const auto places = handle.places(check);
  if (!places.ok()) return places.status();
  const auto place = places->place_of_newer(check);
  if (!place.ok()) return place.status();
  return *place != nullptr;
}

absl::Status bring_newest(ArrayHandle& handle, WaitLimit& wait_limit) {
  const auto check = [&] { return wait_limit.check_call(); };
  const auto places = handle.places(check);
  if (!places.ok()) return places.status();
  const auto newest = places->newest(check);
  if (!newest.ok()) return newest.status();
  ReadAttempt found;
  return VersionCopier(*places, wait_limit, handle.interrupt_check(), {}).bring(*newest, found);
}

// Not only of this place, or for now.
bool ends_all_waits(const absl::Status& status) {
  const auto code = wire::code_of(status);
  return code == ErrorCode::kInterrupted || code == ErrorCode::kDaemonLost ||
         code == ErrorCode::kClosed;
}

// Until a version above `after` is somewhere, or a further replica is written, or `is_over`, or the
// end of the wait; or until no version can come without a user's knowing, as where the write of an
// only slot came to nothing: `attempt` is what was found there, and its error is returned.
absl::Status host_wait_newer(const Places& places, std::uint64_t after,
                             const std::function<bool()>& is_over, std::uint64_t interrupt_check,
                             WaitLimit& wait_limit, ReadAttempt& attempt) {
  std::vector<Awaited> all;
  for (auto& array : places.all()) {
    const auto reader = array->reader([&] { return wait_limit.check_call(); });
    if (!reader.ok()) return reader.status();
    all.push_back({std::move(array), after, [&] { return !places.are_all() || is_over(); }});
    all.back().reader = *reader;
  }
  const auto ready = await_any(all, wait_limit);
  if (!ready.ok()) return ready.status();
  // What came to nothing at one place may have come at another.
  const auto newest = places.newest([&] { return wait_limit.check_call(); });
  if (!newest.ok()) return newest.status();
  if (*newest > after) return absl::OkStatus();
  ReadOptions newer;
  newer.newer_than = after;
  for (const std::size_t place : *ready) {
    OpenArray& array = *all[place].array;
    if (auto status = array.check_lost(); !status.ok()) return status;
    if (array.ending()) continue;
    if (!array.reach().ok()) {  // there are no bytes for this process, but perhaps news
      attempt = all[place].reader->acquire(0, after);
      if (attempt.outcome == ReadOutcome::kAcquired) all[place].reader->release(attempt.slot);
      if (came_to_nothing(attempt)) return nothing_came(array, attempt);
      continue;
    }
    WaitLimit limit = at_once(array.session(), interrupt_check);
    auto status = begin_read(array, newer, limit, attempt);
    if (status.ok()) array.end_read(attempt.slot);
    if (came_to_nothing(attempt) || ends_all_waits(status)) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status begin_read_anywhere(ArrayHandle& handle, const ReadOptions& options,
                                 WaitLimit& wait_limit, ReadAttempt& attempt) {
  OpenArray& here = handle.array();
  const auto check = [&] { return wait_limit.check_call(); };
  const std::uint64_t after = options.version != 0 ? options.version - 1 : options.newer_than;
  Backoff moments(std::chrono::milliseconds(1), std::chrono::milliseconds(10));
  for (;;) {
    const auto places = handle.places(check);
    if (!places.ok()) return places.status();
    const auto will_not_come = [&] {
      return options.version != 0 &&
             (places->lost(options.version) || places->given_up(options.version));
    };
    // In this order: a number that its writer's death has ended looks as if it had been given up.
    const bool given_up = options.version != 0 && places->given_up(options.version);
    const bool lost = options.version != 0 && places->lost(options.version);
    const auto newest = places->newest(check);
    if (!newest.ok()) return newest.status();
    const bool last = wait_limit.expired();
    if (*newest > after) {
      if (options.version != 0) {  // which may be here still, beside a newer one elsewhere
        WaitLimit limit = at_once(here.session(), handle.interrupt_check());
        auto status = begin_read(here, options, limit, attempt);
        if (status.ok() || ends_all_waits(status)) return status;
      }
      VersionCopier copier(*places, wait_limit, handle.interrupt_check(), options.stream);
      auto status = copier.bring(*newest, attempt);
      if (!status.ok()) return status;
      WaitLimit limit = at_once(here.session(), handle.interrupt_check());
      status = begin_read(here, options, limit, attempt);
      // What was the newest version may be lost before it could be held.
      const bool is_older = status.ok() && options.version == 0 && attempt.version < *newest;
      if (is_older) here.end_read(attempt.slot);
      const bool again = is_older || wire::code_of(status) == ErrorCode::kTimeout;
      if (status.ok() ? !is_older : !again || last) return status;
      // Nothing can be had of what was brought just now, as an only slot is being written.
      status = sleep_until_change(here, wait_limit, [&] { return moments.next(); });
      if (!status.ok()) return status;
    } else if (lost) {
      return producer_died(handle.home_array(), options.version);
    } else if (given_up) {
      return version_gone(handle.home_array(), options.version, *newest);
    } else if (last) {
      return begin_read(here, options, wait_limit, attempt);  // which says what did not come
    } else {
      auto status = host_wait_newer(*places, after, will_not_come, handle.interrupt_check(),
                                    wait_limit, attempt);
      if (!status.ok()) return status;
    }
    if (auto status = wait_limit.step(); !status.ok()) return status;
  }
}

absl::Status begin_write_on_replica(ArrayHandle& handle, WaitLimit& wait_limit,
                                    WriteAttempt& attempt, IfNoSlot if_none) {
  OpenArray& here = handle.array();
  if (auto status = handle.home()->use(); !status.ok()) return status;
  OpenArray& home = handle.home()->array();
  auto said = say_elsewhere(here, home, [&] { return wait_limit.check_call(); });
  if (!said.ok()) return said;
  // Who has claimed the home's number keeps all others from writing, and from copying home: not for
  // long, as one of them may hold the slot, but for as long as a copy here may last.
  constexpr std::chrono::milliseconds kShortest{20};
  constexpr std::chrono::milliseconds kLongest{320};
  for (Backoff moments(kShortest, kLongest);;) {
    const bool last = wait_limit.expired() || leaves_out("wait for a slot without a number");
    if (auto status = claim_number(home, wait_limit, false); !status.ok()) return status;
    const WriteNumber number{.home = home.writing().slot_writer()};
    const auto at_most = std::min<std::chrono::nanoseconds>(moments.next(), wait_limit.left());
    WaitLimit moment(here.session(), handle.interrupt_check(), at_most, at_most);
    auto status = begin_write(here, last ? wait_limit : moment, attempt,
                              last ? if_none : IfNoSlot::kReturn, number);
    if (status.ok()) {
      here.writing().set_numbered_by(home);
      return status;
    }
    home.end_number();
    const ErrorCode code = wire::code_of(status);
    if (last || (code != ErrorCode::kNoFreeSlot && code != ErrorCode::kTimeout)) return status;
    if (status = wait_for_free_slot(here, wait_limit, if_none); !status.ok()) return status;
    if (status = wait_limit.step(); !status.ok()) return status;
  }
}

absl::Status begin_update_anywhere(ArrayHandle& handle, WaitLimit& wait_limit,
                                   WriteAttempt& attempt) {
  OpenArray& here = handle.array();
  for (;;) {
    if (handle.has_places()) {
      auto status = bring_newest(handle, wait_limit);
      if (!status.ok()) return status;
    }
    auto status = handle.home() == nullptr ? begin_write(here, wait_limit, attempt)
                                           : begin_write_on_replica(handle, wait_limit, attempt);
    if (!status.ok()) return status;
    // Nobody writes anywhere from here on.
    if (!handle.has_places()) return copy_current(here, wait_limit, attempt);
    const auto newer = is_newer_elsewhere(handle, wait_limit);
    if (newer.ok() && !*newer) return copy_current(here, wait_limit, attempt);
    here.end_write(attempt.slot, attempt.version, false);
    if (!newer.ok()) return newer.status();
    if (status = wait_limit.step(); !status.ok()) return status;
  }
}

}  // namespace memlease::internal
