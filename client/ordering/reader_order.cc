#include "client/ordering/reader_order.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "client/ordering/look_pauses.h"
#include "client/session/wait_news.h"
#include "fmt/format.h"
#include "wire/error.h"
#include "wire/hooks/test_hooks.h"

namespace memlease::internal {
namespace {

constexpr std::uintptr_t kPerThread = 2;

bool is_over(const absl::StatusOr<bool>& complete) { return !complete.ok() || *complete; }

absl::Status torn(std::uint64_t version) {
  return wire::make_error(
      wire::ErrorCode::kProducerDied,
      fmt::format("the writer of version {} died, or its GPU failed, before it was complete: what "
                  "was read of it may be torn",
                  version),
      "Discard what was computed from it, and wait for the next version.");
}

}  // namespace

ReaderOrder::ReaderOrder(VersionEvents& versions)
    : versions_(versions),
      importer_(versions.importer()),
      last_read_(versions.layout().most),
      deferred_(versions.layout().most) {}

absl::Status ReaderOrder::open_events(wire::RowRef row, ImportCache& imports,
                                      InterruptCheck interrupt) {
  auto events = imports.events_of(row, versions_.layout().most, importer_, interrupt);
  if (!events.ok()) return events.status();
  events_ = *std::move(events);
  row_.store(wire::pack_subscriber(row), std::memory_order_release);
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
  if (versions_[slot].lost()) return torn(version);
  return versions_[slot].complete();
}

// The fence covers every earlier read of the slot by this process that may still be at work: in the
// same stream by that stream's order, else by joining. A joined record is behind other streams too,
// so that none of them covers it; and the per-thread stream is another one in each thread.
absl::Status ReaderOrder::record(std::uint32_t slot, Stream stream) {
  if (leaves_out("record the read")) return absl::OkStatus();
  SharedEvent& event = events_[slot];
  bool covered = last_read_[slot] == stream;
  last_read_[slot] = Stream();
  if (!covered) {
    const auto complete = event.complete();
    covered = complete.ok() && *complete;
  }
  if (!covered) return event.record_joined(stream);
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

// By looking: a wait inside of the driver may not end. Where the writer has died, the daemon says
// that the version is poisoned, and then that its record is complete.
void ReaderOrder::host_wait_version(std::uint32_t slot, Usable usable) {
  for (LookPauses looks;; looks.pause()) {
    const auto complete = versions_[slot].complete();
    if (is_over(complete) || !usable().ok()) return;
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
  if (!end.stream || by_host()) host_wait_version(slot, go_on);
  absl::Status status = stopped;
  if (status.ok()) status = end_read(slot, end, go_on);
  if (!status.ok()) {
    // Nothing was recorded: then nothing may be under way when the slot is let go.
    const bool wait = stopped.ok() && end.stream;
    const bool idle = wait ? host_wait_all(importer_, end) : !work_unknown(status);
    if (idle) note_failure();
    read_end.set(idle);
    return {status, !idle};
  }
  crash_point("device.read_recorded");
  read_end.set(true);
  // In this order: the daemon poisons what is lost, and then it is not called lost any more.
  const bool is_torn = versions_[slot].lost() || reader.poisoned(version);
  return {is_torn ? torn(version) : absl::OkStatus(), false};
}

absl::Status ReaderOrder::end_read(std::uint32_t slot, const WorkEnd& end, Usable usable) {
  const auto stream = join(importer_, end);
  if (!stream.ok()) return stream.status();
  if (!*stream || by_host()) return host_wait_stream(*stream, usable);
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
  any_deferred_->store(true, std::memory_order_relaxed);
  wait_news.tell();
}

absl::Status ReaderOrder::release_deferred(SlotReader& reader) {
  std::vector<std::uint32_t> due(versions_.layout().most);
  {
    const wire::MutexLock lock(mutex_);
    due.swap(deferred_);
    any_deferred_->store(false, std::memory_order_relaxed);
  }
  absl::Status status = importer_.synchronize();
  const bool over = !work_unknown(status);
  if (over && !status.ok()) note_failure();
  {
    const wire::MutexLock lock(mutex_);
    for (std::uint32_t s = 0; s < due.size(); ++s) {
      if (due[s] == 0) continue;
      if (!over) {
        deferred_[s] += due[s];
        any_deferred_->store(true, std::memory_order_relaxed);
        continue;
      }
      importer_.checker_release(key(row_.load(), s), reader.read_fence_count(s) + 1);
      reader.count_read_fence(s);
    }
  }
  if (!over) return absl::OkStatus();
  // The last: whoever leaves the array may destroy this at once.
  for (std::uint32_t s = 0; s < due.size(); ++s) {
    for (; due[s] > 0; --due[s]) reader.release(s);
  }
  return status;
}

// If the device has failed, so has what was recorded before, also by this process's writes.
void ReaderOrder::note_failure() {
  complete();
  versions_.complete();
}

bool ReaderOrder::complete() {
  if (row_.load(std::memory_order_acquire) == 0) return true;  // another thread may be about to
  for (std::uint32_t s = 0; s < events_.size(); ++s) {
    const auto complete = events_[s].complete();
    if (!is_over(complete)) return false;
    if (device_failed(complete.status())) events_[s].end_read();
  }
  return true;
}

}  // namespace memlease::internal
