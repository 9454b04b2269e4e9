#include "client/arrays/open_array.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "client/arrays/release_mark.h"
#include "client/ordering/gpu_order.h"
#include "client/ordering/host_wait.h"
#include "client/ordering/look_pauses.h"
#include "fmt/format.h"
#include "wire/error.h"
#include "wire/futex.h"
#include "wire/hooks/test_hooks.h"

namespace memlease::internal {

using wire::RowRef;

absl::StatusOr<std::unique_ptr<OpenArray>> OpenArray::open(std::shared_ptr<ArrayOwner> owner,
                                                           const OpenAnswer& answer,
                                                           InterruptCheck interrupt) {
  std::unique_ptr<OpenArray> array(new OpenArray(std::move(owner), answer));
  if (auto status = array->open_record(answer, interrupt); !status.ok()) {
    array->membership_.never_joined();
    return status;
  }
  return array;
}

OpenArray::OpenArray(std::shared_ptr<ArrayOwner> owner, const OpenAnswer& answer)
    : MappedArray(std::move(owner), answer),
      membership_(owner_->membership_lock()),
      own_row_(answer.subscribed ? answer.subscribed->row : wire::RowRef()) {}

OpenArray::~OpenArray() {
  FaultTable::remove(*this);
  if (forked() || left()) return;
  owner_->depart({known_.id, membership_.opens()}, end_use_of_slots());
}

absl::Status OpenArray::usable() const {
  if (auto status = session_.usable(); !status.ok()) return status;
  const bool was_left = left();  // first: what has been closed was that before it was left
  if (closed()) return Membership::handle_closed(name());
  if (auto status = check_lost(); !status.ok()) return status;
  return was_left ? gone(false) : absl::OkStatus();
}

// The ends of leases and pins call nobody. What they give up may have been the last thing that kept
// this alive, so they have a mark on it meanwhile; and where something must follow, a handle, by
// whose end this dies if it is the last.

template <typename GiveUp>
void OpenArray::end_lease(GiveUp give_up) {
  std::shared_ptr<OpenArray> handle;  // ends after the mark
  const ReleaseMark mark(this);
  give_up();
  crash_point("release.given_up");
  if (!end_matters()) return;
  owner_->note_release();
  handle = owner_->handle_of(*this);
}

void OpenArray::end_read(std::uint32_t slot) {
  if (forked()) return;
  end_lease([&] { reader_.if_made()->release(slot); });
}

void OpenArray::end_write(std::uint32_t slot, std::uint64_t version, bool publish) {
  OpenArray* home = nullptr;
  end_lease([&] {
    if (publish) {
      writing_.slot_writer()->publish(slot, version);
    } else {
      writing_.slot_writer()->drop(slot);
    }
    home = writing_.take_numbered_by();
    writing_.leave();
  });
  if (home != nullptr) home->end_number();
}

void OpenArray::end_number() {
  end_lease([&] {
    writing_.slot_writer()->end_number();
    writing_.leave();
  });
}

bool OpenArray::holds_back_slots() {
  const SlotReader* reader = reader_.if_made();
  const SlotWriter* writer = writing_.slot_writer();
  if (reader == nullptr || writer == nullptr) return false;
  const wire::Publication current = writer->current();
  const std::uint32_t there = wire::slots_of(board().slots.load(), layout());
  for (std::uint32_t slot = 0; slot < there; ++slot) {
    const bool is_current = current.version != 0 && current.slot == slot;
    if (reader->holds(slot) != 0 && (!is_current || slots() == 1)) return true;
  }
  return false;
}

bool OpenArray::find_place(const void* address, FaultTable::Place& place) const {
  const SlotPages* const slots = slot_pages_.if_made();
  if (slots == nullptr) return false;
  place.slot = slots->slot_at(address, place.for_writing);
  if (place.slot >= layout().most) return false;
  place.array = name().c_str();
  place.forked = forked();
  place.version = place.forked ? 0 : version_in(place.slot);
  return true;
}

// Without a lock and without a call.
std::uint64_t OpenArray::version_in(std::uint32_t slot) const {
  const RowRef at = wire::writer_row_of(board().writer.load());
  const SlotWriter* own = writing_.slot_writer();
  const wire::WriterRow* writer =
      own != nullptr && own->row_ref() == at ? &own->row() : last_writer_row(at);
  return writer == nullptr ? 0 : wire::version_of(writer->slot_words()[slot].load());
}

absl::Status OpenArray::end_device_read(std::uint32_t slot, std::uint64_t version,
                                        const WorkEnd& end, std::uint64_t interrupt_check) {
  absl::Status status;
  if (forked()) return status;
  const auto usable = [&] { return session_.check_wait(interrupt_check); };
  end_lease([&] {
    const auto ended = order()->reader().release(*reader_.if_made(), slot, version, end, usable);
    if (ended.deferred) owner_->note_deferred();
    status = ended.status;
  });
  return status;
}

// As a pin that outlives its write lease. If there can be no row for that, the daemon or the name
// has gone, and nobody writes any more; or all that is left is to wait once more.
void OpenArray::defer_release(std::uint32_t slot) {
  const auto reader = this->reader(kNoInterrupts);
  if (!reader.ok()) {
    gpu_->importer().synchronize().IgnoreError();
    return;
  }
  (*reader)->hold_again(slot);
  order()->reader().end_pin({true}, slot);
  owner_->note_deferred();
}

// And closes what could not be closed when it came to be unused: whoever reads and writes makes no
// other call.
absl::Status OpenArray::release_deferred() {
  owner_->kept().let_go();
  if (owner_->imports().any_memory_unused()) {
    owner_->imports().close_unused_memory();
    if (!session_.control().silent()) owner_->imports().flush();
  }
  owner_->release_noted();
  return release_own_deferred();
}

absl::Status OpenArray::release_own_deferred() {
  return has_deferred() ? order()->reader().release_deferred(*reader_.if_made()) : absl::OkStatus();
}

void OpenArray::release_deferred_if_unused() {
  if (gpu_ == nullptr || forked()) return;
  if (!writing_.enter()) return;  // a write lease lives, or begins
  const absl::Cleanup leave = [this] { writing_.leave(); };
  release_own_deferred().IgnoreError();
  if (has_deferred()) owner_->note_deferred();
}

// A write lease may pin its slot and then end: writing first, then the holds.
bool OpenArray::in_use() const {
  if (left()) return false;
  const SlotReader* reader = reader_.if_made();
  return writing_.entered() || (reader != nullptr && reader->holds_any());
}

bool OpenArray::has_its_name() const {
  return !closed() && (board().writer.load() & wire::kWriterDraining) == 0 && !withdrawn();
}

// ---- Membership.

absl::StatusOr<SlotReader*> OpenArray::reader(InterruptCheck interrupt) {
  if (SlotReader* ready = reader_.if_made()) return ready;
  if (auto status = membership_.begin_subscribing(name(), interrupt); !status.ok()) return status;
  const absl::Cleanup done = [this] {
    membership_.end();
    leave_if_due();  // it was closed meanwhile, and its close() has left that to us
  };
  if (SlotReader* ready = reader_.if_made()) return ready;  // another thread has been here
  if (left()) return usable();
  if (closed()) return Membership::handle_closed(name());
  if (auto status = subscribe(interrupt); !status.ok()) return status;
  crash_point("subscribe.done");
  return reader_.if_made();
}

// By the thread that is alone with this.
absl::Status OpenArray::subscribe(InterruptCheck interrupt) {
  crash_point("subscribe.begin");
  absl::StatusOr<Subscribed> subscribed(Subscribed{own_row_});
  if (own_row_.file == wire::FileId{0}) {
    subscribed = session_.control().subscribe(known_.id, interrupt);
  }
  crash_point("subscribe.answered");
  if (!subscribed.ok()) return named(subscribed.status());
  const std::uint32_t units = order() == nullptr
                                  ? wire::reader_row_units(layout().most)
                                  : wire::reader_row_units_with_events(layout().most);
  const auto brought = pages().bring_to_read(subscribed->row, interrupt);
  if (!brought.ok()) return brought.status();
  auto row = pages().own_row(subscribed->row, units, interrupt);
  if (!row.ok()) return row.status();
  if (auto slots = map_slots(interrupt); !slots.ok()) return slots.status();
  if (order() != nullptr) {
    auto status = order()->reader().open_events(subscribed->row, owner_->imports(), interrupt);
    if (!status.ok()) return status;
  }
  auto reader = std::make_unique<SlotReader>(
      board(), known_.id, layout(), *reinterpret_cast<wire::ReaderRow*>(*row), pages().rows());
  if (gpu_ != nullptr) gpu_->set_reader(*reader);
  reader_.set(std::move(reader));
  return absl::OkStatus();
}

Brought OpenArray::bring_to_write(RowRef at, RowRef from, InterruptCheck interrupt) {
  if (writing_.slot_writer() != nullptr) return std::vector<std::shared_ptr<Mapping>>();
  return pages().bring_to_write(at, from, interrupt);
}

absl::StatusOr<SlotWriter*> OpenArray::writer(RowRef at, InterruptCheck interrupt) {
  if (SlotWriter* known = writing_.slot_writer()) return known;
  const auto slots = map_slots(interrupt);
  if (!slots.ok()) return slots.status();
  if (auto status = (*slots)->map_for_writing(interrupt); !status.ok()) return status;
  auto row = pages().own_row(at, wire::writer_row_units(layout().most), interrupt);
  if (!row.ok()) return row.status();
  // The ends of this process's own views look there whether a writer waits.
  if (auto known = pages().map_writer_row(at, interrupt); !known.ok()) return known.status();
  return &writing_.make_slot_writer(board(), known_.id, layout(), at,
                                    *reinterpret_cast<wire::WriterRow*>(*row), pages().rows());
}

absl::Status OpenArray::close_handle(InterruptCheck interrupt) {
  std::vector<Departure> departures;
  auto interrupted = close_handle(departures, interrupt);
  interrupted.Update(owner_->leave(departures, interrupt));
  return interrupted;
}

absl::Status OpenArray::close_handle(std::vector<Departure>& departures, InterruptCheck interrupt) {
  if (!membership_.close_handle()) return absl::OkStatus();
  release_deferred_if_unused();
  return leave_if_due(departures, interrupt);
}

void OpenArray::close(std::vector<Departure>& departures) {
  membership_.close();
  release_deferred_if_unused();
  leave_if_due(departures, kNoInterrupts).IgnoreError();
}

// The daemon lets nobody go whose GPU work may still touch the slots. OK also where it is not over
// after all.
absl::Status OpenArray::host_wait_work(InterruptCheck interrupt) {
  if (order() == nullptr) return absl::OkStatus();
  const auto end = std::chrono::steady_clock::now() + kGpuDrainTimeout;
  auto asks = std::chrono::steady_clock::now() + kInterruptInterval;
  for (LookPauses looks; !order()->complete();) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= end) break;
    if (now >= asks) {
      if (auto status = interrupt(); !status.ok()) return status;
      asks = now + kInterruptInterval;
    }
    looks.pause();
  }
  return absl::OkStatus();
}

