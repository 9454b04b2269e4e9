#include "client/ordering/reader_order.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "client/ordering/backoff.h"
#include "client/ordering/host_event.h"
#include "fmt/format.h"
#include "wire/error.h"
#include "wire/hooks/test_hooks.h"

namespace memlease::internal {
namespace {

constexpr std::uintptr_t kPerThread = 2;

bool is_over(DeviceEvent& event) {
  const auto complete = event.complete();
  return !complete.ok() || *complete;
}

}  // namespace

ReaderOrder::ReaderOrder(VersionEvents& versions)
    : versions_(versions),
      importer_(versions.importer()),
      last_read_(versions.layout().most),
      deferred_(versions.layout().most) {}

absl::Status ReaderOrder::open_events(wire::RowRef row,
                                      const std::vector<wire::DeviceHandle>& handles) {
  auto events = internal::open_events(importer_, handles, versions_.layout().regular);
  if (!events.ok()) return events.status();
  events_.start(std::move(*events));
  if (handles.empty()) by_host_.store(~std::uint64_t{0});
  row_.store(wire::pack_subscriber(row), std::memory_order_release);
  return absl::OkStatus();
}

absl::Status ReaderOrder::open_event(std::uint32_t slot,
                                     const std::optional<wire::DeviceHandle>& handle) {
  if (has_event(slot)) return absl::OkStatus();
  auto event = internal::open_event(importer_, handle);
  if (!event.ok()) return event.status();
  if (!handle) by_host_.fetch_or(std::uint64_t{1} << slot);
  events_.add(slot, std::move(*event));
  return absl::OkStatus();
}

bool ReaderOrder::is_own(std::uint64_t packed_row) const {
  return packed_row == row_.load(std::memory_order_acquire);
}

std::uint64_t ReaderOrder::key(std::uint64_t packed_row, std::uint32_t slot) {
  return (std::uint64_t{2} << 62) | (packed_row << 6) | slot;
}

absl::Status ReaderOrder::stream_wait_version(std::uint32_t slot, std::uint64_t version,
                                              Stream stream) {
  if (auto status = importer_.check_stream(stream); !status.ok()) return status;
  importer_.checker_acquire(versions_.key(slot), version);
  if (leaves_out("wait for the version")) return absl::OkStatus();
  absl::Status status = versions_[slot].wait(stream);
  crash_point("device.read_ordered");
  return status;
}

absl::StatusOr<bool> ReaderOrder::version_complete(std::uint32_t slot, std::uint64_t version) {
  importer_.checker_acquire(versions_.key(slot), version);
  return versions_[slot].complete();
}

// The fence covers every earlier read of the slot by this process that may still be at work: in the
// same stream by that stream's order, else by joining. A joined record is behind other streams too,
// so that none of them covers it; and the per-thread stream is another one in each thread.
absl::Status ReaderOrder::record(std::uint32_t slot, Stream stream) {
  if (leaves_out("record the read")) return absl::OkStatus();
  DeviceEvent& event = *events_.find(slot);
  bool covered = last_read_[slot] == stream;
  last_read_[slot] = Stream();
  if (!covered) {
    const auto complete = event.complete();
    covered = complete.ok() && *complete;
  }
  if (!covered && !leaves_out("join earlier reads")) return event.record_joined(stream);
  auto status = event.record(stream);
  if (status.ok() && stream.handle() != kPerThread) last_read_[slot] = stream;
  return status;
}

// In place of a record: the host waits for the work. All records of the row's event that this
// process has made before are complete then, or of other streams, and cover what those do.
absl::Status ReaderOrder::host_wait_stream(Stream stream, Usable usable) {
  if (!stream) return importer_.synchronize();
  if (leaves_out("record the read")) return absl::OkStatus();
  return finish(importer_, stream, usable);
}

// By looking: a wait inside of the driver may not end. The daemon says that a version is poisoned
// before it records the event again, so who sees that it is complete looks once more.
bool ReaderOrder::host_wait_version_or_lost(const SlotReader& reader, std::uint32_t slot,
                                            std::uint64_t version, Usable usable) {
  for (Backoff backoff;; backoff.pause()) {
    const auto complete = versions_[slot].complete();
    if (reader.poisoned(version)) return true;
    if (!complete.ok() || *complete || !usable().ok()) return false;
  }
}

// Whether it ever runs is the driver's matter. Until then the memory stays open.
void ReaderOrder::note_lost(const WorkEnd& end) {
  for (const Stream stream : {end.stream, end.view_stream}) {
    if (!stream) continue;
    auto mark = importer_.mark(stream);
    if (!mark.ok()) continue;
    const wire::MutexLock lock(mutex_);
    lost_.push_back(std::move(*mark));
  }
}

// The hold of a read that ends: given up, or kept for release_deferred(). A destructor, so that no
// path leaves it out.
class ReaderOrder::ReadEnd {
 public:
  ReadEnd(ReaderOrder& order, SlotReader& reader, std::uint32_t slot)
      : order_(order), reader_(reader), slot_(slot) {}
  ReadEnd(const ReadEnd&) = delete;
  ReadEnd& operator=(const ReadEnd&) = delete;

