#include <memlease/array.h>
#include <memlease/follower.h>

#include <atomic>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "client/api/await_read.h"
#include "client/api/throw.h"
#include "client/arrays/array_handle.h"
#include "client/arrays/open_array.h"
#include "client/session/fork_guard.h"
#include "wire/error.h"

namespace memlease {

using internal::ArrayHandle;
using internal::ReadAttempt;

namespace {

bool came_to_nothing(const ReadAttempt& attempt) {
  return attempt.outcome == ReadAttempt::Outcome::kProducerDied ||
         attempt.outcome == ReadAttempt::Outcome::kWriteAborted;
}

absl::Status follower_closed() {
  return wire::make_error(wire::ErrorCode::kClosed, "this follower has been closed",
                          "Call follow() again.");
}

}  // namespace

struct Follower::State {
  // Whoever ends a step that was closed meanwhile lets the handle go, else close() does.
  static constexpr std::uint64_t kIdle = 0;
  static constexpr std::uint64_t kClosed = 1;
  // By a thread of this process: one of the parent's is not in a forked child.
  static std::uint64_t running() { return 2 + std::uint64_t{internal::fork_generation()}; }
  std::atomic<std::uint64_t> step{kIdle};
  std::shared_ptr<ArrayHandle> handle;
  const Timeout timeout;
  const Stream stream;
  std::uint64_t last = 0;
  std::uint64_t seen = 0;
  std::uint64_t skipped = 0;

  State(std::shared_ptr<ArrayHandle> by, Timeout wait, std::uint64_t after, Stream on)
      : handle(std::move(by)), timeout(wait), stream(on), last(after) {}
  absl::Status still_open() const {
    return step.load() == kClosed ? follower_closed() : absl::OkStatus();
  }
  absl::Status begin_step();
  void end_step();
  ReadAttempt await();
};

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

ReadAttempt Follower::State::await() {
  ReadOptions options;
  options.newer_than = last;
  options.timeout = timeout;
  ReadAttempt attempt;
  const absl::Status status =
      internal::await_read(*handle, options, stream, attempt, [this] { return still_open(); });
  // A version that will never come is told once; the next step waits for what comes after it.
  if (!status.ok() && came_to_nothing(attempt)) {
    if (last != 0) skipped += attempt.version - last;
    last = attempt.version;
  }
  internal::check(status);
  return attempt;
}

Follower::Follower(std::shared_ptr<ArrayHandle> handle, Timeout timeout, std::uint64_t after,
                   Stream stream)
    : state_(std::make_unique<State>(std::move(handle), timeout, after, stream)) {}

Follower::Follower(Follower&&) noexcept = default;
Follower& Follower::operator=(Follower&&) noexcept = default;
Follower::~Follower() = default;

ReadLease Follower::next() {
  if (state_ == nullptr) internal::throw_error(follower_closed());  // it has been moved from
  State& s = *state_;
  internal::check(s.begin_step());
  const absl::Cleanup end = [&s] { s.end_step(); };
  ReadAttempt attempt = s.handle->read_at_once(0, s.last);
  if (attempt.outcome != ReadAttempt::Outcome::kAcquired) attempt = s.await();
  if (s.last != 0) s.skipped += attempt.version - s.last - 1;
  s.last = attempt.version;
  ++s.seen;
  internal::OpenArray& array = s.handle->array();
  const std::uint64_t interrupt = s.handle->interrupt_check();
  if (array.gpu() == nullptr) return {array, attempt.version, attempt.slot, interrupt};
  return ReadLease::begin(array, attempt.version, attempt.slot, interrupt, s.stream);
}

std::uint64_t Follower::last() const noexcept { return state_ == nullptr ? 0 : state_->last; }

std::uint64_t Follower::skipped() const noexcept { return state_ == nullptr ? 0 : state_->skipped; }

std::uint64_t Follower::seen() const noexcept { return state_ == nullptr ? 0 : state_->seen; }

void Follower::close() noexcept {
  if (state_ == nullptr) return;
  if (state_->step.exchange(State::kClosed) != State::running()) state_->handle.reset();
}

}  // namespace memlease
