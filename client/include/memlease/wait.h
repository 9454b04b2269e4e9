// Waiting for several arrays at once. Standard library only, C++17.
#pragma once

#include <memlease/array.h>
#include <memlease/follower.h>
#include <memlease/stop.h>
#include <memlease/timeout.h>
#include <memlease/version.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace memlease {

namespace internal {
struct WaitForAny;
}

// One thing that wait() waits for. Copyable.
class MEMLEASE_API Awaited {
 public:
  // NOLINTBEGIN(google-explicit-constructor): wait({follower, other}), wait({{array, 3}})
  // A version of the array above this one.
  Awaited(const Array& array, std::uint64_t newer_than = 0);
  // What the follower's next() would give. Throws Busy where another thread is in there.
  Awaited(const Follower& follower);
  Awaited(const Follower& follower, std::uint64_t newer_than);
  // NOLINTEND(google-explicit-constructor)

 private:
  friend struct internal::WaitForAny;
  std::shared_ptr<internal::ArrayHandle> handle_;  // none: the follower has been closed
  std::shared_ptr<Follower::State> follower_;      // none: of an array
  std::uint64_t newer_than_;
};

// Waits until a newer version can be read, of any of the arrays and followers, of one daemon or of
// several; returns the places in `all` of those. Ready is also what a read would not wait for
// because it would throw, as Withdrawn; a follower that has been closed; and what another thread
// closes meanwhile, within a tenth of a second. None: the timeout has passed (default: no end), or
// `all` is empty. Throws what Array::read() throws before it waits, and DaemonLost. Takes no lease.
// Beyond 63 arrays it looks at them a thousand times a second.
[[nodiscard]] MEMLEASE_API std::vector<std::size_t> wait(const std::vector<Awaited>& all,
                                                         Timeout timeout = {});

namespace internal {
MEMLEASE_API std::vector<std::size_t> wait_until(const Stop& stop,
                                                 const std::vector<memlease::Awaited>& all,
                                                 Timeout timeout);
}

#if defined(__cpp_lib_jthread)
// The same with a std::stop_token, as Array::read(): a stop throws Interrupted.
inline std::vector<std::size_t> wait(const std::vector<Awaited>& all, internal::StopToken auto stop,
                                     Timeout timeout = {}) {
  return internal::until_stopped(std::move(stop), [&](const internal::Stop& by) {
    return internal::wait_until(by, all, timeout);
  });
}
#endif

}  // namespace memlease
