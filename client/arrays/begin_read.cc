#include "client/arrays/begin_read.h"

#include "client/arrays/counted_wait.h"
#include "client/arrays/not_now.h"
#include "client/arrays/share.h"
#include "client/slots/spin.h"
#include "fmt/format.h"
#include "wire/error.h"
#include "wire/hooks/test_hooks.h"

namespace memlease::internal {
namespace {

using wire::ErrorCode;
using wire::make_error;

std::string current_text(OpenArray& array, std::uint64_t version) {
  const wire::WriterRow* writer =
      array.writer_row(wire::writer_row_of(array.board().writer.load()));
  const bool only_slot = array.slots() == 1 && writer != nullptr;
  if (only_slot && (writer->slot_words()[0].load() & wire::kHandedOut) != 0) {
    return "its only slot is being written";
  }
  if (version == 0 && (writer == nullptr || writer->highest_used.load() == 0)) {
    return "none has been published";
  }
  if (version == 0 || array.only_slot_is_empty()) return "there is none now";
  return fmt::format("current is {}", version);
}

std::string wanted_text(const ReadOptions& options) {
  if (options.version != 0) return fmt::format("version {}", options.version);
  if (options.newer_than != 0) return fmt::format("a version above {}", options.newer_than);
  return "a version";
}

// The array as the caller may have it: acquired, to wait for, or an error.
absl::Status verdict(OpenArray& array, const ReadOptions& options, const ReadAttempt& attempt) {
  switch (attempt.outcome) {
    case ReadOutcome::kAcquired:
    case ReadOutcome::kNotYet:
    case ReadOutcome::kUnmapped:
    case ReadOutcome::kUntried:
      return absl::OkStatus();
    case ReadOutcome::kGone:
      return version_gone(array, options.version, array.known_version());
    case ReadOutcome::kProducerDied:
    case ReadOutcome::kWriteAborted:
      return nothing_came(array, attempt);
    case ReadOutcome::kTooManyHeld:
      return too_many_held(array, array.reader_if_subscribed()->most_held());
    case ReadOutcome::kWithdrawn:
      return array.gone(false);
    case ReadOutcome::kDraining:
      return array.gone(true);
  }
  return absl::OkStatus();
}

// With one slot a read waits for the write that goes on; that of the thread itself would never end.
absl::Status refuse_self_deadlock(const OpenArray& array) {
  if (array.slots() != 1 || !array.writing().entered_by_this_thread()) return absl::OkStatus();
  return make_error(
      ErrorCode::kBusy,
      fmt::format("this thread itself is writing '{}', whose only slot has no version "
                  "meanwhile",
                  array.name()),
      "Publish or drop the write lease first (leave its `with`), or create the array "
      "with slots=2 or more.");
}

// Nothing to have yet; or the writer's row is not mapped.
bool must_wait(const ReadAttempt& attempt) {
  return attempt.outcome == ReadOutcome::kNotYet || attempt.outcome == ReadOutcome::kUnmapped;
}

// Maps the row that the attempt has not found. OK also where it cannot be had just now: its writer
// has gone, and the board is about to say so, or the daemon does not answer but there is time left.
absl::Status map_writer_row(OpenArray& array, const ReadAttempt& attempt, WaitLimit& wait_limit) {
  const auto status = array.map_writer_row(wire::writer_row_of(attempt.version),
                                           [&] { return wait_limit.check_call(); });
  return !status.ok() && wait_limit.ends_with(status) ? status : absl::OkStatus();
}

// Waits until something may have changed, or for a slice of the wait_limit; the last try's outcome.
// `unmappable`: the writer's row cannot be had just now; otherwise one that is not mapped ends the
// wait, for the caller to map.
ReadAttempt await_change(OpenArray& array, SlotReader& reader, const ReadOptions& options,
                         WaitLimit& wait_limit, CountedWait& wait, bool unmappable) {
  const auto goes_on = [&](const ReadAttempt& attempt) {
    return attempt.outcome == ReadOutcome::kNotYet ||
           (unmappable && attempt.outcome == ReadOutcome::kUnmapped);
  };
  const auto look = [&] {
    return leaves_out("look again before the sleep")
               ? ReadAttempt{ReadOutcome::kNotYet}
               : reader.acquire(options.version, options.newer_than);
  };
  // The counts, then the try: what comes after the try changes the counts.
  crash_point("sleep.begin");
  SlotReader::Counts counts = reader.counts();
  ReadAttempt attempt = look();
  if (!goes_on(attempt)) return attempt;
  if (spin(counts.span(), counts.publisher_cpu)) {
    // The slot's word, its bytes, and the line of our hold come from another processor: at once,
    // rather than one after the other.
    __builtin_prefetch(array.likely_data(reader.likely_slot()));
    return reader.acquire(options.version, options.newer_than);
  }
  const Sleeper sleeper(reader);
  crash_point("sleep.announced");
  attempt = look();
  crash_point("sleep.looked");
  if (leaves_out("take the counts first")) counts = reader.counts();
  if (goes_on(attempt)) {
    wait.sleeps();
    // No word says when a row can be mapped, or what a GPU still does with a slot is known.
    if (unmappable || array.has_deferred()) {
      wait_limit.sleep(counts.span(), kInterruptInterval);
    } else {
      wait_limit.sleep(counts.span());
    }
  }
  return attempt;
}

}  // namespace

absl::Status producer_died(const OpenArray& array, std::uint64_t version) {
  return make_error(
      ErrorCode::kProducerDied,
      fmt::format("the writer of '{}' died in the middle of version {}", array.name(), version),
      fmt::format("Wait for the next version of another writer: read(newer_than={}).", version));
}

absl::Status nothing_came(const OpenArray& array, const ReadAttempt& attempt) {
  if (attempt.outcome == ReadOutcome::kProducerDied) return producer_died(array, attempt.version);
  return make_error(
      ErrorCode::kWriteAborted,
      fmt::format("the last write of '{}', version {}, was given up, and its only slot holds no "
                  "version",
                  array.name(), attempt.version),
      fmt::format("Wait for the next version, read(newer_than={}), or create the array with "
                  "slots=2 or more.",
                  attempt.version));
}

absl::Status version_gone(OpenArray& array, std::uint64_t version, std::uint64_t current) {
  if (array.only_slot_is_empty()) {
    return make_error(ErrorCode::kVersionGone,
                      fmt::format("version {} of '{}' is not there, and no other one is: the last "
                                  "write of its only slot came to nothing",
                                  version, array.name()),
                      "Wait for the next version, or create the array with slots=2 or more.");
  }
  if (version > current) {
    return make_error(ErrorCode::kVersionGone,
                      fmt::format("version {} of '{}' was given up by its writer; {}", version,
                                  array.name(), current_text(array, current)),
                      fmt::format("Read the next one: read(newer_than={}).", current));
  }
  return make_error(ErrorCode::kVersionGone,
                    fmt::format("version {} of '{}' is not there any more; current is {}", version,
                                array.name(), current),
                    "Read the current one, or create the array with more slots.");
}

absl::Status begin_read(OpenArray& array, const ReadOptions& options, WaitLimit& wait_limit,
                        ReadAttempt& attempt) {
  if (auto status = array.usable(); !status.ok()) {
    if (array.ending()) array.leave_if_due();
    return status;
  }
  auto reader_or = array.reader([&] { return wait_limit.check_call(); });
  if (!reader_or.ok()) return reader_or.status();
  SlotReader& reader = **reader_or;
  CountedWait wait(array, &wire::SessionCounts::version_waits);
  for (;;) {
    attempt = reader.acquire(options.version, options.newer_than);
    if (attempt.outcome == ReadOutcome::kUnmapped) {
      if (auto status = map_writer_row(array, attempt, wait_limit); !status.ok()) return status;
      attempt = reader.acquire(options.version, options.newer_than);
    }
    const bool unmappable = attempt.outcome == ReadOutcome::kUnmapped;
    const bool last = must_wait(attempt) && wait_limit.expired();
    if (must_wait(attempt) && !last) {
      if (auto status = refuse_self_deadlock(array); !status.ok()) return status;
      if (array.board().elsewhere.load() != 0) return not_now("versions are elsewhere");
      // A writer may wait for a slot that this process itself still keeps.
      array.release_deferred_if_unused();
      attempt = await_change(array, reader, options, wait_limit, wait, unmappable);
    }
    if (attempt.outcome == ReadOutcome::kAcquired) {
      if (array.keep(attempt)) {
        auto status = array.map_slot(attempt.slot, [&] { return wait_limit.check_call(); });
        if (!status.ok()) array.end_read(attempt.slot);
        return status;
      }
      attempt = {};  // given back; the array may have been opened again since it was closed
      array.leave_if_due();
      auto status = array.usable();
      return status.ok() ? Membership::handle_closed(array.name()) : status;
    }
    if (auto status = verdict(array, options, attempt); !status.ok()) {
      array.leave_if_due();  // it has been withdrawn
      return status;
    }
    if (auto status = wait_limit.step(); !status.ok()) return status;
    if (last) {
      return make_error(
          ErrorCode::kTimeout,
          fmt::format("{} of '{}' did not come within {}; {}", wanted_text(options), array.name(),
                      wait_limit.limit_text(), current_text(array, array.known_version())),
          fmt::format("Is its writer running? memleasectl --directory={} holders {}",
                      array.session().directory(), array.name()));
    }
  }
}

}  // namespace memlease::internal
