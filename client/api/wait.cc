#include <memlease/wait.h>

#include <utility>

#include "client/api/follower_state.h"
#include "client/api/throw.h"
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

struct WaitForAny {
  static std::vector<std::size_t> wait(const std::vector<memlease::Awaited>& all, Timeout timeout,
                                       const Stop* stop);
};

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
  std::vector<internal::Awaited> awaited;
  for (const memlease::Awaited& one : all) {
    awaited.push_back(internal::value_or_throw(
        one.handle_->awaited(one.newer_than_, [&] { return wait_limit.check_call(); })));
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
