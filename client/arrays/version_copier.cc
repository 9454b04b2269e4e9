#include "client/arrays/version_copier.h"

#include <chrono>
#include <optional>

#include "client/arrays/begin_read.h"
#include "client/arrays/gpu_copy.h"
#include "client/arrays/gpu_lease.h"
#include "client/arrays/not_now.h"
#include "client/ordering/backoff.h"
#include "client/ordering/lease_streams.h"
#include "client/ordering/look_pauses.h"
#include "client/slots/slot_reader.h"
#include "fmt/format.h"
#include "wire/error.h"
#include "wire/hooks/test_hooks.h"

namespace memlease::internal {

using wire::ErrorCode;
using wire::make_error;

// A hold on the version that is to be copied.
class VersionCopier::Source {
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

namespace {

absl::Status may_not_copy(const OpenArray& here, const OpenArray& from) {
  return make_error(
      ErrorCode::kDenied,
      fmt::format("the newest version of '{}' is on {}, and this process may not copy it to {} "
                  "(mode {:#o})",
                  from.name(), from.kind().device, here.kind().device, here.kind().mode),
      "Read it where it is, or let a process that may write the array read it here first.");
}

absl::Status out_of_reach(const OpenArray& home, const OpenArray& from) {
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("the newest version of '{}' is out of this process's reach: {}",
                                home.name(), wire::message_of(from.reach())),
                    "Let a process that sees that GPU read the array here, which copies the "
                    "version; or add it to CUDA_VISIBLE_DEVICES.");
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
  const wire::WriterRow* const row = array.writer_row(at);
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

absl::Status did_not_come(const OpenArray& here, const WaitLimit& wait_limit) {
  return make_error(ErrorCode::kTimeout,
                    fmt::format("no version could be copied to '{}' within {}, as others write it, "
                                "or copy to it, or hold its slots",
                                here.name(), wait_limit.limit_text()),
                    fmt::format("Wait longer, or look who it is: memleasectl --directory={} "
                                "holders {}",
                                here.session().directory(), here.name()));
}

// Nothing can be copied just now: until a write here has ended, or else for a moment.
absl::Status pause(OpenArray& here, WaitLimit& wait_limit, Backoff& moments) {
  auto status = sleep_until_change(here, wait_limit, [&] {
    return another_writes(here) ? std::chrono::nanoseconds::max() : moments.next();
  });
  if (status.ok()) status = wait_limit.step();
  if (!status.ok()) return status;
  return wait_limit.expired() ? did_not_come(here, wait_limit) : absl::OkStatus();
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

// On the home's board.
std::uint32_t bit_of(const OpenArray& replica) {
  return std::uint32_t{1} << replica.facts().rare().replica_number;
}

}  // namespace

absl::Status sleep_until_change(OpenArray& array, WaitLimit& wait_limit,
                                absl::FunctionRef<std::chrono::nanoseconds()> longest) {
  auto reader = array.reader([&] { return wait_limit.check_call(); });
  if (!reader.ok()) return reader.status();
  const SlotReader::Counts counts = (*reader)->counts();
  const Sleeper sleeper(**reader);
  wait_limit.sleep(counts.span(), longest());
  return absl::OkStatus();
}

absl::Status say_elsewhere(OpenArray& replica, const OpenArray& home, InterruptCheck interrupt) {
  const bool said = (home.board().elsewhere.load() & bit_of(replica)) != 0;
  if (said || leaves_out("say that versions are elsewhere")) return absl::OkStatus();
  return replica.named(replica.session().control().write_elsewhere(replica.facts().id, interrupt));
}

// From the host the reader's stream copies, and what it is given next runs behind that.
absl::Status VersionCopier::copy_and_publish(Source& source, const WriteAttempt& write) {
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
  if (publish) here_.writing().slot_writer()->count_copied();
  auto ended = end_copy(here_, write, publish, streams);
  crash_point("device.replica_published");
  return status.ok() ? ended : status;
}

// A write that may begin at once: whoever waited with the version held, for a slot or ownership,
// might wait for one that waits for him. Else not_now().
absl::Status VersionCopier::begin_at_once(WriteAttempt& write, const WriteNumber& number) {
  WaitLimit limit = at_once(here_.session(), interrupt_check_);
  auto status = ownership_.begin(limit, write, IfNoSlot::kSkip, number);
  const ErrorCode code = wire::code_of(status);
  if (status.ok() || (code != ErrorCode::kNoFreeSlot && code != ErrorCode::kTimeout)) return status;
  holds_slots_itself_ = code == ErrorCode::kNoFreeSlot && here_.holds_back_slots();
  write.outcome = WriteOutcome::kNoFreeSlot;
  return not_now("the slots are in use");
}

// The home gives its next number, while nobody else gets any.
absl::Status VersionCopier::begin_new_number(const Source& source, WriteAttempt& write) {
  WriteNumber number{.copied = source.version(), .is_new = true};
  auto status = say_elsewhere(here_, home_, [&] { return check(); });
  if (!status.ok()) return status;
  WaitLimit limit = at_once(here_.session(), interrupt_check_);
  status = claim_number(home_, limit, true);
  if (wire::code_of(status) == ErrorCode::kTimeout) return not_now("the slots are in use");
  if (!status.ok()) return status;
  number.home = home_.writing().slot_writer();
  status = check_still_newest(source);
  if (status.ok()) status = begin_at_once(write, number);
  if (status.ok()) {
    here_.writing().set_numbered_by(home_);
  } else {
    home_.end_number();
  }
  return status;
}

// Its number cannot be had here any more: the same content gets a new one, while nobody else gives
// any. Nothing happens where a newer version is there by then. Or not_now().
absl::Status VersionCopier::copy_with_new_number(Source& source) {
  WriteAttempt write;
  if (&here_ != &home_) {
    auto status = begin_new_number(source, write);
    return status.ok() ? copy_and_publish(source, write) : status;
  }
  auto status = begin_at_once(write, {.copied = source.version(), .is_new = true});
  if (!status.ok()) return status;
  if (status = check_still_newest(source); status.ok()) return copy_and_publish(source, write);
  LeaseStreams untouched;
  end_copy(here_, write, false, untouched).IgnoreError();
  return status;
}

// Or not_now(). For who has the home's number.
absl::Status VersionCopier::check_still_newest(const Source& source) {
  const auto newest = places_.newest([&] { return check(); });
  if (!newest.ok()) return newest.status();
  const bool is_newest = *newest == source.version() && knows_all_places();
  return is_newest ? absl::OkStatus() : not_now("a newer version may be elsewhere");
}

// A place that was written since may have a newer version: who has begun looks for it again.
bool VersionCopier::knows_all_places() const {
  return places_.are_all(&here_ == &home_ ? 0 : bit_of(here_));
}

absl::Status VersionCopier::copy(Source& source) {
  WriteAttempt write;
  // In an only slot the home may give it up, and then looks for it here.
  if (&here_ != &home_ && here_.slots() == 1) {
    if (auto said = say_elsewhere(here_, home_, [&] { return check(); }); !said.ok()) return said;
  }
  auto status = begin_at_once(write, {.copied = source.version()});
  if (status.ok()) return copy_and_publish(source, write);
  if (write.outcome != WriteOutcome::kNumberUsed) return status;
  auto version = here_.current_version([&] { return check(); });
  if (!version.ok()) return version.status();
  const bool was_faster = *version >= source.version() && !here_.only_slot_is_empty();
  if (was_faster) return absl::OkStatus();  // another process
  return copy_with_new_number(source);
}

// On a GPU, within the reader's time: the writer's work may last, and more of it be queued.
absl::Status VersionCopier::wait_until_complete(const Source& source) {
  ReaderOrder& order = source.array().gpu()->order()->reader();
  for (LookPauses looks;; looks.pause()) {
    const auto complete = order.version_complete(source.slot(), source.version());
    // An error is the copy's to tell.
    if (!complete.ok() || *complete) return absl::OkStatus();
    ownership_.release();  // others of this process may write meanwhile, the work's own among them
    if (auto status = wait_limit_.step(); !status.ok()) return status;
    if (wait_limit_.expired()) {
      return make_error(
          ErrorCode::kTimeout,
          fmt::format("version {} of '{}' was not complete on {} within {}: its writer's stream is "
                      "at work still",
                      source.version(), home_.name(), source.array().kind().device,
                      wait_limit_.limit_text()),
          "Wait longer; a writer that waits for its stream now and then keeps it shorter.");
    }
  }
}

// Or not_now().
absl::Status VersionCopier::copy_from(OpenArray& from, std::uint64_t newer_than,
                                      ReadAttempt& found) {
  const auto reader = from.reader([&] { return check(); });
  if (!reader.ok()) return reader.status();
  const ReadAttempt held = (*reader)->acquire(0, newer_than);
  if (held.outcome == ReadOutcome::kTooManyHeld) {
    return make_error(ErrorCode::kTooManyHeld,
                      fmt::format("this process holds as many versions of '{}' as it may, so "
                                  "that it can copy none to {}",
                                  from.name(), here_.kind().device),
                      "Release leases or delete views of it.");
  }
  if (came_to_nothing(held) && !another_writes(home_)) {
    found = held;
    return nothing_came(from, held);
  }
  // Its only slot is being written, or a later version comes.
  if (held.outcome != ReadOutcome::kAcquired) return not_now("the version's slot is in use");
  if (!from.keep(held)) return absl::OkStatus();
  Source source(from, held, interrupt_check_);
  auto status = from.map_slot(held.slot, [&] { return check(); });
  if (status.ok() && from.gpu() != nullptr) status = wait_until_complete(source);
  return status.ok() ? copy(source) : status;
}

// Whoever writes without a pause leaves no moment to copy in.
absl::Status VersionCopier::acquire_ownership_to_copy() {
  auto status = ownership_.acquire(wait_limit_);
  const bool late = !status.ok() && wire::code_of(status) == ErrorCode::kTimeout;
  return late ? did_not_come(here_, wait_limit_) : status;
}

absl::Status VersionCopier::bring(std::uint64_t least, ReadAttempt& found) {
  const auto may_go_on = [&] { return check(); };
  const bool writes_here =
      here_.writing().entered_by_this_thread() || home_.writing().entered_by_this_thread();
  Backoff moments(std::chrono::milliseconds(1), std::chrono::milliseconds(10));
  // For as long another thread's lease may last, or a name that is bound again.
  constexpr std::chrono::seconds kOwnHolds{1};
  std::optional<std::chrono::steady_clock::time_point> held_since;
  bool has_waited = false;
  for (;;) {
    const auto version = here_.current_version(may_go_on);
    if (!version.ok()) return version.status();
    if (*version >= least && !here_.only_slot_is_empty()) return absl::OkStatus();
    const auto place = places_.place_of_newer(may_go_on);
    if (!place.ok()) return place.status();
    if (*place == nullptr) return absl::OkStatus();  // it has been lost, or given up here
    if (!knows_all_places()) return absl::OkStatus();
    const bool stands = !(*place)->only_slot_is_empty();  // else there is an error to find
    if (stands && !(*place)->reach().ok()) return out_of_reach(home_, **place);
    if (stands && !here_.facts().may_write) return may_not_copy(here_, **place);
    if (stands && writes_here) return writes_itself(here_);
    holds_slots_itself_ = false;
    const bool now = !another_writes(here_);
    const std::uint64_t newest_here = here_.only_slot_is_empty() ? 0 : *version;
    auto status = now ? copy_from(**place, newest_here, found) : not_now("another process writes");
    ownership_.release();
    if (is_not_now(status)) {
      const auto time = std::chrono::steady_clock::now();
      // The first one may be this very copy.
      const bool wait_for_ownership = has_waited && another_writes(here_);
      if (!holds_slots_itself_) {
        held_since.reset();
      } else if (!held_since) {
        held_since = time;
      }
      if (held_since && (wait_limit_.expired() || time - *held_since > kOwnHolds)) {
        return holds_the_slots_itself(here_);
      }
      status =
          wait_for_ownership ? acquire_ownership_to_copy() : pause(here_, wait_limit_, moments);
      has_waited = true;
    }
    if (!status.ok()) return status;
    if (status = wait_limit_.step(); !status.ok()) return status;
  }
}

}  // namespace memlease::internal
