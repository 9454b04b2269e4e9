#include "client/core/session.h"

#include <time.h>

#include <algorithm>
#include <utility>

#include "client/core/array_state.h"
#include "fmt/format.h"
#include "proto/wire/error.h"

namespace memlease::internal {
namespace {

using wire::ErrorCode;

std::int64_t coarse_seconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return now.tv_sec;
}

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
  const std::int64_t now = coarse_seconds();
  if (now != last_look_s_.load(std::memory_order_relaxed)) {
    last_look_s_.store(now, std::memory_order_relaxed);
    if (!files_->alive()) lost_.store(true);
  }
  if (lost_.load(std::memory_order_relaxed)) {
    return wire::make_error(ErrorCode::kDaemonLost,
                            fmt::format("the daemon of {} has gone", directory_),
                            "Views stay readable. Connect again once it runs.");
  }
  return absl::OkStatus();
}

absl::Status Session::look() {
  last_look_s_.store(0, std::memory_order_relaxed);
  return usable();
}

absl::StatusOr<std::shared_ptr<ArrayState>> Session::join(const OpenedArray& opened) {
  const std::lock_guard lock(mutex_);
  auto& entry = arrays_[wire::to_int(opened.id)];
  if (auto state = entry.lock(); state != nullptr && state->reopen()) return state;
  auto state = ArrayState::open(shared_from_this(), opened);
  if (!state.ok()) return state.status();
  entry = *state;
  // Forget the dead ones each time that the table has doubled: a look at all of them each time
  // would make n opens cost n * n.
  if (arrays_.size() >= purge_at_) {
    std::erase_if(arrays_, [](const auto& item) { return item.second.expired(); });
    purge_at_ = std::max<std::size_t>(64, 2 * arrays_.size());
  }
  return state;
}

std::vector<std::shared_ptr<ArrayState>> Session::live_arrays() {
  std::vector<std::shared_ptr<ArrayState>> live;
  const std::lock_guard lock(mutex_);
  for (const auto& [id, entry] : arrays_) {
    if (auto state = entry.lock()) live.push_back(std::move(state));
  }
  return live;
}

void Session::close() {
  flush();
  bool unused = true;
  for (const auto& state : live_arrays()) {
    state->close();
    unused = unused && state->left();
  }
  if (unused) files_->goodbye();  // else with the last lease or pin, which keeps us alive
}

bool Session::add_connection() {
  const std::lock_guard lock(mutex_);
  if (ended_.load()) return false;
  ++connections_;
  return true;
}

bool Session::remove_connection(bool closed) {
  const std::lock_guard lock(mutex_);
  if (--connections_ != 0 || !closed) return false;
  ended_.store(true);
  return true;
}

void Session::depart(wire::ArrayId array, std::uint32_t opens) {
  const std::lock_guard lock(mutex_);
  departed_.emplace_back(array, opens);
}

void Session::flush() {
  std::vector<std::pair<wire::ArrayId, std::uint32_t>> departed;
  {
    const std::lock_guard lock(mutex_);
    departed.swap(departed_);
  }
  // What the daemon says to it changes nothing: with it gone, so are the memberships.
  for (const auto& [array, opens] : departed) control_->leave(array, opens).IgnoreError();
  if (release_noted_.exchange(false, std::memory_order_relaxed)) {
    for (const auto& state : live_arrays()) state->leave_if_due();
  }
}

void Session::set_check_interrupt(std::function<void()> check) {
  const std::lock_guard lock(mutex_);
  if (check) check_interrupt_ = std::move(check);
}

void Session::check_interrupt() const {
  std::function<void()> check;
  {
    const std::lock_guard lock(mutex_);
    check = check_interrupt_;
  }
  if (check) check();
}

}  // namespace memlease::internal