  // Is nothing under way that is not recorded?
  void set(bool idle) { idle_ = idle; }

  ~ReadEnd() {
    if (!idle_) idle_ = host_wait_all(order_.importer_, {});  // an exception
    {
      const wire::MutexLock lock(order_.mutex_);
      if (!*idle_) {
        order_.defer_release(slot_);
        return;
      }
      order_.importer_.checker_release(key(order_.row_.load(), slot_),
                                       reader_.read_fence_count(slot_) + 1);
      reader_.count_read_fence(slot_);
      crash_point("device.read_counted");
    }
    reader_.release(slot_);  // the last: whoever leaves the array may destroy the order at once
  }

 private:
  ReaderOrder& order_;
  SlotReader& reader_;
  const std::uint32_t slot_;
  std::optional<bool> idle_;
};

// The waits come first and without the lock: a pin's end needs it wherever that dies.
ReaderOrder::Released ReaderOrder::release(SlotReader& reader, std::uint32_t slot,
                                           std::uint64_t version, const WorkEnd& end,
                                           Usable usable) {
  ReadEnd read_end(*this, reader, slot);
  absl::Status stopped;
  const auto go_on = [&] { return stopped = usable(); };
  const bool by_host = !end.stream || this->by_host(slot);
  const bool lost = by_host && host_wait_version_or_lost(reader, slot, version, go_on);
  absl::Status status = stopped;
  if (lost) note_lost(end);
  if (!lost && status.ok()) status = end_read(slot, end, go_on);
  if (!status.ok()) {
    // Nothing was recorded: then nothing may be under way when the slot is let go.
    const bool wait = stopped.ok() && end.stream;
    const bool idle = wait ? host_wait_all(importer_, end.stream) : !work_unknown(status);
    read_end.set(idle);
    return {status, !idle};
  }
  crash_point("device.read_recorded");
  read_end.set(true);
  if (!reader.poisoned(version)) return {absl::OkStatus(), false};
  return {wire::make_error(wire::ErrorCode::kProducerDied,
                           fmt::format("the writer of version {} died before it was complete: what "
                                       "was read of it may be torn",
                                       version),
                           "Discard what was computed from it, and wait for the next version."),
          false};
}

absl::Status ReaderOrder::end_read(std::uint32_t slot, const WorkEnd& end, Usable usable) {
  const auto stream = join(importer_, end);
  if (!stream.ok()) return stream.status();
  if (!*stream || by_host(slot)) return host_wait_stream(*stream, usable);
  const wire::MutexLock lock(mutex_);
  return record(slot, *stream);
}

void ReaderOrder::end_lease(PinMark& mark) {
  const wire::MutexLock lock(mutex_);
  mark.lease_ended = true;
}

bool ReaderOrder::end_pin(const PinMark& mark, std::uint32_t slot) {
  const wire::MutexLock lock(mutex_);
  if (!mark.lease_ended) return true;
  defer_release(slot);
  return false;
}

void ReaderOrder::defer_release(std::uint32_t slot) {
  ++deferred_[slot];
  any_deferred_.store(true, std::memory_order_relaxed);
}

absl::Status ReaderOrder::release_deferred(SlotReader& reader) {
  std::vector<std::uint32_t> due(versions_.layout().most);
  {
    const wire::MutexLock lock(mutex_);
    due.swap(deferred_);
    any_deferred_.store(false, std::memory_order_relaxed);
  }
  absl::Status status = importer_.synchronize();
  {
    const wire::MutexLock lock(mutex_);
    for (std::uint32_t s = 0; s < due.size(); ++s) {
      if (due[s] == 0) continue;
      if (!status.ok()) {
        deferred_[s] += due[s];
        any_deferred_.store(true, std::memory_order_relaxed);
        continue;
      }
      importer_.checker_release(key(row_.load(), s), reader.read_fence_count(s) + 1);
      reader.count_read_fence(s);
    }
  }
  if (!status.ok()) return work_unknown(status) ? absl::OkStatus() : status;
  // The last: whoever leaves the array may destroy this at once.
  for (std::uint32_t s = 0; s < due.size(); ++s) {
    for (; due[s] > 0; --due[s]) reader.release(s);
  }
  return status;
}

bool ReaderOrder::complete() {
  for (std::uint32_t s = 0; s < versions_.layout().most; ++s) {
    DeviceEvent* const event = events_.find(s);
    if (event != nullptr && !is_over(*event)) return false;
  }
  return lost_complete();
}

bool ReaderOrder::lost_complete() {
  const wire::MutexLock lock(mutex_);
  return std::all_of(lost_.begin(), lost_.end(), [](const auto& mark) { return is_over(*mark); });
}

}  // namespace memlease::internal
