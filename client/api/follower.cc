#include <utility>

#include "absl/cleanup/cleanup.h"
#include "client/api/follower_state.h"
#include "client/api/read_within.h"
#include "client/api/throw.h"
#include "client/arrays/open_array.h"
#include "client/session/wait_news.h"
#include "fmt/format.h"
#include "wire/error.h"

namespace memlease {

using internal::ArrayHandle;
using internal::ReadAttempt;
using internal::ReadOutcome;

namespace {

absl::Status follower_closed() {
  return wire::make_error(wire::ErrorCode::kClosed, "this follower has been closed",
                          "Call follow() again.");
}

absl::Status follower_at_end(const ArrayHandle& handle) {
  return wire::make_error(
      wire::ErrorCode::kClosed,
      fmt::format("the writer of '{}' has gone, and this follower has no version left to give",
                  handle.array().name()),
      "next_or_end() gives nothing then. Call follow() again to wait for another writer.");
}

}  // namespace

absl::Status Follower::State::begin_step() {
  std::uint64_t expected = kIdle;
  do {
    if (step.compare_exchange_strong(expected, running())) return absl::OkStatus();
  } while (expected != kClosed && expected != running());
  if (expected == kClosed) return follower_closed();
  return wire::make_error(wire::ErrorCode::kBusy, "another thread waits in this follower",
                          "Give each thread a follower of its own.");
}

void Follower::State::end_step() {
  std::uint64_t expected = running();
  if (!step.compare_exchange_strong(expected, kIdle)) handle.reset();
}

std::shared_ptr<ArrayHandle> Follower::State::share_handle() {
  if (const auto status = begin_step(); !status.ok()) {
    if (!closed()) internal::throw_error(status);
    return nullptr;
  }
  const absl::Cleanup end = [this] { end_step(); };
  return handle;
}

absl::Status Follower::State::take(Timeout wait, const internal::Stop* stop, ReadAttempt& attempt) {
  attempt = handle->read_at_once(0, last);
  return attempt.outcome == ReadOutcome::kAcquired ? absl::OkStatus() : await(wait, stop, attempt);
}

absl::Status Follower::State::await(Timeout wait, const internal::Stop* stop,
                                    ReadAttempt& attempt) {
  ReadOptions read;
  read.newer_than = last;
  read.timeout = wait;
  read.stream = options.stream;
  bool at_end = is_at_end();
  const auto goes_on = [&] {
    if (closed()) return follower_closed();
    at_end = is_at_end();
    return at_end ? follower_at_end(*handle) : absl::OkStatus();
  };
  auto status =
      at_end ? goes_on() : internal::read_within(*handle, read, kForever, attempt, goes_on, stop);
  if (options.until_writer_gone && wire::code_of(status) == wire::ErrorCode::kWithdrawn) {
    at_end = true;
    status = follower_at_end(*handle);
  }
  // A version that will never come is told once; the next step waits for what comes after it.
  if (!status.ok() && internal::came_to_nothing(attempt)) {
    if (last != 0) skip(attempt.version - last);
    last = attempt.version;
  }
  if (at_end && !status.ok()) {
    step.store(kClosed);
    event.set_readable();
  } else if (!status.ok()) {
    watch_again();
  }
  return status;
}

void Follower::State::complete(internal::Awaited& awaited) const {
  awaited.is_over = [handle = handle] { return handle->closed(); };
  awaited.until_writer_gone = options.until_writer_gone;
  awaited.begun = last != options.after;
}

bool Follower::State::is_at_end() const {
  if (!options.until_writer_gone || !handle->ready()) return false;
  internal::Awaited awaited{handle->share_array(), last, {}};
  handle->look_anywhere(awaited);
  complete(awaited);
  awaited.reader = awaited.array->reader_if_subscribed();
  return internal::is_at_end(awaited);
}

void Follower::State::skip(std::uint64_t versions) {
  skipped += versions;
  if (wire::SessionCounts* const counts = handle->array().counts()) {
    counts->versions_skipped.fetch_add(versions, std::memory_order_relaxed);
  }
}

ReadLease Follower::State::lease_of(const ReadAttempt& attempt) {
  if (last != 0 && attempt.version != last + 1) skip(attempt.version - last - 1);
  last = attempt.version;
  ++seen;
  watch_again();
  internal::OpenArray& array = handle->array();
  const std::uint64_t interrupt = handle->interrupt_check();
  if (array.gpu() == nullptr) return {array, attempt.version, attempt.slot, interrupt};
  return ReadLease::begin(array, attempt.version, attempt.slot, interrupt, options.stream);
}

void Follower::State::watch_again() {
  if (!event.is_open()) return;
  auto next = handle->awaited(last, internal::kNoInterrupts);
  if (!next.ok()) return;  // it stays readable, or will be
  complete(*next);
  event.taken(*std::move(next));
}

Follower::Follower(std::shared_ptr<ArrayHandle> handle, const FollowOptions& options)
    : state_(std::make_shared<State>(std::move(handle), options)) {}

Follower::Follower(Follower&&) noexcept = default;
Follower& Follower::operator=(Follower&&) noexcept = default;
Follower::~Follower() = default;

Follower::State& Follower::state() const {
  if (state_ == nullptr) internal::throw_error(follower_closed());  // it has been moved from
  return *state_;
}

ReadLease Follower::next() { return next(nullptr); }

ReadLease Follower::next(const internal::Stop* stop) {
  State& s = state();
  internal::check(s.begin_step());
  const absl::Cleanup end = [&s] { s.end_step(); };
  ReadAttempt attempt;
  internal::check(s.take(s.options.timeout, stop, attempt));
  return s.lease_of(attempt);
}

std::optional<ReadLease> Follower::next_or_end() { return next_or_end(nullptr); }

std::optional<ReadLease> Follower::next_or_end(const internal::Stop* stop) {
  if (closed()) return std::nullopt;
  State& s = state();
  auto status = s.begin_step();
  if (!status.ok() && closed()) return std::nullopt;
  internal::check(status);
  const absl::Cleanup end = [&s] { s.end_step(); };
  ReadAttempt attempt;
  status = s.take(s.options.timeout, stop, attempt);
  if (!status.ok() && closed()) return std::nullopt;
  internal::check(status);
  return s.lease_of(attempt);
}

std::optional<ReadLease> Follower::try_next() {
  return next_within(std::chrono::nanoseconds::zero(), nullptr);
}

std::optional<ReadLease> Follower::next_within(std::chrono::nanoseconds timeout,
                                               const internal::Stop* stop) {
  State& s = state();
  internal::check(s.begin_step());
  const absl::Cleanup end = [&s] { s.end_step(); };
  ReadAttempt attempt;
  const auto status = s.take(timeout, stop, attempt);
  const bool is_late = wire::code_of(status) == wire::ErrorCode::kTimeout && !status.ok();
  if (is_late && stop == nullptr) return std::nullopt;
  internal::check(status);
  return s.lease_of(attempt);
}

int Follower::event_fd() {
  State& s = state();
  if (s.closed() && s.event.is_open()) return s.event.fd();
  internal::check(s.begin_step());
  const absl::Cleanup end = [&s] { s.end_step(); };
  const ArrayHandle& by = *s.handle;
  auto awaited = internal::value_or_throw(s.handle->awaited(
      s.last, [&] { return by.array().session().check_interrupt(by.interrupt_check()); }));
  s.complete(awaited);
  return internal::value_or_throw(s.event.open(std::move(awaited)));
}

std::uint64_t Follower::last() const noexcept { return state_ == nullptr ? 0 : state_->last; }

std::uint64_t Follower::skipped() const noexcept { return state_ == nullptr ? 0 : state_->skipped; }

std::uint64_t Follower::seen() const noexcept { return state_ == nullptr ? 0 : state_->seen; }

bool Follower::closed() const noexcept { return state_ == nullptr || state_->closed(); }

void Follower::close() noexcept {
  if (state_ == nullptr) return;
  const std::uint64_t before = state_->step.exchange(State::kClosed);
  if (before != State::running() && before != State::kClosed) state_->handle.reset();
  state_->event.set_readable();
  internal::wait_news.tell();
}

}  // namespace memlease
