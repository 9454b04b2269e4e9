#include "client/ordering/writer_order.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "wire/error.h"
#include "wire/hooks/test_hooks.h"

namespace memlease::internal {

WriterOrder::ReaderEvents& WriterOrder::reader_of(wire::RowRef row) {
  ReaderEvents& reader = readers_[wire::pack_subscriber(row)];
  reader.awaited.resize(versions_.layout().most);
  return reader;
}

absl::StatusOr<const SharedEvent*> WriterOrder::event_of(SlotWriter& writer, wire::RowRef row,
                                                         std::uint32_t slot,
                                                         InterruptCheck interrupt) {
  if (own_.is_own(wire::pack_subscriber(row))) return own_.own_event(slot);
  if (reader_of(row).events.empty()) {
    forget_readers(writer);
    auto events = imports_.events_of(row, versions_.layout().most, importer_, interrupt);
    if (!events.ok()) return events.status();
    reader_of(row).events = *std::move(events);
  }
  return &reader_of(row).events[slot];
}

// A new reader is the occasion to let go of those who have gone. Their pages stay open as long as a
// stream of this process may look at their events.
void WriterOrder::forget_readers(SlotWriter& writer) {
  absl::flat_hash_set<std::uint64_t> alive;
  for (std::uint32_t s = 0; s < versions_.layout().most; ++s) {
    writer.for_each_read_fence(s, [&](wire::RowRef row, std::uint64_t /*count*/) {
      alive.insert(wire::pack_subscriber(row));
    });
  }
  for (const Dependency& it : dependencies_) alive.insert(it.row);
  absl::erase_if(readers_, [&](const auto& reader) { return !alive.contains(reader.first); });
}

absl::Status WriterOrder::collect_reads(SlotWriter& writer, std::uint32_t slot,
                                        InterruptCheck interrupt) {
  absl::Status status;
  writer.for_each_read_fence(slot, [&](wire::RowRef row, std::uint64_t count) {
    if (!status.ok() || reader_of(row).awaited[slot] == count) return;
    const auto event = event_of(writer, row, slot, interrupt);
    // A reader that has gone meanwhile has nothing under way.
    if (wire::code_of(event.status()) == wire::ErrorCode::kNotFound) return;
    if (!event.ok()) {
      status = event.status();
      return;
    }
    if (*event == nullptr) return;
    dependencies_.push_back({*event, ReaderOrder::key(wire::pack_subscriber(row), slot), count,
                             wire::pack_subscriber(row)});
  });
  return status;
}

absl::StatusOr<bool> WriterOrder::reads_complete(SlotWriter& writer, std::uint32_t slot,
                                                 InterruptCheck interrupt) {
  absl::Status status;
  bool complete = true;
  writer.for_each_read_fence(slot, [&](wire::RowRef row, std::uint64_t count) {
    if (!status.ok() || !complete || reader_of(row).awaited[slot] == count) return;
    const auto event = event_of(writer, row, slot, interrupt);
    if (wire::code_of(event.status()) == wire::ErrorCode::kNotFound) return;
    status = event.status();
    if (!status.ok() || *event == nullptr) return;
    const auto done = (*event)->complete();
    complete = done.ok() && *done;
    if (!complete) return;
    importer_.checker_acquire(ReaderOrder::key(wire::pack_subscriber(row), slot), count);
    reader_of(row).awaited[slot] = count;
  });
  if (!status.ok()) return status;
  return complete;
}

absl::Status WriterOrder::collect(SlotWriter& writer, std::uint32_t slot,
                                  InterruptCheck interrupt) {
  dependencies_.clear();
  ordered_ = false;
  const wire::Publication current = writer.current();
  if (current.version != 0) {
    dependencies_.push_back(
        {&versions_[current.slot], versions_.key(current.slot), current.version, 0});
  }
  if (current.version == 0 || current.slot != slot) {
    dependencies_.push_back({&versions_[slot], 0, 0, 0});
  }
  return collect_reads(writer, slot, interrupt);
}

bool WriterOrder::by_host() const {
  return std::ranges::any_of(dependencies_,
                             [](const Dependency& it) { return it.event->by_host(); });
}

absl::Status WriterOrder::stream_wait_slot(Stream stream) {
  if (auto status = importer_.check_stream(stream); !status.ok()) return status;
  for (const Dependency& it : dependencies_) {
    if (it.key != 0) importer_.checker_acquire(it.key, it.value);
    if (leaves_out(it.row == 0 ? "wait for writers" : "wait for readers")) continue;
    if (auto status = it.event->wait(stream); !status.ok()) return status;
  }
  ordered_ = true;
  crash_point("device.write_ordered");
  return absl::OkStatus();
}

absl::StatusOr<bool> WriterOrder::slot_free() {
  for (const Dependency& it : dependencies_) {
    if (it.key != 0) importer_.checker_acquire(it.key, it.value);
    const auto complete = it.event->complete();
    if (!complete.ok() || !*complete) return complete;
  }
  ordered_ = true;
  return true;
}

absl::Status WriterOrder::stream_wait_own(std::uint32_t slot, Stream own, Stream stream,
                                          Usable usable) {
  if (auto status = record_own(slot, own, usable); !status.ok()) return status;
  return versions_[slot].wait(stream);
}

absl::Status WriterOrder::record_write(std::uint32_t slot, std::uint64_t version,
                                       const WorkEnd& end, Usable usable) {
  const auto stream = join(importer_, end);
  absl::Status status = stream.status();
  if (status.ok() && !end.over && !leaves_out("record the write")) {
    status = *stream ? record_own(slot, *stream, usable) : importer_.synchronize();
  }
  if (!status.ok()) return status;
  if (!end.over) crash_point("device.write_recorded");
  importer_.checker_release(versions_.key(slot), version);
  for (const Dependency& it : dependencies_) {
    if (ordered_ && it.row != 0) readers_[it.row].awaited[slot] = it.value;
  }
  return absl::OkStatus();
}

}  // namespace memlease::internal
