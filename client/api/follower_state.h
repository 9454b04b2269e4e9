// What a Follower is made of. Shared with the waits for it (Awaited), which outlive it.
#pragma once

#include <memlease/array.h>
#include <memlease/follower.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "client/arrays/array_handle.h"
#include "client/arrays/event_descriptor.h"
#include "client/session/fork_guard.h"
#include "client/slots/slot_reader.h"

namespace memlease {

struct Follower::State {
  // Whoever ends a step that was closed meanwhile, or is the last, lets the handle go; else the
  // first close() does.
  static constexpr std::uint64_t kIdle = 0;
  static constexpr std::uint64_t kClosed = 1;
  // By a thread of this process: one of the parent's is not in a forked child.
  static std::uint64_t running() { return 2 + std::uint64_t{internal::fork_generation()}; }
  std::atomic<std::uint64_t> step{kIdle};
  std::shared_ptr<internal::ArrayHandle> handle;  // used inside of a step alone
  const FollowOptions options;
  std::uint64_t last = 0;
  std::uint64_t seen = 0;
  std::uint64_t skipped = 0;

  internal::EventDescriptor event;

  State(std::shared_ptr<internal::ArrayHandle> by, const FollowOptions& how)
      : handle(std::move(by)), options(how), last(how.after) {}
  // By any thread.
  bool closed() const { return step.load() == kClosed; }
  // kClosed, or kBusy where another thread is in a step.
  absl::Status begin_step();
  void end_step();
  // nullptr: it has been closed. Throws Busy.
  std::shared_ptr<internal::ArrayHandle> share_handle();
  // Inside of a step. The next version; else kTimeout, or what a read says.
  absl::Status take(Timeout wait, const internal::Stop* stop, internal::ReadAttempt& attempt);
  absl::Status await(Timeout wait, const internal::Stop* stop, internal::ReadAttempt& attempt);
  ReadLease lease_of(const internal::ReadAttempt& attempt);
  // What follow() was asked for, in a wait for the next version.
  void complete(internal::Awaited& awaited) const;
  bool is_at_end() const;
  // Newer ones were there, or they will never come.
  void skip(std::uint64_t versions);
  // The descriptor, if there is one, is for what comes after `last` from now on.
  void watch_again();
};

}  // namespace memlease
