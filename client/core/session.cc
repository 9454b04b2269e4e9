#include "client/core/session.h"

#include <cxxabi.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "client/core/array_state.h"
#include "client/core/device_order.h"
#include "client/core/interrupt.h"
#include "client/core/release_mark.h"
#include "fmt/format.h"
#include "proto/wire/error.h"

namespace memlease::internal {
namespace {

using wire::ErrorCode;

constexpr std::chrono::seconds kGpuPatience{10};

}  // namespace

Session::Session(std::string directory, wire::SessionId id, std::unique_ptr<FileSource> files,
                 std::unique_ptr<ControlPort> control, ImporterSource& importers)
    : directory_(std::move(directory)),
      id_(id),
      files_(std::move(files)),
      control_(std::move(control)),
      mappings_(*files_),
      imports_(*control_, importers),
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

// ---- What devices have yet to finish.

DeviceUse::DeviceUse() = default;
DeviceUse::DeviceUse(DeviceUse&&) noexcept = default;
DeviceUse& DeviceUse::operator=(DeviceUse&&) noexcept = default;

DeviceUse::~DeviceUse() {
  if (complete()) return;
  static_cast<void>(order.release());
  for (auto& open : memory) {
    // Never destroyed: one count too many.
    using Open = std::shared_ptr<DeviceMemory>;
    alignas(Open) std::byte kept[sizeof(Open)];
    new (kept) Open(std::move(open));
  }
}

bool DeviceUse::complete() const { return order == nullptr || order->complete(); }

// ---- Arrays.

// The array as this process has it open; nullptr: the caller, and nobody else, is to open it, and
// takes it out of joining_ then.
std::shared_ptr<ArrayState> Session::join_known(const OpenedArray& opened) {
  std::shared_ptr<ArrayState> left;
  for (;;) {
    std::shared_ptr<ArrayState> known;
    {
      std::unique_lock lock(mutex_);
      joined_.wait(lock, [&] { return !joining_.contains(opened.id); });
      const auto named = named_.find(opened.spec.name);
      if (named == named_.end() || named->second->opened().id != opened.id ||
          named->second == left.get()) {
        joining_.insert(opened.id);
        return nullptr;
      }
      known = make_handle(*named->second);
    }
    if (known->reopen()) return known;
    left = std::move(known);
  }
}

absl::StatusOr<std::shared_ptr<ArrayState>> Session::join(const OpenedArray& opened) {
  if (auto known = join_known(opened)) return known;
  absl::StatusOr<std::unique_ptr<ArrayState>> made;
  std::unique_lock lock(mutex_, std::defer_lock);
  {
    const absl::Cleanup done = [&] {
      lock.lock();
      joining_.erase(opened.id);
      joined_.notify_all();
    };
    made = ArrayState::open(shared_from_this(), opened);
  }
  if (!made.ok()) {
    departed_.push_back({opened.id, 1, {}});
    return made.status();
  }
  ArrayState* state = made->get();
  arrays_.emplace(state, std::move(*made));
  // Another thread may have opened what has the name since this answer was given.
  const auto named = named_.find(opened.spec.name);
  if (named == named_.end() || named->second->opened().id <= opened.id) {
    if (named != named_.end()) named_.erase(named);  // the key is a part of the older state
    named_.emplace(state->name(), state);
  }
  return make_handle(*state);
}

std::shared_ptr<ArrayState> Session::find_open(const std::string& name) {
  if (!usable_at_once()) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto named = named_.find(name);
  if (named == named_.end() || !named->second->has_its_name()) return nullptr;
  return make_handle(*named->second);
}

std::shared_ptr<ArrayState> Session::handle_of(ArrayState& state) {
  const std::lock_guard lock(mutex_);
  return arrays_.contains(&state) ? make_handle(state) : nullptr;
}

// All handles are one count, whose last end ends its "handle". A thread that is about to end it may
// meet one that makes the next, so there may be several.
std::shared_ptr<ArrayState> Session::make_handle(ArrayState& state) {
  auto handle = state.handle_.lock();
  if (handle == nullptr) {
    handle = std::shared_ptr<ArrayState>(&state, end_handle);
    state.handle_ = handle;
    ++state.handles_;
    state.without_handle_.store(false);
  }
  return handle;
}

// Leases and pins have no count but their hold, or the turn to write: the mark first, then the look
// at these; they end the other way round.
void Session::end_handle(ArrayState* state) {
  if (state->forked()) return;  // the parent's threads may hold the locks for ever
  std::unique_ptr<ArrayState> dead;
  {
    Session& session = state->session();
    const std::lock_guard lock(session.mutex_);
    if (--state->handles_ != 0) return;
    state->without_handle_.store(true);
    if (state->in_use()) {
      if (state->must_settle()) session.note_unsettled();
      return;
    }
    const auto named = session.named_.find(state->name());
    if (named != session.named_.end() && named->second == state) session.named_.erase(named);
    const auto it = session.arrays_.find(state);
    dead = std::move(it->second);
    session.arrays_.erase(it);
  }
  ReleaseMark::await_none(state);
}

std::vector<std::shared_ptr<ArrayState>> Session::live_arrays() {
  std::vector<std::shared_ptr<ArrayState>> live;
  const std::lock_guard lock(mutex_);
  live.reserve(arrays_.size());
  for (const auto& [state, owned] : arrays_) live.push_back(make_handle(*owned));
  return live;
}

void Session::close() {
  flush();
  const auto arrays = live_arrays();
  for (const auto& state : arrays) state->close();
  // A process that ends takes its GPU work along, which others may wait for.
  const auto end = std::chrono::steady_clock::now() + kGpuPatience;
  for (flush(); departing() && std::chrono::steady_clock::now() < end; flush()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const bool unused =
      std::all_of(arrays.begin(), arrays.end(), [](const auto& state) { return state->left(); });
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

bool Session::departing() const {
  const std::lock_guard lock(mutex_);
  return !departed_.empty();
}

void Session::depart(wire::ArrayId array, std::uint32_t opens, DeviceUse use) {
  const std::lock_guard lock(mutex_);
  departed_.push_back({array, opens, std::move(use)});
}

void Session::flush() {
  std::vector<Departed> departed;
  {
    const std::lock_guard lock(mutex_);
    departed.swap(departed_);
  }
  for (Departed& array : departed) {
    if (!array.use.complete()) {
      depart(array.array, array.opens, std::move(array.use));
      continue;
    }
    array.use = {};
    // What the daemon says to it changes nothing: with it gone, so are the memberships.
    control_->leave(array.array, array.opens).IgnoreError();
  }
  imports_.flush();
  kept_.let_go();
  settle_noted();
  if (release_noted_.exchange(false, std::memory_order_relaxed)) {
    for (const auto& state : live_arrays()) state->leave_if_due();
  }
}

// The mark first: an array that cannot be settled yet sets it again.
void Session::settle_all() {
  unsettled_noted_.store(false, std::memory_order_relaxed);
  for (const auto& state : live_arrays()) state->settle_unused();
}

void Session::set_check_interrupt(std::function<void()> check) {
  const std::lock_guard lock(interrupt_mutex_);
  if (check) check_interrupt_ = std::move(check);
}

absl::Status Session::check_interrupt() const {
  std::function<void()> check;
  {
    const std::lock_guard lock(interrupt_mutex_);
    check = check_interrupt_;
  }
  try {
    if (check) check();
  } catch (const abi::__forced_unwind&) {
    throw;  // the thread is being ended, as Python ends some at its exit
  } catch (...) {
    return interrupted(std::current_exception());
  }
  return absl::OkStatus();
}

}  // namespace memlease::internal
