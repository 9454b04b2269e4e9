#include "client/arrays/replicas.h"

#include <chrono>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "client/arrays/await_any.h"
#include "client/arrays/begin_read.h"
#include "client/arrays/gpu_copy.h"
#include "client/arrays/gpu_lease.h"
#include "client/arrays/not_now.h"
#include "client/arrays/places.h"
#include "client/ordering/lease_streams.h"
#include "fmt/format.h"
#include "wire/error.h"
#include "wire/hooks/test_hooks.h"

namespace memlease::internal {
namespace {

using wire::ErrorCode;
using wire::make_error;

// A hold on the version that is to be copied.
class Source {
 public:
  Source(OpenArray& array, const ReadAttempt& held, std::uint64_t interrupt_check)
      : array_(array), held_(held) {
    streams.interrupt_check = interrupt_check;
  }
  // Nothing is under way; but writers look for a record of what has been.
  ~Source() {
    if (streams.ordered) {
      array_.end_device_read(held_.slot, held_.version, work_end(streams, {}), 0).IgnoreError();
    } else {
      array_.end_read(held_.slot);
    }
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  OpenArray& array() const { return array_; }
  std::uint32_t slot() const { return held_.slot; }
  std::uint64_t version() const { return held_.version; }
  // Its writer died before it was complete.
  bool lost() const { return array_.reader_if_subscribed()->poisoned(held_.version); }
  LeaseStreams streams;  // as of a lease

 private:
  OpenArray& array_;
  const ReadAttempt held_;
};

absl::Status may_not_copy(const OpenArray& here, const OpenArray& from) {
  return make_error(
      ErrorCode::kDenied,
      fmt::format("the newest version of '{}' is on {}, and this process may not copy it to {} "
                  "(mode {:#o})",
                  from.name(), from.spec().device, here.spec().device, here.spec().mode),
      "Read it where it is, or let a process that may write the array read it here first.");
}

absl::Status writes_itself(const OpenArray& here) {
  return make_error(ErrorCode::kBusy,
                    fmt::format("the newest version of '{}' would have to be copied here, and this "
                                "thread itself is writing the array",
                                here.name()),
                    "Publish or drop the write lease first, or read before you write.");
}

// Another process is in the middle of a write here, which may be this very copy.
bool another_writes(OpenArray& array) {
  const wire::RowRef at = wire::writer_row_of(array.board().writer.load());
  const wire::WriterRow* const row = array.writer_row(at, Unmapped::kLeave);
  return row != nullptr && row->writing.load() != 0;
}

absl::Status holds_the_slots_itself(const OpenArray& here) {
  return make_error(
      ErrorCode::kTooManyHeld,
      fmt::format(
          "the newest version of '{}' would have to be copied here, and this process itself "
          "holds the slots, by leases or views",
          here.name()),
      "Release leases, delete views or copy what is to stay; or create the array with more slots.");
}

// For a step that is tried without waiting.
WaitLimit at_once(OpenArray& array, std::uint64_t interrupt_check) {
  constexpr std::chrono::nanoseconds kNone{0};
  return {array.session(), interrupt_check, kNone, kNone};
}

// Nothing can be copied just now: for a moment, or until a write here has ended.
absl::Status pause(OpenArray& here, WaitLimit& wait_limit) {
  constexpr std::chrono::milliseconds kMoment{5};
  auto reader = here.reader([&] { return wait_limit.check_call(); });
  if (!reader.ok()) return reader.status();
  const SlotReader::Counts counts = (*reader)->counts();
  {
    const Sleeper sleeper(**reader);
    wait_limit.sleep(counts.span(), kMoment);
  }
  if (auto status = wait_limit.step(); !status.ok()) return status;
  if (!wait_limit.expired()) return absl::OkStatus();
  return make_error(ErrorCode::kTimeout,
                    fmt::format("no version could be copied to '{}' within {}, as others write it, "
                                "or hold its slots",
                                here.name(), wait_limit.limit_text()),
                    "Wait longer.");
}

// Ends a write of a copy, published or not.
absl::Status end_copy(OpenArray& here, const WriteAttempt& write, bool publish,
                      LeaseStreams& streams) {
  if (here.gpu() == nullptr) {
    here.end_write(write.slot, write.version, publish);
    return absl::OkStatus();
  }
  return end_gpu_write(here, write.slot, write.version, publish, {}, streams);
}

// Copies what is newer elsewhere to where it is read, on behalf of one call.
class Copier {
 public:
  // `stream`: the reader's, which copies to a GPU; none: the call waits for the copy.
  Copier(const Places& places, WaitLimit& wait_limit, std::uint64_t interrupt_check, Stream stream)
      : places_(places),
        here_(places.here()),
        home_(places.home()),
        wait_limit_(wait_limit),
        interrupt_check_(interrupt_check),
        stream_(stream) {}

