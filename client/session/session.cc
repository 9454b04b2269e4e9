#include "client/session/session.h"

#include <cxxabi.h>

#include <utility>

#include "client/session/interrupt.h"
#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::internal {
namespace {

using wire::ErrorCode;

}  // namespace

Session::Session(std::string directory, wire::SessionId id, std::unique_ptr<FileSource> files,
                 std::unique_ptr<ControlPort> control)
    : directory_(std::move(directory)),
      id_(id),
      files_(std::move(files)),
      control_(std::move(control)),
      mappings_(*files_),
      fork_generation_(fork_generation()) {}

Session::~Session() = default;

absl::Status Session::usable() {
  if (forked()) {
    return wire::make_error(ErrorCode::kForkedClient,
                            "this handle was made before fork(), in the parent process",
                            "Call connect() in the child, or start workers with spawn.");
  }
  if (ended_.load(std::memory_order_relaxed)) {
    return wire::make_error(ErrorCode::kClosed,
                            "the client has been closed, and its arrays with it",
                            "Call connect() again.");
  }
  const std::int64_t now = coarse_second();
  if (now != last_look_s_.load(std::memory_order_relaxed)) {
    last_look_s_.store(now, std::memory_order_relaxed);
    if (!files_->alive()) lost_.store(true);
  }
  if (lost_.load(std::memory_order_relaxed)) {
    return wire::make_error(ErrorCode::kDaemonLost,
                            fmt::format("the connection to the daemon of {} has ended: the daemon "
                                        "has gone, or its operator has evicted this session",
                                        directory_),
                            "Views stay readable. Connect again; memleasectl health says whether "
                            "the daemon runs.");
  }
  return absl::OkStatus();
}

absl::Status Session::look() {
  last_look_s_.store(0, std::memory_order_relaxed);
  return usable();
}

bool Session::add_connection() {
  const wire::MutexLock lock(mutex_);
  if (ended_.load()) return false;
  ++connections_;
  return true;
}

bool Session::remove_connection(bool closed) {
  const wire::MutexLock lock(mutex_);
  if (--connections_ != 0 || !closed) return false;
  ended_.store(true);
  return true;
}

void Session::set_check_interrupt(std::function<void()> check) {
  if (!check) return;
  auto newest = std::make_shared<const std::function<void()>>(std::move(check));
  const wire::MutexLock lock(interrupt_mutex_);
  check_interrupt_.swap(newest);  // the old one, which is the user's, ends without the lock
}

absl::Status Session::check_interrupt() const {
  std::shared_ptr<const std::function<void()>> check;
  {
    const wire::MutexLock lock(interrupt_mutex_);
    check = check_interrupt_;
  }
  try {
    if (check != nullptr) (*check)();
  } catch (const abi::__forced_unwind&) {
    throw;  // the thread is being ended, as Python ends some at its exit
  } catch (...) {
    return interrupted(std::current_exception());
  }
  return absl::OkStatus();
}

}  // namespace memlease::internal
