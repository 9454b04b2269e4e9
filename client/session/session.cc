#include "client/session/session.h"

#include <utility>

#include "client/session/interrupt.h"
#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::internal {
namespace {

using wire::ErrorCode;

}  // namespace

Session::Session(std::string directory, wire::SessionId id, std::unique_ptr<FileSource> files,
                 std::unique_ptr<ControlPort> control, std::string incarnation)
    : directory_(std::move(directory)),
      id_(id),
      incarnation_(std::move(incarnation)),
      files_(std::move(files)),
      control_(std::move(control)),
      mappings_(*files_),
      fork_generation_(fork_generation()) {}

Session::~Session() = default;

absl::Status Session::usable() {
  if (forked()) {
    return wire::make_error(ErrorCode::kForkedClient,
                            "this lease was taken before fork(), in the parent process",
                            "Take one in the child: arrays and clients open themselves again there "
                            "when they are used.");
  }
  if (ended_.load(std::memory_order_relaxed)) {
    return wire::make_error(ErrorCode::kClosed,
                            "the client has been closed, and its arrays with it",
                            "Call connect() again.");
  }
  const std::int64_t now = coarse_second();
  if (now != last_look_s_.load(std::memory_order_relaxed)) {
    last_look_s_.store(now, std::memory_order_relaxed);
    if (!files_->alive()) {
      closed_by_program_.store(files_->closed_by_program());
      lost_.store(true);
    } else if (control_->session_ended()) {
      lost_.store(true);
    }
  }
  if (closed_by_program_.load(std::memory_order_relaxed)) {
    return wire::make_error(
        ErrorCode::kDaemonLost,
        fmt::format("this program has closed the descriptor of the connection to "
                    "the daemon of {}, as daemonisers and os.closerange() do",
                    directory_),
        "Connect after that. Views stay readable.");
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
  if (--connections_ != 0 || !closed || kept()) return false;
  ended_.store(true);
  return true;
}

std::uint64_t Session::add_interrupt_check(std::function<void()> check, bool after_signals) {
  if (!check) return 0;
  auto added = std::make_shared<const std::function<void()>>(std::move(check));
  const wire::MutexLock lock(interrupt_mutex_);
  interrupt_checks_.emplace(++last_interrupt_check_, UserCheck{std::move(added), after_signals});
  return last_interrupt_check_;
}

void Session::remove_interrupt_check(std::uint64_t number) {
  UserCheck removed;  // the user's, which ends without the lock
  const wire::MutexLock lock(interrupt_mutex_);
  const auto known = interrupt_checks_.find(number);
  if (known == interrupt_checks_.end()) return;
  removed = std::move(known->second);
  interrupt_checks_.erase(known);
}

Session::UserCheck Session::find_interrupt_check(std::uint64_t number) const {
  if (number == 0) return {};
  const wire::MutexLock lock(interrupt_mutex_);
  const auto known = interrupt_checks_.find(number);
  return known == interrupt_checks_.end() ? UserCheck{} : known->second;
}

absl::Status Session::check_interrupt(std::uint64_t number) const {
  const UserCheck found = find_interrupt_check(number);
  return found.check == nullptr ? absl::OkStatus() : call_check(*found.check);
}

absl::Status Session::check_wait(std::uint64_t interrupt_check) {
  auto status = usable();
  return status.ok() ? check_interrupt(interrupt_check) : status;
}

bool Session::interrupts_any_time(std::uint64_t number) const {
  const UserCheck found = find_interrupt_check(number);
  return found.check != nullptr && !found.after_signals;
}

}  // namespace memlease::internal
