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
#include "client/arrays/places.h"
#include "client/ordering/lease_streams.h"
#include "fmt/format.h"
#include "wire/error.h"
#include "wire/hooks/test_hooks.h"

namespace memlease::internal {
namespace {

using wire::ErrorCode;
using wire::make_error;

// On whose behalf a version is copied.
struct Copier {
  WaitLimit& wait_limit;
  std::uint64_t interrupt_check = 0;
  Stream stream;  // the reader's, which copies to a GPU; none: the call waits for the copy
};

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

// From the host the reader's stream copies, and what it is given next runs behind that.
absl::Status copy_and_publish(Source& source, OpenArray& here, const WriteAttempt& write,
                              const Copier& copier) {
  LeaseStreams streams;
  streams.interrupt_check = copier.interrupt_check;
  const Stream on = source.array().gpu() == nullptr ? copier.stream : Stream();
  absl::Status status;
  if (here.gpu() != nullptr) status = begin_gpu_write(here, write.slot, on, false, streams);
  crash_point("device.replica_begun");
  if (status.ok() && on) {
    status = copy_version_on(source.array(), source.slot(), here, write.slot, on);
  } else if (status.ok()) {
    status = copy_version(source.array(), source.slot(), source.version(), source.streams, here,
                          write.slot, streams);
  }
  crash_point("device.replica_copied");
  const bool publish = status.ok() && !source.lost();
  auto ended = end_copy(here, write, publish, streams);
  crash_point("device.replica_published");
  return status.ok() ? ended : status;
}

// A write that may begin at once: whoever waited with the version held, for a slot or ownership,
// might wait for one that waits for him. kAborted: not just now.
absl::Status begin_at_once(OpenArray& here, const Copier& copier, WriteAttempt& write,
                           std::uint64_t number) {
  WaitLimit limit = at_once(here, copier.interrupt_check);
  auto status = begin_write(here, limit, write, IfNoSlot::kSkip, number);
  const ErrorCode code = wire::code_of(status);
  if (status.ok() || (code != ErrorCode::kNoFreeSlot && code != ErrorCode::kTimeout)) return status;
  if (code == ErrorCode::kNoFreeSlot && here.holds_back_slots()) {
    return holds_the_slots_itself(here);
  }
  write.outcome = WriteOutcome::kNoFreeSlot;
  return absl::AbortedError("not just now");
}

// Its number cannot be had here any more: the same content gets a new one, while nobody else gives
// any. Nothing happens where a newer version is there by then.
absl::Status copy_with_new_number(const Places& places, Source& source, const Copier& copier) {
  OpenArray& here = places.here();
  WriteAttempt write;
  std::uint64_t number = 0;
  const bool is_home = &here == &places.home();
  if (!is_home) {
    const auto check = [&] { return copier.wait_limit.check_call(); };
    auto status = here.session().control().write_elsewhere(here.answer().id, check);
    if (!status.ok()) return here.named(status);
    WaitLimit limit = at_once(here, copier.interrupt_check);
    status = begin_number(places.home(), limit, number);
    if (wire::code_of(status) == ErrorCode::kTimeout) return absl::AbortedError("not just now");
    if (!status.ok()) return status;
  }
  auto status = begin_at_once(here, copier, write, number);
  if (!status.ok()) {
    if (!is_home) places.home().end_number();
    return status;
  }
  if (!is_home) here.writing().set_numbered_by(places.home());
  const std::uint32_t own = is_home ? 0 : std::uint32_t{1} << here.answer().replica_number;
  const auto newest = places.newest(kNoInterrupts);
  if (newest.ok() && *newest == source.version() && places.are_all(own)) {
    return copy_and_publish(source, here, write, copier);
  }
  LeaseStreams untouched;
  return end_copy(here, write, false, untouched);
}

absl::Status copy_here(const Places& places, Source& source, const Copier& copier) {
  OpenArray& here = places.here();
  WriteAttempt write;
  auto status = begin_at_once(here, copier, write, source.version());
  if (status.ok()) return copy_and_publish(source, here, write, copier);
  if (write.outcome != WriteOutcome::kNumberUsed) return status;
  auto version = here.current_version(kNoInterrupts);
  if (!version.ok()) return version.status();
  if (*version >= source.version()) return absl::OkStatus();  // another process was faster
  return copy_with_new_number(places, source, copier);
}

// Copies what is newer elsewhere, until what was the newest version at the call, or a later one, is
// here.
absl::Status bring(const Places& places, std::uint64_t least, const Copier& copier) {
  WaitLimit& wait_limit = copier.wait_limit;
  OpenArray& here = places.here();
  const auto check = [&] { return wait_limit.check_call(); };
  const bool writes_here =
      here.writing().entered_by_this_thread() || places.home().writing().entered_by_this_thread();
  for (;;) {
    const auto version = here.current_version(check);
    if (!version.ok()) return version.status();
    if (*version >= least) return absl::OkStatus();
    const auto place = places.place_of_newer(check);
    if (!place.ok()) return place.status();
    if (*place == nullptr) return absl::OkStatus();  // what was newer has been lost
    OpenArray& from = **place;
    if (!here.answer().may_write) return may_not_copy(here, from);
    if (writes_here) return writes_itself(here);
    if (another_writes(here)) {
      if (auto status = pause(here, wait_limit); !status.ok()) return status;
      continue;
    }
    const auto reader = from.reader(check);
    if (!reader.ok()) return reader.status();
    const ReadAttempt held = (*reader)->acquire(0, *version);
    if (held.outcome == ReadOutcome::kAcquired && from.keep(held)) {
      absl::Status status;
      {
        Source source(from, held, copier.interrupt_check);
        status = from.map_slot(held.slot, check);
        if (status.ok()) status = copy_here(places, source, copier);
      }
      if (absl::IsAborted(status)) status = pause(here, wait_limit);
      if (!status.ok()) return status;
    } else if (held.outcome == ReadOutcome::kTooManyHeld) {
      return make_error(ErrorCode::kTooManyHeld,
                        fmt::format("this process holds as many versions of '{}' as it may, so "
                                    "that it can copy none to {}",
                                    from.name(), here.spec().device),
                        "Release leases or delete views of it.");
    }
    if (auto status = wait_limit.step(); !status.ok()) return status;
  }
}

// The number of the newest version; 0: none.
absl::StatusOr<std::uint64_t> newest_of(ArrayHandle& handle, WaitLimit& wait_limit) {
  const auto check = [&] { return wait_limit.check_call(); };
  const auto places = handle.places(check);
  if (!places.ok()) return places.status();
  return places->newest(check);
}

absl::Status bring_newest(ArrayHandle& handle, const Copier& copier) {
  const auto check = [&] { return copier.wait_limit.check_call(); };
  const auto places = handle.places(check);
  if (!places.ok()) return places.status();
  const auto newest = places->newest(check);
  return newest.ok() ? bring(*places, *newest, copier) : newest.status();
}

// Until a version above `after` is somewhere, or a further replica is written, or `is_over`, or the
// end of the wait.
absl::Status host_wait_newer(const Places& places, std::uint64_t after,
                             const std::function<bool()>& is_over, WaitLimit& wait_limit) {
  std::vector<Awaited> all;
  for (auto& array : places.all()) {
    const auto reader = array->reader([&] { return wait_limit.check_call(); });
    if (!reader.ok()) return reader.status();
    all.push_back({std::move(array), after, [&] { return !places.are_all() || is_over(); }});
    all.back().reader = *reader;
  }
  return await_any(all, wait_limit).status();
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
    const auto is_lost = [&] { return options.version != 0 && places->lost(options.version); };
    const bool lost = is_lost();
    const auto newest = places->newest(check);
    if (!newest.ok()) return newest.status();
    const bool last = wait_limit.expired();
    if (*newest > after) {
      auto status = bring(*places, *newest, {wait_limit, handle.interrupt_check(), options.stream});
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
    } else if (last) {
      return begin_read(here, options, wait_limit, attempt);  // which says what did not come
    } else {
      auto status = host_wait_newer(*places, after, is_lost, wait_limit);
      if (!status.ok()) return status;
    }
    if (auto status = wait_limit.step(); !status.ok()) return status;
  }
}

absl::Status begin_write_of(ArrayHandle& handle, WaitLimit& wait_limit, WriteAttempt& attempt,
                            IfNoSlot if_none) {
  OpenArray& here = handle.array();
  if (handle.home() == nullptr) return begin_write(here, wait_limit, attempt, if_none);
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

absl::Status begin_update_of(ArrayHandle& handle, WaitLimit& wait_limit, WriteAttempt& attempt) {
  OpenArray& here = handle.array();
  for (;;) {
    if (handle.has_places()) {
      auto status = bring_newest(handle, {wait_limit, handle.interrupt_check(), {}});
      if (!status.ok()) return status;
    }
    auto status = begin_write_of(handle, wait_limit, attempt);
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