  // Until what was the newest version at the call, or a later one, is here.
  absl::Status bring(std::uint64_t least);

 private:
  absl::Status check() const { return wait_limit_.check_call(); }
  absl::Status copy_from(OpenArray& from, std::uint64_t newer_than);
  absl::Status copy(Source& source);
  absl::Status copy_with_new_number(Source& source);
  absl::Status begin_new_number(WriteAttempt& write);
  absl::Status begin_at_once(WriteAttempt& write, std::uint64_t number);
  absl::Status copy_and_publish(Source& source, const WriteAttempt& write);

  const Places& places_;
  OpenArray& here_;
  OpenArray& home_;
  WaitLimit& wait_limit_;
  const std::uint64_t interrupt_check_;
  const Stream stream_;
};

// From the host the reader's stream copies, and what it is given next runs behind that.
absl::Status Copier::copy_and_publish(Source& source, const WriteAttempt& write) {
  LeaseStreams streams;
  streams.interrupt_check = interrupt_check_;
  const Stream on = source.array().gpu() == nullptr ? stream_ : Stream();
  absl::Status status;
  if (here_.gpu() != nullptr) status = begin_gpu_write(here_, write.slot, on, false, streams);
  crash_point("device.replica_begun");
  if (status.ok() && on) {
    status = copy_version_on(source.array(), source.slot(), here_, write.slot, on);
  } else if (status.ok()) {
    status = copy_version(source.array(), source.slot(), source.version(), source.streams, here_,
                          write.slot, streams);
  }
  crash_point("device.replica_copied");
  const bool publish = status.ok() && !source.lost();
  auto ended = end_copy(here_, write, publish, streams);
  crash_point("device.replica_published");
  return status.ok() ? ended : status;
}

// A write that may begin at once: whoever waited with the version held, for a slot or ownership,
// might wait for one that waits for him. Else not_now().
absl::Status Copier::begin_at_once(WriteAttempt& write, std::uint64_t number) {
  WaitLimit limit = at_once(here_, interrupt_check_);
  auto status = begin_write(here_, limit, write, IfNoSlot::kSkip, number);
  const ErrorCode code = wire::code_of(status);
  if (status.ok() || (code != ErrorCode::kNoFreeSlot && code != ErrorCode::kTimeout)) return status;
  if (code == ErrorCode::kNoFreeSlot && here_.holds_back_slots()) {
    return holds_the_slots_itself(here_);
  }
  write.outcome = WriteOutcome::kNoFreeSlot;
  return not_now("the slots are in use");
}

// The home gives its next number: to a write at home, or for one here, while nobody else gets any.
absl::Status Copier::begin_new_number(WriteAttempt& write) {
  std::uint64_t number = leaves_out("say that it only copies") ? 0 : SlotWriter::kNextToCopy;
  if (&here_ == &home_) return begin_at_once(write, number);
  auto status =
      here_.session().control().write_elsewhere(here_.answer().id, [&] { return check(); });
  if (!status.ok()) return here_.named(status);
  WaitLimit limit = at_once(here_, interrupt_check_);
  status = begin_number(home_, limit, number);
  if (wire::code_of(status) == ErrorCode::kTimeout) return not_now("the slots are in use");
  if (!status.ok()) return status;
  status = begin_at_once(write, number);
  if (status.ok()) {
    here_.writing().set_numbered_by(home_);
  } else {
    home_.end_number();
  }
  return status;
}

// Its number cannot be had here any more: the same content gets a new one, while nobody else gives
// any. Nothing happens where a newer version is there by then.
absl::Status Copier::copy_with_new_number(Source& source) {
  WriteAttempt write;
  if (auto status = begin_new_number(write); !status.ok()) return status;
  const bool is_home = &here_ == &home_;
  const std::uint32_t own = is_home ? 0 : std::uint32_t{1} << here_.answer().replica_number;
  const auto newest = places_.newest(kNoInterrupts);
  if (newest.ok() && *newest == source.version() && places_.are_all(own)) {
    return copy_and_publish(source, write);
  }
  LeaseStreams untouched;
  return end_copy(here_, write, false, untouched);
}

absl::Status Copier::copy(Source& source) {
  WriteAttempt write;
  auto status = begin_at_once(write, source.version());
  if (status.ok()) return copy_and_publish(source, write);
  if (write.outcome != WriteOutcome::kNumberUsed) return status;
  auto version = here_.current_version(kNoInterrupts);
  if (!version.ok()) return version.status();
  if (*version >= source.version()) return absl::OkStatus();  // another process was faster
  return copy_with_new_number(source);
}

// Or not_now().
absl::Status Copier::copy_from(OpenArray& from, std::uint64_t newer_than) {
  const auto reader = from.reader([&] { return check(); });
  if (!reader.ok()) return reader.status();
  const ReadAttempt held = (*reader)->acquire(0, newer_than);
  if (held.outcome == ReadOutcome::kTooManyHeld) {
    return make_error(ErrorCode::kTooManyHeld,
                      fmt::format("this process holds as many versions of '{}' as it may, so "
                                  "that it can copy none to {}",
                                  from.name(), here_.spec().device),
                      "Release leases or delete views of it.");
  }
  if (held.outcome != ReadOutcome::kAcquired || !from.keep(held)) return absl::OkStatus();
  Source source(from, held, interrupt_check_);
  auto status = from.map_slot(held.slot, [&] { return check(); });
  return status.ok() ? copy(source) : status;
}

absl::Status Copier::bring(std::uint64_t least) {
  const auto may_go_on = [&] { return check(); };
  const bool writes_here =
      here_.writing().entered_by_this_thread() || home_.writing().entered_by_this_thread();
  for (;;) {
    const auto version = here_.current_version(may_go_on);
    if (!version.ok()) return version.status();
    if (*version >= least) return absl::OkStatus();
    const auto place = places_.place_of_newer(may_go_on);
    if (!place.ok()) return place.status();
    if (*place == nullptr) return absl::OkStatus();  // what was newer has been lost
    if (!here_.answer().may_write) return may_not_copy(here_, **place);
    if (writes_here) return writes_itself(here_);
    const bool now = !another_writes(here_);
    auto status = now ? copy_from(**place, *version) : not_now("another process writes");
    if (is_not_now(status)) status = pause(here_, wait_limit_);
    if (!status.ok()) return status;
    if (status = wait_limit_.step(); !status.ok()) return status;
  }
}

// The number of the newest version; 0: none.
absl::StatusOr<std::uint64_t> newest_of(ArrayHandle& handle, WaitLimit& wait_limit) {
  const auto check = [&] { return wait_limit.check_call(); };
  const auto places = handle.places(check);
  if (!places.ok()) return places.status();
  return places->newest(check);
}

absl::Status bring_newest(ArrayHandle& handle, WaitLimit& wait_limit) {
  const auto check = [&] { return wait_limit.check_call(); };
  const auto places = handle.places(check);
  if (!places.ok()) return places.status();
  const auto newest = places->newest(check);
  if (!newest.ok()) return newest.status();
  return Copier(*places, wait_limit, handle.interrupt_check(), {}).bring(*newest);
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
  ReadOptions newer;
  newer.newer_than = after;
  for (const std::size_t place : *ready) {
    OpenArray& array = *all[place].array;
    if (array.ending()) continue;
    WaitLimit limit = at_once(array, interrupt_check);
    auto status = begin_read(array, newer, limit, attempt);
    if (status.ok()) array.end_read(attempt.slot);
    if (came_to_nothing(attempt)) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status begin_read_anywhere(ArrayHandle& handle, const ReadOptions& options,
                                 WaitLimit& wait_limit, ReadAttempt& attempt) {
  OpenArray& here = handle.array();
  const auto check = [&] { return wait_limit.check_call(); };
  const std::uint64_t after = options.version != 0 ? options.version - 1 : options.newer_than;
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
      Copier copier(*places, wait_limit, handle.interrupt_check(), options.stream);
      auto status = copier.bring(*newest);
      if (!status.ok()) return status;
      WaitLimit limit = at_once(here, handle.interrupt_check());
      status = begin_read(here, options, limit, attempt);
      // What was the newest version may be lost before it could be held.
      const bool is_older = status.ok() && options.version == 0 && attempt.version < *newest;
      if (is_older) here.end_read(attempt.slot);
      const bool again = is_older || wire::code_of(status) == ErrorCode::kTimeout;
      if (status.ok() ? !is_older : !again || last) return status;
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
  const std::uint32_t bit = std::uint32_t{1} << here.answer().replica_number;
  if ((home.board().elsewhere.load() & bit) == 0 &&
      !leaves_out("say that versions are elsewhere")) {
    auto status = here.session().control().write_elsewhere(here.answer().id,
                                                           [&] { return wait_limit.check_call(); });
    if (!status.ok()) return here.named(status);
  }
  std::uint64_t number = 0;
  if (auto status = begin_number(home, wait_limit, number); !status.ok()) return status;
  auto status = begin_write(here, wait_limit, attempt, if_none, number);
  if (!status.ok()) {
    home.end_number();
    return status;
  }
  here.writing().set_numbered_by(home);
  return status;
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
    const auto newest = newest_of(handle, wait_limit);
    if (newest.ok() && *newest <= here.writing().slot_writer()->current().version) {
      return copy_current(here, wait_limit, attempt);
    }
    here.end_write(attempt.slot, attempt.version, false);
    if (!newest.ok()) return newest.status();
    if (status = wait_limit.step(); !status.ok()) return status;
  }
}

}  // namespace memlease::internal
