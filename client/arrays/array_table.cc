#include "client/arrays/array_table.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "client/arrays/release_mark.h"
#include "client/ordering/gpu_order.h"
#include "fmt/format.h"
#include "wire/array_spec.h"
#include "wire/error.h"

namespace memlease::internal {
namespace {

absl::Status opens_itself(const std::string& name) {
  return wire::make_error(
      wire::ErrorCode::kBusy,
      fmt::format("this thread is about to open '{}', and opens it again in its "
                  "signal handler or interrupt check",
                  name),
      "Note the signal there, and open it after the call.");
}

}  // namespace

// The array as this process has it open; nullptr: the caller, and nobody else, is to open it, and
// takes it out of joining_ then.
absl::StatusOr<std::shared_ptr<OpenArray>> ArrayTable::join_known(const OpenAnswer& answer,
                                                                  InterruptCheck interrupt) {
  std::shared_ptr<OpenArray> left;
  for (;;) {
    std::shared_ptr<OpenArray> known;
    {
      wire::MutexLock lock(mutex_);
      for (auto opener = joining_.find(answer.id); opener != joining_.end();
           opener = joining_.find(answer.id)) {
        if (opener->second == std::this_thread::get_id()) return opens_itself(answer.spec.name);
        const auto asks = std::chrono::steady_clock::now() + kInterruptInterval;
        if (joined_.wait_until(mutex_, asks) == std::cv_status::no_timeout) continue;
        lock.unlock();
        if (auto status = interrupt(); !status.ok()) return status;
        lock.lock();
      }
      const auto named = named_.find(answer.spec.name);
      if (named == named_.end() || (*named)->facts().id != answer.id || *named == left.get()) {
        joining_.emplace(answer.id, std::this_thread::get_id());
        return nullptr;
      }
      known = make_handle(**named);
    }
    if (known->membership().reopen()) return known;
    left = std::move(known);
  }
}

absl::StatusOr<std::shared_ptr<OpenArray>> ArrayTable::join(const OpenAnswer& answer,
                                                            InterruptCheck interrupt) {
  auto joined = join_to_look(answer, interrupt);
  if (!joined.ok() || (*joined)->reach().ok()) return joined;
  if (auto status = (*joined)->close_handle(interrupt); !status.ok()) return status;
  return (*joined)->reach();
}

absl::StatusOr<std::shared_ptr<OpenArray>> ArrayTable::join_to_look(const OpenAnswer& answer,
                                                                    InterruptCheck interrupt) {
  // The check may fork: the locks are the parent's there, and so is the answer.
  const auto check = [&] {
    auto status = interrupt();
    return status.ok() && session().forked() ? session().usable() : status;
  };
  auto known = join_known(answer, check);
  if (!known.ok() && !session().forked()) depart({answer.id, 1}, {});
  if (!known.ok() || *known != nullptr) return known;
  absl::StatusOr<std::unique_ptr<OpenArray>> made;  // an error, also if open() throws
  absl::Cleanup thrown = [&] { static_cast<void>(publish(answer.id, std::move(made))); };
  made = OpenArray::open(shared_from_this(), answer, check);
  std::move(thrown).Cancel();
  return publish(answer.id, std::move(made));
}

// What this thread has opened, or could not open.
absl::StatusOr<std::shared_ptr<OpenArray>> ArrayTable::publish(
    wire::ArrayId id, absl::StatusOr<std::unique_ptr<OpenArray>> made) {
  if (session().forked()) return session().usable();
  const wire::MutexLock lock(mutex_);
  joining_.erase(id);
  joined_.notify_all();
  if (!made.ok()) {
    departed_.push_back({{id, 1}, {}});
    return made.status();
  }
  OpenArray* const array = made->get();
  arrays_.insert(std::move(*made));
  // Another thread may have opened what has the name since this answer was given.
  const auto named = named_.find(array->name());
  if (named == named_.end()) {
    named_.insert(array);
  } else if ((*named)->facts().id <= id) {
    named_.erase(named);
    named_.insert(array);
  }
  if (array->facts().rare().home) replicas_.insert(array);
  return make_handle(*array);
}

std::shared_ptr<OpenArray> ArrayTable::find_open(const std::string& name) {
  if (!session().usable_at_once()) return nullptr;
  std::shared_ptr<OpenArray> known;
  {
    const wire::MutexLock lock(mutex_);
    const auto named = named_.find(name);
    if (named == named_.end() || !(*named)->has_its_name()) return nullptr;
    if (!(*named)->reach().ok()) return nullptr;
    known = make_handle(**named);
  }
  return known->membership().add_handle() ? known : nullptr;
}

std::shared_ptr<OpenArray> ArrayTable::handle_of(OpenArray& array) {
  const wire::MutexLock lock(mutex_);
  return arrays_.contains(&array) ? make_handle(array) : nullptr;
}

// All handles are one count, whose last end ends its "handle". A thread that is about to end it may
// meet one that makes the next, so there may be several.
std::shared_ptr<OpenArray> ArrayTable::make_handle(OpenArray& array) {
  OpenArray::Handles& handles = array.handles();
  auto handle = handles.newest.lock();
  if (handle == nullptr) {
    handle = std::shared_ptr<OpenArray>(&array, [](OpenArray* ended) {
      static_cast<ArrayTable&>(ended->owner()).end_handle(ended);
    });
    handles.newest = handle;
    ++handles.count;
    array.set_without_handle(false);
  }
  return handle;
}

// Leases and pins have no count but their hold, or the write lock: the mark first, then the look at
// these; they end the other way round. The array may be the last to need this table.
void ArrayTable::end_handle(OpenArray* array) {
  if (array->forked()) return;  // the parent's threads may hold the locks for ever
  std::unique_ptr<OpenArray> dead;
  {
    const wire::MutexLock lock(mutex_);
    if (--array->handles().count != 0) return;
    array->set_without_handle(true);
    if (array->in_use()) {
      if (array->has_deferred()) note_deferred();
      return;
    }
    const auto named = named_.find(array->name());
    if (named != named_.end() && *named == array) named_.erase(named);
    replicas_.erase(array);
    dead = std::move(arrays_.extract(array).value());
  }
  ReleaseMark::await_none(array);
}

std::vector<std::shared_ptr<OpenArray>> ArrayTable::live_arrays() {
  std::vector<std::shared_ptr<OpenArray>> live;
  const wire::MutexLock lock(mutex_);
  live.reserve(arrays_.size());
  for (const auto& array : arrays_) live.push_back(make_handle(*array));
  return live;
}

absl::Status ArrayTable::close(InterruptCheck interrupt) {
  absl::Status interrupted;
  if (!session().control().silent()) interrupted = flush(interrupt);
  const auto arrays = live_arrays();
  std::vector<Departure> departures;
  for (const auto& array : arrays) array->close(departures);
  interrupted.Update(leave(departures, interrupt));
  if (interrupted.ok()) interrupted = drain(interrupt);
  const bool unused =
      std::all_of(arrays.begin(), arrays.end(), [](const auto& array) { return array->left(); });
  if (unused) session().goodbye();  // else with the last lease or pin, which keeps us alive
  return interrupted;
}

absl::Status ArrayTable::drain(InterruptCheck interrupt) {
  using Clock = std::chrono::steady_clock;
  const auto answers = [this] { return !session().control().silent(); };
  auto asked = Clock::now();
  const auto end = asked + kGpuDrainTimeout;
  absl::Status interrupted;
  if (answers()) interrupted = flush(interrupt);
  while (interrupted.ok() && (waits_for_gpu() || imports().any_unused()) && answers() &&
         Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    interrupted = flush(interrupt);
    if (!interrupted.ok() || Clock::now() - asked < kInterruptInterval) continue;
    interrupted = interrupt();
    asked = Clock::now();
  }
  return interrupted;
}

bool ArrayTable::in_use() {
  const wire::MutexLock lock(mutex_);
  return std::any_of(arrays_.begin(), arrays_.end(),
                     [](const auto& array) { return array->in_use(); });
}

bool ArrayTable::waits_for_gpu() {
  const wire::MutexLock lock(mutex_);
  return std::any_of(departed_.begin(), departed_.end(),
                     [](const auto& array) { return array.use.order != nullptr; });
}

void ArrayTable::depart(const Departure& departure, GpuUse use) {
  const wire::MutexLock lock(mutex_);
  departed_.push_back({departure, std::move(use)});
}

void ArrayTable::leave_withdrawn(const std::string& name) {
  std::vector<std::shared_ptr<OpenArray>> withdrawn;
  {
    const wire::MutexLock lock(mutex_);
    const auto named = named_.find(name);
    if (named != named_.end()) withdrawn.push_back(make_handle(**named));
    for (OpenArray* replica : replicas_) {
      if (replica->name().starts_with(wire::name_of_replica(name, "")))
        withdrawn.push_back(make_handle(*replica));
    }
  }
  leave_if_due(withdrawn, kNoInterrupts).IgnoreError();
}

absl::Status ArrayTable::leave_if_due(const std::vector<std::shared_ptr<OpenArray>>& arrays,
                                      InterruptCheck interrupt) {
  std::vector<Departure> departures;
  absl::Status interrupted;
  for (const auto& array : arrays) {
    interrupted.Update(array->leave_if_due(departures, interrupt));
  }
  interrupted.Update(leave(departures, interrupt));
  return interrupted;
}

absl::Status ArrayTable::flush(InterruptCheck interrupt) {
  std::vector<Departed> departed;
  {
    const wire::MutexLock lock(mutex_);
    departed.swap(departed_);
  }
  std::vector<Departure> complete;
  for (Departed& array : departed) {
    if (array.use.complete()) {
      end_use(std::move(array.use));
      complete.push_back(array.departure);
    } else {
      depart(array.departure, std::move(array.use));
    }
  }
  if (auto status = leave(complete, interrupt); !status.ok() || session().forked()) return status;
  if (!session().control().silent()) imports().flush();
  kept().let_go();
  release_noted();
  return take_release() ? leave_if_due(live_arrays(), interrupt) : absl::OkStatus();
}

void ArrayTable::release_all_deferred() {
  for (const auto& array : live_arrays()) array->release_deferred_if_unused();
}

}  // namespace memlease::internal
