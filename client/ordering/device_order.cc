#include "client/ordering/device_order.h"

#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "client/hooks/test_hooks.h"
#include "client/ordering/backoff.h"
#include "client/ordering/host_event.h"
#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::internal {
namespace {

constexpr std::uintptr_t kPerThread = 2;

}  // namespace

bool work_unknown(const absl::Status& idle) {
  return !idle.ok() && wire::code_of(idle) != wire::ErrorCode::kInternal;
}

absl::StatusOr<std::unique_ptr<DeviceOrder>> DeviceOrder::open(Importer& importer,
                                                               ImportCache& imports,
                                                               const OpenAnswer& opened) {
  std::unique_ptr<DeviceOrder> order(new DeviceOrder(importer, imports, opened));
  auto events = open_events(importer, opened.write_events, order->slots_);
  if (!events.ok()) return events.status();
  order->write_events_ = std::move(*events);
  return order;
}

DeviceOrder::DeviceOrder(Importer& importer, ImportCache& imports, const OpenAnswer& opened)
    : importer_(importer),
      imports_(imports),
      array_(opened.id),
      slots_(opened.spec.slots),
      last_read_(opened.spec.slots),
      unfenced_(opened.spec.slots),
      recorded_(opened.spec.slots) {}

absl::Status DeviceOrder::open_read_events(wire::RowRef row,
                                           const std::vector<wire::DeviceHandle>& handles) {
  auto events = open_events(importer_, handles, slots_);
  if (!events.ok()) return events.status();
  read_events_ = std::move(*events);
  reads_by_host_ = handles.empty();
  row_.store(wire::pack_subscriber(row), std::memory_order_release);
  return absl::OkStatus();
}

std::uint64_t DeviceOrder::write_key(std::uint32_t slot) const {
  return (std::uint64_t{1} << 62) | (wire::to_int(array_) << 6) | slot;
}

std::uint64_t DeviceOrder::read_key(std::uint64_t packed_row, std::uint32_t slot) {
  return (std::uint64_t{2} << 62) | (packed_row << 6) | slot;
}

// One stream behind both, which may be used: ours, so that the caller's is not made to wait.
// Without a wait of the host.
absl::StatusOr<Stream> DeviceOrder::join(const WorkEnd& end) {
  if (!end.stream) return end.stream;
  if (auto status = importer_.check_stream(end.stream); !status.ok()) return status;
  if (!end.exported || end.stream == end.exported) return end.stream;
  if (leaves_out("join the exported stream")) return end.stream;
  if (auto status = importer_.order(end.stream, end.exported); !status.ok()) return status;
  return end.exported;
}

// ---- Readers.

absl::Status DeviceOrder::stream_wait_version(std::uint32_t slot, std::uint64_t version,
                                              Stream stream) {
  if (auto status = importer_.check_stream(stream); !status.ok()) return status;
  importer_.checker_acquire(write_key(slot), version);
  if (leaves_out("wait for the version")) return absl::OkStatus();
  absl::Status status = write_events_[slot]->wait(stream);
  crash_point("device.read_ordered");
  return status;
}

absl::StatusOr<bool> DeviceOrder::version_complete(std::uint32_t slot, std::uint64_t version) {
  importer_.checker_acquire(write_key(slot), version);
  return write_events_[slot]->complete();
}

