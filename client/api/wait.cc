#include <memlease/wait.h>

#include <utility>

#include "client/api/follower_state.h"
#include "client/api/throw.h"
#include "client/api/wait_for_any.h"
#include "client/arrays/array_handle.h"
#include "client/arrays/await_any.h"
#include "wire/error.h"

namespace memlease {

Awaited::Awaited(const Array& array, std::uint64_t newer_than)
    : handle_(array.handle_), newer_than_(newer_than) {}

Awaited::Awaited(const Follower& follower) : Awaited(follower, follower.last()) {}

Awaited::Awaited(const Follower& follower, std::uint64_t newer_than)
    : handle_(follower.closed() ? nullptr : follower.state_->share_handle()),
      follower_(follower.state_),
      newer_than_(newer_than) {}

namespace internal {

absl::StatusOr<Awaited> WaitForAny::prepare(const memlease::Awaited& one, WaitLimit& wait_limit) {
  const auto check = [&] { return wait_limit.check_call(); };
  absl::StatusOr<std::uint64_t> newer_than = one.newer_than_;
  if (one.newer_than_ == kCurrent) newer_than = one.handle_->current_version(check);
  // Which is ready, whatever it is asked for.
  if (wire::code_of(newer_than.status()) == wire::ErrorCode::kWithdrawn) newer_than = 0;
  if (!newer_than.ok()) return newer_than.status();
  return one.handle_->awaited(*newer_than, check);
}

std::vector<std::size_t> WaitForAny::wait(const std::vector<memlease::Awaited>& all,
                                          Timeout timeout, const Stop* stop) {
  std::vector<std::size_t> closed;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const memlease::Awaited& one = all[i];
    if (one.handle_ == nullptr || (one.follower_ != nullptr && one.follower_->closed())) {
      closed.push_back(i);
      continue;
    }
    const auto status = one.handle_->use();
    if (wire::code_of(status) != wire::ErrorCode::kWithdrawn) internal::check(status);
  }
  if (all.empty() || !closed.empty()) return closed;
  const internal::ArrayHandle& first = *all.front().handle_;
  internal::WaitLimit wait_limit(first.array().session(), first.interrupt_check(), timeout,
                                 kForever, kNoInterrupts, stop);
  wait_limit.start();
  std::vector<internal::Awaited> awaited;
  for (const memlease::Awaited& one : all) {
    auto prepared = prepare(one, wait_limit);
    const bool is_late = wire::code_of(prepared.status()) == wire::ErrorCode::kTimeout;
    if (is_late && wait_limit.expired()) return {};
    awaited.push_back(internal::value_or_throw(std::move(prepared)));
    if (one.follower_ != nullptr) one.follower_->complete(awaited.back());
    awaited.back().is_over = [handle = one.handle_, follower = one.follower_] {
      return handle->closed() || (follower != nullptr && follower->closed());
    };
  }
  return internal::value_or_throw(internal::await_any(awaited, wait_limit));
}

std::vector<std::size_t> wait_until(const Stop& stop, const std::vector<memlease::Awaited>& all,
                                    Timeout timeout) {
  return WaitForAny::wait(all, timeout, &stop);
}

}  // namespace internal

std::vector<std::size_t> wait(const std::vector<Awaited>& all, Timeout timeout) {
  return internal::WaitForAny::wait(all, timeout, nullptr);
}

}  // namespace memlease
