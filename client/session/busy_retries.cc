#include "client/session/busy_retries.h"

#include <algorithm>
#include <thread>

#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::internal {

using wire::ErrorCode;

absl::Status BusyRetries::after(const absl::Status& failed) {
  ++tries_;
  absl::Status stop = failed;
  if (wire::code_of(failed) == ErrorCode::kBusy) {
    busy_ = failed;
    stop = interrupt_();
    if (stop.ok() && std::chrono::steady_clock::now() < end_) {
      pause();
      return absl::OkStatus();
    }
  }
  if (busy_.ok() || (!stop.ok() && wire::code_of(stop) != ErrorCode::kTimeout)) return stop;
  return stayed_busy();
}

// Random, so that those whom the daemon has sent away together do not all come back together.
void BusyRetries::pause() {
  std::uniform_int_distribution<std::int64_t> some(longest_.count() / 4, longest_.count());
  std::this_thread::sleep_for(std::chrono::microseconds(some(random_)));
  longest_ = std::min<std::chrono::microseconds>(2 * longest_, kInterruptInterval);
}

absl::Status BusyRetries::stayed_busy() const {
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin_;
  return wire::make_error(
      ErrorCode::kTimeout,
      fmt::format("the daemon in {} stayed busy ({} tries in {:.1f} s): {}", directory_, tries_,
                  time.count(), wire::message_of(busy_)),
      "Very many processes connect at once, or the daemon is stopped or overloaded: try again, or "
      "give connect() a longer timeout.");
}

}  // namespace memlease::internal