absl::Status OpenArray::noted(absl::Status status) {
  if (gpu_ == nullptr || !device_failed(status) || !writing_.enter()) return status;
  if (order() != nullptr) status = gpu_->noted(std::move(status));
  writing_.leave();
  if (lost()) leave_if_due();
  return status;
}

absl::Status OpenArray::check_stream(Stream stream) {
  return stream && importer() != nullptr ? noted(importer()->check_stream(stream))
                                         : absl::OkStatus();
}

// For the thread that is alone to leave. The mark of the close (or the daemon's on the board)
// first, then the look at the holds: a thread that is about to read announces its hold first and
// looks at the mark then.
bool OpenArray::may_leave() {
  if (!ending()) return false;
  if (has_deferred()) owner_->note_deferred();
  const SlotReader* reader = reader_.if_made();
  return reader == nullptr || !reader->holds_any();
}

// The slots are unmapped before the daemon is told, which counts what somebody can still write.
absl::Status OpenArray::leave(std::uint32_t opens, std::vector<Departure>& departures,
                              InterruptCheck interrupt) {
  auto interrupted = host_wait_work(interrupt);
  FaultTable::remove(*this);
  GpuUse use = end_use_of_slots();
  if (interrupted.ok()) {
    owner_->end_use(std::move(use));
    departures.push_back({known_.id, opens});
  } else {
    owner_->depart({known_.id, opens}, std::move(use));
  }
  membership_.note_left();
  return interrupted;
}

void OpenArray::leave_if_due() {
  std::vector<Departure> departures;
  leave_if_due(departures, kNoInterrupts).IgnoreError();
  owner_->leave(departures, kNoInterrupts).IgnoreError();
}

absl::Status OpenArray::leave_if_due(std::vector<Departure>& departures, InterruptCheck interrupt) {
  absl::Status interrupted;
  if (!ending()) return interrupted;
  // A write lease lives: it will come.
  if (!writing_.enter()) return interrupted;
  absl::Cleanup leave_writing = [this] { writing_.leave(); };
  if (const auto opens = membership_.begin_leaving()) {
    const absl::Cleanup done = [this] { membership_.end(); };
    if (may_leave()) interrupted = leave(*opens, departures, interrupt);
  }
  std::move(leave_writing).Invoke();
  owner_->kept().let_go();
  return interrupted;
}

}  // namespace memlease::internal
