#include <memlease/wait.h>

#include <utility>

#include "client/api/throw.h"
#include "client/arrays/array_handle.h"
#include "client/arrays/await_any.h"
#include "wire/error.h"

namespace memlease {

std::vector<std::size_t> wait(const std::vector<Awaited>& all, Timeout timeout) {
  if (all.empty()) return {};
  std::vector<internal::Awaited> awaited;
  awaited.reserve(all.size());
  for (const Awaited& one : all) {
    awaited.push_back({one.array.handle_, one.newer_than});
    const auto status = awaited.back().handle->use();
    if (wire::code_of(status) != wire::ErrorCode::kWithdrawn) internal::check(status);
  }
  const internal::ArrayHandle& first = *awaited.front().handle;
  internal::WaitLimit wait_limit(first.array().session(), first.interrupt_check(), timeout,
                                 kForever);
  for (internal::Awaited& one : awaited) {
    internal::check(internal::prepare(one, [&] { return wait_limit.check_call(); }));
  }
  return internal::value_or_throw(internal::await_any(awaited, wait_limit));
}

}  // namespace memlease
