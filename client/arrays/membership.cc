#include "client/arrays/membership.h"

#include <chrono>

#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::internal {

using wire::ErrorCode;
using wire::make_error;

absl::Status Membership::handle_closed(const std::string& name) {
  return make_error(ErrorCode::kClosed, fmt::format("this handle of '{}' has been closed", name),
                    "Open the array again; connect() first where the client was closed, too.");
}

bool Membership::reopen() {
  const wire::MutexLock lock(lock_.mutex);
  while (busy_ == Busy::kLeaving) {
    if (alone_ == std::this_thread::get_id()) return false;
    lock_.idle.wait(lock_.mutex);
  }
  if (left_) return false;
  ++opens_;
  ++handles_;
  closed_.store(false);
  return true;
}

bool Membership::add_handle() {
  const wire::MutexLock lock(lock_.mutex);
  if (closed_.load() || left_.load()) return false;
  ++handles_;
  return true;
}

void Membership::drop_handle() {
  const wire::MutexLock lock(lock_.mutex);
  --handles_;
}

bool Membership::close_handle() {
  const wire::MutexLock lock(lock_.mutex);
  if (--handles_ != 0) return false;
  closed_.store(true);
  return true;
}

absl::Status Membership::begin_subscribing(const std::string& name, InterruptCheck interrupt) {
  using Clock = std::chrono::steady_clock;
  auto asks = Clock::now() + kInterruptInterval;  // whatever wakes it until then
  wire::MutexLock lock(lock_.mutex);
  while (busy_ != Busy::kIdle) {
    if (alone_ == std::this_thread::get_id()) {
      return make_error(ErrorCode::kBusy,
                        fmt::format("this thread is about to {} '{}', and reads it from its signal "
                                    "handler or interrupt check",
                                    busy_ == Busy::kSubscribing ? "read" : "leave", name),
                        "Note the signal there, and read after the call.");
    }
    if (lock_.idle.wait_until(lock_.mutex, asks) == std::cv_status::no_timeout) continue;
    lock.unlock();
    if (auto status = interrupt(); !status.ok()) return status;
    asks = Clock::now() + kInterruptInterval;
    lock.lock();
  }
  busy_ = Busy::kSubscribing;
  alone_ = std::this_thread::get_id();
  return absl::OkStatus();
}

std::optional<std::uint32_t> Membership::begin_leaving() {
  const wire::MutexLock lock(lock_.mutex);
  while (busy_ == Busy::kLeaving) lock_.idle.wait(lock_.mutex);
  if (busy_ == Busy::kSubscribing || left_) return std::nullopt;
  busy_ = Busy::kLeaving;
  alone_ = std::this_thread::get_id();
  return opens_;
}

void Membership::end() {
  const wire::MutexLock lock(lock_.mutex);
  busy_ = Busy::kIdle;
  lock_.idle.notify_all();
}

std::uint32_t Membership::opens() {
  const wire::MutexLock lock(lock_.mutex);
  return opens_;
}

}  // namespace memlease::internal
