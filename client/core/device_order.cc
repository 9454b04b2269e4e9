#include "client/core/device_order.h"

#include <utility>

#include "client/core/backoff.h"
#include "client/core/crash_point.h"
#include "client/core/host_event.h"
#include "fmt/format.h"
#include "proto/wire/error.h"

namespace memlease::internal {
namespace {

constexpr std::uintptr_t kPerThread = 2;

// The device could not be asked what is under way, which is another matter than that it has failed.
bool is_untold(const absl::Status& idle) {
  return wire::code_of(idle) == wire::ErrorCode::kInvalidArgument;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceOrder>> DeviceOrder::open(Importer& importer,
                                                               ControlPort& control,
                                                               ImportCache& imports,
                                                               const OpenedArray& opened) {
  std::unique_ptr<DeviceOrder> order(new DeviceOrder(importer, control, imports, opened));
  auto events = order->open_all(opened.write_events);
  if (!events.ok()) return events.status();
  order->write_events_ = std::move(*events);
  return order;
}

DeviceOrder::DeviceOrder(Importer& importer, ControlPort& control, ImportCache& imports,
                         const OpenedArray& opened)
    : importer_(importer),
      control_(control),
      imports_(imports),
      array_(opened.id),
      slots_(opened.spec.slots),
      last_read_(opened.spec.slots),
      unfenced_(opened.spec.slots) {}

DeviceOrder::~DeviceOrder() {
  for (auto& [row, events] : peers_) {
    events.clear();
    imports_.note_closed(wire::subscriber_row_of(row));
  }
}

absl::StatusOr<DeviceOrder::Events> DeviceOrder::open_all(
    const std::vector<wire::DeviceHandle>& handles) {
  Events events;
  if (handles.empty()) {
    for (std::uint32_t s = 0; s < slots_; ++s) {
      events.push_back(std::make_unique<HostEvent>(importer_));
    }
    return events;
  }
  if (handles.size() != slots_) {
    return wire::make_error(wire::ErrorCode::kInternal,
                            fmt::format("{} events for {} slots", handles.size(), slots_),
                            "This is a defect of the daemon; please report it.");
  }
  for (const wire::DeviceHandle& handle : handles) {
    auto event = importer_.open_event(handle);
    if (!event.ok()) return event.status();
    events.push_back(std::move(*event));
  }
  return events;
}

absl::Status DeviceOrder::open_read_events(wire::RowRef row,
                                           const std::vector<wire::DeviceHandle>& handles) {
  auto events = open_all(handles);
  if (!events.ok()) return events.status();
  const std::lock_guard lock(mutex_);
  row_ = row;
  read_events_ = std::move(*events);
  reads_by_host_ = handles.empty();
  return absl::OkStatus();
}

std::uint64_t DeviceOrder::write_key(std::uint32_t slot) const {
  return (std::uint64_t{1} << 62) | (wire::to_int(array_) << 6) | slot;
}

std::uint64_t DeviceOrder::read_key(wire::RowRef row, std::uint32_t slot) {
  return (std::uint64_t{2} << 62) | (wire::pack_subscriber(row) << 6) | slot;
}

// ---- Readers.

absl::Status DeviceOrder::await_version(std::uint32_t slot, std::uint64_t version, Stream stream) {
  if (auto status = importer_.check_stream(stream); !status.ok()) return status;
  importer_.heard(write_key(slot), version);
  if (leaves_out("wait for the version")) return absl::OkStatus();
  absl::Status status = write_events_[slot]->wait(stream);
  crash_point("device.read_ordered");
  return status;
}

absl::StatusOr<bool> DeviceOrder::version_complete(std::uint32_t slot, std::uint64_t version) {
  importer_.heard(write_key(slot), version);
  return write_events_[slot]->complete();
}

// The fence covers every earlier read of the slot by this process that may still be at work: in the
// same stream by that stream's order, else by joining. A joined record is behind other streams too,
// so that none of them covers it; and the per-thread stream is another one in each thread.
absl::Status DeviceOrder::record_read(std::uint32_t slot, Stream stream) {
  if (auto status = importer_.check_stream(stream); !status.ok()) return status;
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

// In place of a stream: the host waits until nothing is under way.
absl::Status DeviceOrder::record_idle(DeviceEvent& event) {
  if (auto status = importer_.synchronize(); !status.ok()) return status;
  return event.record_done();
}

// By looking: a wait inside of the driver may not end. The daemon says that a version is poisoned
// before it records the event anew, so who sees that it is complete looks once more. False if it is
// poisoned.
bool DeviceOrder::await_complete(const SlotReader& reader, std::uint32_t slot,
                                 std::uint64_t version) {
  for (Backoff backoff;; backoff.pause()) {
    const auto complete = write_events_[slot]->complete();
    if (reader.poisoned(version)) return false;
    if (!complete.ok() || *complete) return true;
  }
}

absl::Status DeviceOrder::release(SlotReader& reader, std::uint32_t slot, std::uint64_t version,
                                  Stream stream) {
  const std::lock_guard lock(mutex_);
  DeviceEvent& event = *read_events_[slot];
  absl::Status status;
  // The host waits for work that itself waits for the version.
  if ((!stream || reads_by_host_) && !await_complete(reader, slot, version)) {
    status = event.record_done();
  } else {
    status = stream ? record_read(slot, stream) : record_idle(event);
  }
  // Nothing was recorded on the stream: then nothing may be under way there.
  const absl::Status idle = stream && !status.ok() ? record_idle(event) : status;
  if (is_untold(idle)) {
    keep_for_settle(slot);
    return status;
  }
  crash_point("device.read_recorded");
  importer_.told(read_key(row_, slot), reader.read_fence_count(slot) + 1);
  reader.count_read_fence(slot);
  crash_point("device.read_counted");
  reader.release(slot);
  if (status.ok() && reader.poisoned(version)) {
    return wire::make_error(
        wire::ErrorCode::kProducerDied,
        fmt::format("the writer of version {} died before it was complete: what "
                    "was read of it may be torn",
                    version),
        "Discard what was computed from it, and wait for the next version.");
  }
  return status;
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
  const std::lock_guard lock(mutex_);
  absl::Status status = importer_.synchronize();
  if (is_untold(status)) return absl::OkStatus();
  if (!status.ok()) return status;
  for (std::uint32_t s = 0; s < slots_; ++s) {
    if (unfenced_[s] == 0) continue;
    if (auto recorded = read_events_[s]->record_done(); !recorded.ok()) return recorded;
    importer_.told(read_key(row_, s), reader.read_fence_count(s) + 1);
    reader.count_read_fence(s);
    for (; unfenced_[s] > 0; --unfenced_[s]) reader.release(s);
  }
  unsettled_.store(false, std::memory_order_relaxed);
  return status;
}

bool DeviceOrder::complete() {
  for (const Events* events : {&write_events_, &read_events_}) {
    for (const auto& event : *events) {
      const auto complete = event->complete();
      if (complete.ok() && !*complete) return false;
    }
  }
  return true;
}

// ---- Writers.

absl::StatusOr<DeviceOrder::Events*> DeviceOrder::events_of(wire::RowRef row) {
  {
    const std::lock_guard lock(mutex_);
    if (row == row_) return &read_events_;
  }
  const std::uint64_t key = wire::pack_subscriber(row);
  const auto known = peers_.find(key);
  if (known != peers_.end()) return &known->second;
  auto handles = control_.import_events(row);
  if (!handles.ok()) return handles.status();
  auto events = open_all(*handles);
  if (!events.ok()) {
    imports_.note_closed(row);
    return events.status();
  }
  return &(peers_[key] = std::move(*events));
}

absl::Status DeviceOrder::collect_reads(SlotWriter& writer, std::uint32_t slot) {
  absl::Status status;
  writer.for_each_read_fence(slot, [&](wire::RowRef row, std::uint64_t count) {
    if (!status.ok() || awaited_of(row)[slot] == count) return;
    const auto events = events_of(row);
    // A reader that has gone meanwhile has nothing under way.
    if (wire::code_of(events.status()) == wire::ErrorCode::kNotFound) return;
    if (!events.ok()) {
      status = events.status();
      return;
    }
    behind_.push_back(
        {(**events)[slot].get(), read_key(row, slot), count, wire::pack_subscriber(row)});
  });
  return status;
}

bool DeviceOrder::reads_complete(SlotWriter& writer, std::uint32_t slot) {
  bool complete = true;
  writer.for_each_read_fence(slot, [&](wire::RowRef row, std::uint64_t count) {
    std::uint64_t& awaited = awaited_of(row)[slot];
    if (!complete || awaited == count) return;
    const auto events = events_of(row);
    if (!events.ok()) return;  // collect() says what is the matter
    const auto done = (**events)[slot]->complete();
    complete = done.ok() && *done;
    if (!complete) return;
    importer_.heard(read_key(row, slot), count);
    awaited = count;
  });
  return complete;
}

std::vector<std::uint64_t>& DeviceOrder::awaited_of(wire::RowRef row) {
  auto& awaited = awaited_[wire::pack_subscriber(row)];
  awaited.resize(slots_);
  return awaited;
}

absl::Status DeviceOrder::collect(SlotWriter& writer, std::uint32_t slot) {
  behind_.clear();
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

absl::Status DeviceOrder::await_slot(Stream stream) {
  if (auto status = importer_.check_stream(stream); !status.ok()) return status;
  for (const Behind& behind : behind_) {
    if (behind.key != 0) importer_.heard(behind.key, behind.value);
    if (leaves_out(behind.row == 0 ? "wait for writers" : "wait for readers")) continue;
    if (auto status = behind.event->wait(stream); !status.ok()) return status;
  }
  crash_point("device.write_ordered");
  return absl::OkStatus();
}

absl::StatusOr<bool> DeviceOrder::slot_free() {
  for (const Behind& behind : behind_) {
    if (behind.key != 0) importer_.heard(behind.key, behind.value);
    const auto complete = behind.event->complete();
    if (!complete.ok() || !*complete) return complete;
  }
  return true;
}

// The slot's event is free for this: nobody but the writer waits for it before it is published.
absl::Status DeviceOrder::record_own(std::uint32_t slot, Stream own) {
  return write_events_[slot]->record(own);
}

absl::Status DeviceOrder::await_own(std::uint32_t slot, Stream own, Stream stream) {
  if (auto status = record_own(slot, own); !status.ok()) return status;
  return write_events_[slot]->wait(stream);
}

absl::Status DeviceOrder::record_write(std::uint32_t slot, std::uint64_t version, Stream stream) {
  DeviceEvent& event = *write_events_[slot];
  absl::Status status;
  if (!leaves_out("record the write")) {
    if (stream) status = importer_.check_stream(stream);
    if (status.ok()) status = stream ? event.record(stream) : record_idle(event);
  }
  if (!status.ok()) return status;
  crash_point("device.write_recorded");
  importer_.told(write_key(slot), version);
  for (const Behind& behind : behind_) {
    if (behind.row != 0) awaited_[behind.row][slot] = behind.value;
  }
  return absl::OkStatus();
}

}  // namespace memlease::internal