// The fence covers every earlier read of the slot by this process that may still be at work: in the
// same stream by that stream's order, else by joining. A joined record is behind other streams too,
// so that none of them covers it; and the per-thread stream is another one in each thread.
absl::Status DeviceOrder::record_read(std::uint32_t slot, Stream stream) {
  if (leaves_out("record the read")) return absl::OkStatus();
  DeviceEvent& event = *read_events_[slot];
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
absl::Status DeviceOrder::wait_for_read(Stream stream, Usable usable) {
  if (!stream) return importer_.synchronize();
  if (leaves_out("record the read")) return absl::OkStatus();
  return finish(importer_, stream, usable);
}

// By looking: a wait inside of the driver may not end. The daemon says that a version is poisoned
// before it records the event anew, so who sees that it is complete looks once more.
bool DeviceOrder::await_lost(const SlotReader& reader, std::uint32_t slot, std::uint64_t version,
                             Usable usable) {
  for (Backoff backoff;; backoff.pause()) {
    const auto complete = write_events_[slot]->complete();
    if (reader.poisoned(version)) return true;
    if (!complete.ok() || *complete || !usable().ok()) return false;
  }
}

// Whether it ever runs is the driver's matter. Until then the memory stays open.
void DeviceOrder::note_lost(const WorkEnd& end) {
  for (const Stream stream : {end.stream, end.exported}) {
    if (!stream) continue;
    auto mark = importer_.mark(stream);
    if (!mark.ok()) continue;
    const std::lock_guard lock(mutex_);
    lost_.push_back(std::move(*mark));
  }
}

// The hold of a read that ends: given up, or kept for settle(). A destructor, so that no path
// leaves it out.
class DeviceOrder::ReadEnd {
 public:
  ReadEnd(DeviceOrder& order, SlotReader& reader, std::uint32_t slot)
      : order_(order), reader_(reader), slot_(slot) {}
  ReadEnd(const ReadEnd&) = delete;
  ReadEnd& operator=(const ReadEnd&) = delete;

  // Is nothing under way that is not recorded?
  void set(bool idle) { idle_ = idle; }

  ~ReadEnd() {
    if (!idle_) idle_ = order_.host_wait_all({});  // an exception
    {
      const std::lock_guard lock(order_.mutex_);
      if (!*idle_) {
        order_.keep_for_settle(slot_);
        return;
      }
      order_.importer_.checker_release(read_key(order_.row_.load(), slot_),
                                       reader_.read_fence_count(slot_) + 1);
      reader_.count_read_fence(slot_);
      crash_point("device.read_counted");
    }
    reader_.release(slot_);  // the last: whoever leaves the array may destroy the order at once
  }

 private:
  DeviceOrder& order_;
  SlotReader& reader_;
  const std::uint32_t slot_;
  std::optional<bool> idle_;
};

// The waits come first and without the lock: a pin's end needs it wherever that dies.
DeviceOrder::Released DeviceOrder::release(SlotReader& reader, std::uint32_t slot,
                                           std::uint64_t version, const WorkEnd& end,
                                           Usable usable) {
  ReadEnd read_end(*this, reader, slot);
  absl::Status stopped;
  const auto go_on = [&] { return stopped = usable(); };
  const bool by_host = !end.stream || reads_by_host_;
  const bool lost = by_host && await_lost(reader, slot, version, go_on);
  absl::Status status = stopped;
  if (lost) note_lost(end);
  if (!lost && status.ok()) status = end_read(slot, end, go_on);
  if (!status.ok()) {
    // Nothing was recorded: then nothing may be under way when the slot is let go.
    const bool wait = stopped.ok() && end.stream;
    const bool idle = wait ? host_wait_all(end.stream) : !work_unknown(status);
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

absl::Status DeviceOrder::end_read(std::uint32_t slot, const WorkEnd& end, Usable usable) {
  const auto stream = join(end);
  if (!stream.ok()) return stream.status();
  if (!*stream || reads_by_host_) return wait_for_read(*stream, usable);
  const std::lock_guard lock(mutex_);
  return record_read(slot, *stream);
}

void DeviceOrder::end_lease(PinMark& mark) {
  const std::lock_guard lock(mutex_);
  mark.lease_ended = true;
}

bool DeviceOrder::end_pin(const PinMark& mark, std::uint32_t slot) {
  const std::lock_guard lock(mutex_);
  if (!mark.lease_ended) return true;
  keep_for_settle(slot);
  return false;
}

void DeviceOrder::keep_for_settle(std::uint32_t slot) {
  ++unfenced_[slot];
  unsettled_.store(true, std::memory_order_relaxed);
}

absl::Status DeviceOrder::settle(SlotReader& reader) {
  std::vector<std::uint32_t> due(slots_);
  {
    const std::lock_guard lock(mutex_);
    due.swap(unfenced_);
    unsettled_.store(false, std::memory_order_relaxed);
  }
  absl::Status status = importer_.synchronize();
  {
    const std::lock_guard lock(mutex_);
    for (std::uint32_t s = 0; s < slots_; ++s) {
      if (due[s] == 0) continue;
      if (!status.ok()) {
        unfenced_[s] += due[s];
        unsettled_.store(true, std::memory_order_relaxed);
        continue;
      }
      importer_.checker_release(read_key(row_.load(), s), reader.read_fence_count(s) + 1);
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

bool DeviceOrder::host_wait_all(Stream stream) {
  const bool captured = stream && importer_.is_capturing(stream);
  return !captured && !work_unknown(importer_.synchronize());
}

bool DeviceOrder::complete() {
  const auto over = [](DeviceEvent& event) {
    const auto complete = event.complete();
    return !complete.ok() || *complete;
  };
  const std::lock_guard lock(mutex_);
  for (std::uint32_t s = 0; s < slots_; ++s) {
    if (recorded_[s] != 0 && !over(*write_events_[s])) return false;
  }
  for (const RowEvents* events : {&read_events_, &lost_}) {
    for (const auto& event : *events) {
      if (!over(*event)) return false;
    }
  }
  return true;
}

// ---- Writers.

DeviceOrder::Peer& DeviceOrder::peer_of(wire::RowRef row) {
  Peer& peer = peers_[wire::pack_subscriber(row)];
  peer.awaited.resize(slots_);
  return peer;
}

absl::StatusOr<RowEvents*> DeviceOrder::events_of(SlotWriter& writer, wire::RowRef row) {
  const std::uint64_t packed = wire::pack_subscriber(row);
  if (packed == row_.load(std::memory_order_acquire)) return &read_events_;
  if (const auto known = peers_.find(packed);
      known != peers_.end() && known->second.events != nullptr) {
    return known->second.events.get();
  }
  forget_readers(writer);
  auto events = imports_.read_events(row, slots_, importer_);
  if (!events.ok()) return events.status();
  Peer& peer = peer_of(row);
  peer.events = std::move(*events);
  return peer.events.get();
}

// A new reader is the occasion to close the events of those who have gone; else the daemon would
// have to keep them.
void DeviceOrder::forget_readers(SlotWriter& writer) {
  absl::flat_hash_set<std::uint64_t> alive;
  for (std::uint32_t s = 0; s < slots_; ++s) {
    writer.for_each_read_fence(s, [&](wire::RowRef row, std::uint64_t /*count*/) {
      alive.insert(wire::pack_subscriber(row));
    });
  }
  for (const Behind& behind : behind_) alive.insert(behind.row);
  if (absl::erase_if(peers_, [&](const auto& peer) { return !alive.contains(peer.first); }) != 0) {
    imports_.flush();
  }
}

absl::Status DeviceOrder::collect_reads(SlotWriter& writer, std::uint32_t slot) {
  absl::Status status;
  writer.for_each_read_fence(slot, [&](wire::RowRef row, std::uint64_t count) {
    if (!status.ok() || peer_of(row).awaited[slot] == count) return;
    const auto events = events_of(writer, row);
    // A reader that has gone meanwhile has nothing under way.
    if (wire::code_of(events.status()) == wire::ErrorCode::kNotFound) return;
    if (!events.ok()) {
      status = events.status();
      return;
    }
    behind_.push_back({(**events)[slot].get(), read_key(wire::pack_subscriber(row), slot), count,
                       wire::pack_subscriber(row)});
  });
  return status;
}

bool DeviceOrder::reads_complete(SlotWriter& writer, std::uint32_t slot) {
  bool complete = true;
  writer.for_each_read_fence(slot, [&](wire::RowRef row, std::uint64_t count) {
    if (!complete || peer_of(row).awaited[slot] == count) return;
    const auto events = events_of(writer, row);
    if (!events.ok()) return;  // collect() says what is the matter
    const auto done = (**events)[slot]->complete();
    complete = done.ok() && *done;
    if (!complete) return;
    importer_.checker_acquire(read_key(wire::pack_subscriber(row), slot), count);
    peer_of(row).awaited[slot] = count;
  });
  return complete;
}

absl::Status DeviceOrder::collect(SlotWriter& writer, std::uint32_t slot) {
  behind_.clear();
  ordered_ = false;
  const wire::Publication current = writer.current();
  if (current.version != 0) {
    behind_.push_back(
        {write_events_[current.slot].get(), write_key(current.slot), current.version, 0});
  }
  if (current.version == 0 || current.slot != slot) {
    behind_.push_back({write_events_[slot].get(), 0, 0, 0});
  }
  return collect_reads(writer, slot);
}

absl::Status DeviceOrder::stream_wait_slot(Stream stream) {
  if (auto status = importer_.check_stream(stream); !status.ok()) return status;
  for (const Behind& behind : behind_) {
    if (behind.key != 0) importer_.checker_acquire(behind.key, behind.value);
    if (leaves_out(behind.row == 0 ? "wait for writers" : "wait for readers")) continue;
    if (auto status = behind.event->wait(stream); !status.ok()) return status;
  }
  ordered_ = true;
  crash_point("device.write_ordered");
  return absl::OkStatus();
}

absl::StatusOr<bool> DeviceOrder::slot_free() {
  for (const Behind& behind : behind_) {
    if (behind.key != 0) importer_.checker_acquire(behind.key, behind.value);
    const auto complete = behind.event->complete();
    if (!complete.ok() || !*complete) return complete;
  }
  ordered_ = true;
  return true;
}

// The slot's event is free for this: nobody but the writer waits for it before it is published.
absl::Status DeviceOrder::record_own(std::uint32_t slot, Stream own) {
  {
    const std::lock_guard lock(mutex_);
    recorded_[slot] = 1;
  }
  return write_events_[slot]->record(own);
}

absl::Status DeviceOrder::stream_wait_own(std::uint32_t slot, Stream own, Stream stream) {
  if (auto status = record_own(slot, own); !status.ok()) return status;
  return write_events_[slot]->wait(stream);
}

absl::Status DeviceOrder::record_write(std::uint32_t slot, std::uint64_t version,
                                       const WorkEnd& end) {
  const auto stream = join(end);
  absl::Status status = stream.status();
  if (status.ok() && !leaves_out("record the write")) {
    status = *stream ? record_own(slot, *stream) : importer_.synchronize();
  }
  if (!status.ok()) return status;
  crash_point("device.write_recorded");
  importer_.checker_release(write_key(slot), version);
  for (const Behind& behind : behind_) {
    if (ordered_ && behind.row != 0) peers_[behind.row].awaited[slot] = behind.value;
  }
  return absl::OkStatus();
}

}  // namespace memlease::internal
