#include <memlease/for_bindings.h>

#include <chrono>
#include <cstring>

#include "client/api/throw.h"
#include "client/api/wait_for_any.h"
#include "client/api/write_within.h"
#include "client/arrays/begin_write.h"
#include "client/arrays/open_array.h"
#include "client/arrays/release_views.h"
#include "client/arrays/wait_limit.h"
#include "client/ordering/element_layout.h"
#include "client/session/exit_note.h"
#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::internal {

std::uint64_t ForBindings::publish(WriteLease& lease, Stream stream, bool late_writes) {
  return lease.publish_over(stream, late_writes);
}

std::optional<ReadLease> ForBindings::next_within(Follower& follower,
                                                  std::chrono::nanoseconds timeout,
                                                  const Stop& stop) {
  return follower.next_within(timeout, &stop);
}

void ForBindings::tell_of_exit() { internal::tell_of_exit(); }

bool ForBindings::is_strict(const WriteLease& lease) noexcept { return lease.strict_; }

bool ForBindings::is_empty(const WriteLease& lease) noexcept { return !lease.used_; }

bool ForBindings::is_unspecified(const WriteLease& lease) noexcept {
  const OpenArray* const array = lease.state_;
  if (lease.used_ || array == nullptr || array->gpu() != nullptr) return false;
  // The only slot has the current version's bytes, if that stands.
  return array->slots() != 1 || array->writing().slot_writer()->current().version == 0;
}

void ForBindings::begin_with_current(WriteLease& lease) {
  if (!is_unspecified(lease)) return;
  OpenArray& array = lease.live();
  if (array.facts().rare().home || array.board().elsewhere.load() != 0) {
    throw_error(wire::make_error(
        wire::ErrorCode::kInvalidArgument,
        fmt::format("the bytes of a write lease of '{}' are unspecified until all are written, and "
                    "its newest version may be on another device",
                    array.name()),
        "Begin with array.update()."));
  }
  if (array.writing().slot_writer()->current().version == 0) {
    std::memset(array.write_data(lease.slot_), 0, array.facts().slot_bytes);
  } else {
    check(copy_current_to(array, lease.slot_, [&] {
      return array.session().check_interrupt(lease.streams_.interrupt_check);
    }));
  }
  lease.used_ = true;
}

WriteLease ForBindings::write(const Array& array, const WriteOptions& options) {
  return array.write(options, nullptr, Pins::kPrepared);
}

WriteLease ForBindings::update(const Array& array, const WriteOptions& options) {
  return array.update(options, nullptr, Pins::kPrepared);
}

std::optional<WriteLease> ForBindings::try_write(const Array& array, const WriteOptions& options) {
  return array.try_write(options, Pins::kPrepared);
}

bool ForBindings::try_read_at_once(const Array& array, const ReadOptions& options,
                                   std::optional<ReadLease>& lease) {
  const ReadAttempt attempt = array.handle_->read_at_once(options.version, options.newer_than);
  if (attempt.outcome == ReadOutcome::kAcquired) lease = array.lease_of(attempt, options.stream);
  return attempt.outcome == ReadOutcome::kAcquired || attempt.outcome == ReadOutcome::kNotYet;
}

std::optional<std::uint64_t> ForBindings::version_at_once(const Array& array) {
  const ArrayHandle& handle = *array.handle_;
  if (!handle.ready() || handle.has_places() || !handle.array().usable_at_once()) return {};
  OpenArray& state = handle.array();
  const std::uint64_t version = state.known_version();
  // Without one its writer's row may be unknown here.
  if (version == 0 || state.ending()) return {};
  return state.only_slot_is_empty() ? 0 : version;
}

bool ForBindings::would_lose(const WriteLease& lease) noexcept {
  return lease.state_ != nullptr && lease.used_ && !lease.state_->forked();
}

bool ForBindings::should_warn_of_views(const Array& array) {
  OpenArray& state = array.state();
  return !state.forked() && state.view_warning().take(false);
}

bool ForBindings::should_warn_of_views(const ReadLease& lease) {
  OpenArray* const state = lease.state_;
  return state != nullptr && !state->forked() &&
         state->view_warning().take(state->writer_wants_slot());
}

bool ForBindings::is_subscribed(const Array& array) noexcept {
  const ArrayHandle& handle = *array.handle_;
  if (handle.closed()) return true;
  return !handle.array().forked() && handle.array().reader_if_subscribed() != nullptr;
}

void ForBindings::subscribe(const Array& array, const Timeout& timeout) {
  ArrayHandle& handle = *array.handle_;
  const auto still_open = [&] { return handle.use(); };
  if (!still_open().ok()) return;
  OpenArray& state = handle.array();
  WaitLimit wait_limit(state.session(), handle.interrupt_check(), timeout, kForever, still_open);
  wait_limit.start();
  const auto status = state.reader([&] { return wait_limit.check_call(); }).status();
  if (wire::code_of(status) == wire::ErrorCode::kTimeout) check(status);
}

memlease::Awaited ForBindings::newer_than_current(const Array& array) {
  return {array, WaitForAny::kCurrent};
}

ElementLayout ForBindings::layout_of(const Array& array, const Region& region) {
  return value_or_throw(internal::layout_of(array.state().kind(), array.state().name(), region));
}

bool ForBindings::is_of(const ReadLease& lease, const Array& array) noexcept {
  return lease.state_ == &array.state();
}

std::uint32_t ForBindings::held_slots(const Array& array) {
  const OpenArray& state = array.state();
  const SlotReader* reader = state.forked() ? nullptr : state.reader_if_subscribed();
  return reader == nullptr ? 0 : reader->held();
}

void ForBindings::release_views(const Array& array) {
  OpenArray& state = array.state();
  if (!state.forked()) check(internal::release_views(state));
}

}  // namespace memlease::internal
