#include "client/core/array_state.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "client/core/backoff.h"
#include "client/core/crash_point.h"
#include "client/core/release_mark.h"
#include "fmt/format.h"
#include "proto/wire/error.h"
#include "proto/wire/futex.h"

namespace memlease::internal {

using wire::ErrorCode;
using wire::FileKind;
using wire::FileRange;
using wire::make_error;
using wire::RowRef;

namespace {

absl::Status defect(const std::string& what) {
  return make_error(ErrorCode::kInternal, what,
                    "This is a defect of the daemon or of this library; please report it.");
}

// Extents are mapped as a whole; does a row fit at this place?
bool fits(const Mapping& mapping, RowRef at, std::uint32_t units) {
  return mapping.contains(at.unit * wire::kRowUnitBytes, units * wire::kRowUnitBytes,
                          wire::kRowUnitBytes);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ArrayState>> ArrayState::open(std::shared_ptr<Session> session,
                                                             const OpenedArray& opened) {
  std::unique_ptr<ArrayState> state(new ArrayState(std::move(session), opened));
  if (auto status = state->map_all(); !status.ok()) {
    state->left_ = true;  // the caller leaves
    return status;
  }
  return state;
}

ArrayState::ArrayState(std::shared_ptr<Session> session, const OpenedArray& opened)
    : session_(std::move(session)),
      opened_(opened),
      fork_generation_(fork_generation()),
      strides_bytes_(wire::strides_bytes_of(opened.spec)) {}

ArrayState::~ArrayState() {
  if (forked() || left_) return;
  session_->depart(opened_.id, opens_, take_device_use());
}

DeviceUse ArrayState::take_device_use() {
  DeviceUse use;
  for (auto& [file, memory] : imported_) use.memory.push_back(std::move(memory));
  imported_.clear();
  use.order = std::move(order_);
  return use;
}

absl::Status ArrayState::map_all() {
  auto board = session_->mappings().get(opened_.board_record.file, FileKind::kBoard);
  if (!board.ok()) return board.status();
  mappings_[wire::to_int(opened_.board_record.file)] = *board;
  const std::uint64_t record_bytes = wire::board_record_units(slots()) * wire::kBoardUnitBytes;
  if (!(*board)->contains(opened_.board_record.offset, record_bytes, wire::kBoardUnitBytes)) {
    return defect("the array's record lies outside of the board");
  }
  board_ =
      reinterpret_cast<const wire::BoardRecord*>((*board)->data() + opened_.board_record.offset);
  if (opened_.slots.size() != slots() || slots() == 0 || slots() > wire::kMaxSlots) {
    return defect("the array has another number of slots than places");
  }
  return wire::is_host(spec()) ? map_slots() : import_slots();
}

absl::Status ArrayState::map_slots() {
  for (const FileRange& at : opened_.slots) {
    auto& segment = mappings_[wire::to_int(at.file)];
    if (segment == nullptr) {
      auto mapping = session_->mappings().get(at.file, FileKind::kSegment);
      if (!mapping.ok()) return mapping.status();
      segment = std::move(*mapping);
    }
    if (!segment->contains(at.offset, opened_.slot_bytes, 1)) {
      return defect("a slot lies outside of its segment");
    }
    slot_data_.push_back(segment->data() + at.offset);
  }
  return absl::OkStatus();
}

absl::Status ArrayState::import_slots() {
  ImportCache& imports = session_->imports();
  const auto importer = imports.importers().importer(spec().device);
  if (!importer.ok()) return importer.status();
  importer_ = *importer;
  for (const FileRange& at : opened_.slots) {
    auto& segment = imported_[wire::to_int(at.file)];
    if (segment == nullptr) {
      auto memory = imports.get(at.file, *importer_);
      if (!memory.ok()) return memory.status();
      segment = std::move(*memory);
    }
    if (at.offset > segment->size_bytes() ||
        opened_.slot_bytes > segment->size_bytes() - at.offset) {
      return defect("a slot lies outside of its segment");
    }
    slot_data_.push_back(segment->data() + at.offset);
  }
  auto order = DeviceOrder::open(*importer_, imports, opened_);
  if (!order.ok()) return order.status();
  order_ = std::move(*order);
  device_ordinal_ = importer_->ordinal();
  return absl::OkStatus();
}

std::uint64_t ArrayState::current_version() {
  const std::uint64_t word = board_->writer.load();
  if (board_->array_id.load() != wire::to_int(opened_.id)) return 0;
  const wire::WriterRow* writer = writer_row(wire::writer_row_of(word));
  return writer == nullptr ? 0 : wire::unpack_publication(writer->publication.load()).version;
}

absl::Status ArrayState::usable() const {
  if (auto status = session_->usable(); !status.ok()) return status;
  const bool left = left_.load();  // first: what has been closed was that before it was left
  if (closed_.load(std::memory_order_relaxed)) {
    return make_error(ErrorCode::kClosed,
                      fmt::format("this handle of '{}' has been closed", name()),
                      "Open the array again.");
  }
  return left ? gone(false) : absl::OkStatus();
}

// The ends of leases and pins. What they give up may have been the last thing that kept this alive,
// so they have a mark on it meanwhile; and where something must follow, a handle.

template <typename GiveUp>
void ArrayState::end_lease(GiveUp give_up) {
  std::shared_ptr<ArrayState> handle;
  {
    const ReleaseMark mark(this);
    give_up();
    crash_point("release.given_up");
    if (!end_matters()) return;
    handle = session_->handle_of(*this);
  }
  if (handle != nullptr) handle->leave_if_due();
}

void ArrayState::end_read(std::uint32_t slot) {
  if (forked()) return;
  end_lease([&] { reader_ready_.load()->release(slot); });
}

void ArrayState::end_write(std::uint32_t slot, std::uint64_t version, bool publish) {
  end_lease([&] {
    if (publish) {
      writer_->publish(slot, version);
    } else {
      writer_->drop(slot);
    }
    leave_writing();
  });
}

absl::Status ArrayState::end_device_read(std::uint32_t slot, std::uint64_t version,
                                         const DeviceOrder::WorkEnd& end, bool interruptible) {
  absl::Status status;
  if (forked()) return status;
  const auto usable = [&] {
    auto may_go_on = session_->usable();
    return may_go_on.ok() && interruptible ? session_->check_interrupt() : may_go_on;
  };
  end_lease([&] {
    const auto ended = order_->release(*reader_ready_.load(), slot, version, end, usable);
    if (ended.kept) session_->note_unsettled();
    status = ended.status;
  });
  return status;
}

Pin ArrayState::pin(std::uint32_t slot) {
  reader_ready_.load()->hold_again(slot);
  return Pin(slot_data_[slot],
             PinEnd{this, slot, order_ == nullptr ? nullptr : std::make_shared<PinMark>()});
}

// May run on any thread and late: it lets go of the slot and calls nobody.
void ArrayState::PinEnd::operator()(const void* /*data*/) const {
  if (array->forked()) return;
  std::shared_ptr<ArrayState> handle;  // ends after the mark
  const ReleaseMark release_mark(array);
  if (mark != nullptr && !array->order_->end_pin(*mark, slot)) {
    array->session_->note_unsettled();
    return;
  }
  array->reader_ready_.load()->release(slot);
  if (!array->end_matters()) return;
  array->session_->note_release();
  handle = array->session_->handle_of(*array);
}

void ArrayState::end_lease_of(const Pin& pin) const {
  if (const PinEnd* end = std::get_deleter<PinEnd>(pin); end != nullptr && end->mark != nullptr) {
    order_->end_lease(*end->mark);
  }
}

// As a pin that outlives its write lease. If there can be no row for that, the daemon or the name
// has gone, and nobody writes any more; or all that is left is to wait once more.
void ArrayState::keep_for_settle(std::uint32_t slot) {
  const auto reader = this->reader();
  if (!reader.ok()) {
    importer_->synchronize().IgnoreError();
    return;
  }
  (*reader)->hold_again(slot);
  order_->end_pin({true}, slot);
  session_->note_unsettled();
}

absl::Status ArrayState::settle() {
  session_->kept().let_go();
  session_->settle_noted();
  return settle_own();
}

absl::Status ArrayState::settle_own() {
  return must_settle() ? order_->settle(*reader_ready_.load()) : absl::OkStatus();
}

void ArrayState::settle_unused() {
  if (importer_ == nullptr || forked()) return;
  if (!enter_writing(std::chrono::nanoseconds::zero())) return;  // a write lease lives, or begins
  const absl::Cleanup leave = [this] { leave_writing(); };
  settle_own().IgnoreError();
  if (must_settle()) session_->note_unsettled();
}

// A write lease may pin its slot and then end: the turn first, then the holds.
bool ArrayState::in_use() const {
  if (left_.load()) return false;
  const SlotReader* reader = reader_ready_.load();
  return turn_.load() != kNobody || (reader != nullptr && reader->holds_any());
}

bool ArrayState::withdrawn() const {
  return (board_->writer.load() & wire::kWriterWithdrawn) != 0 ||
         board_->array_id.load() != wire::to_int(opened_.id);
}

bool ArrayState::has_its_name() const {
  return !closed_.load() && (board_->writer.load() & wire::kWriterDraining) == 0 && !withdrawn();
}

absl::Status ArrayState::gone(bool draining) const {
  if (draining) {
    return make_error(ErrorCode::kDaemonLost,
                      fmt::format("the daemon of {} is shutting down", session_->directory()),
                      "Release your leases; connect again once it has been started anew.");
  }
  return make_error(
      ErrorCode::kWithdrawn,
      fmt::format("'{}' has been withdrawn, or the process that created it has ended", name()),
      "Views stay valid until they die. Open the name again if it was created anew; "
      "with lifetime 'persistent' an array outlives its creator.");
}

// ---- Membership.

absl::StatusOr<std::byte*> ArrayState::own_row(RowRef at, std::uint32_t units) {
  auto mapping = session_->mappings().get(at.file, FileKind::kExtent);
  if (!mapping.ok()) return mapping.status();
  if (!(*mapping)->writable() || !fits(**mapping, at, units)) {
    return defect("the row given to this process is not its own");
  }
  std::byte* row = (*mapping)->data() + at.unit * wire::kRowUnitBytes;
  const std::lock_guard lock(pages_mutex_);
  mappings_[wire::to_int(at.file)] = std::move(*mapping);
  return row;
}

absl::StatusOr<SlotReader*> ArrayState::reader() {
  if (SlotReader* ready = reader_ready_.load()) return ready;
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return busy_ == Busy::kIdle; });
  if (reader_) return &*reader_;
  if (left_) return usable();
  busy_ = Busy::kSubscribing;
  lock.unlock();
  const absl::Cleanup done = [this] { end_busy(); };
  if (auto status = subscribe(); !status.ok()) return status;
  reader_ready_.store(&*reader_);
  crash_point("subscribe.done");
  return &*reader_;
}

void ArrayState::end_busy() {
  const std::lock_guard lock(mutex_);
  busy_ = Busy::kIdle;
  idle_.notify_all();
}

// By the one thread that is busy with this.
absl::Status ArrayState::subscribe() {
  crash_point("subscribe.begin");
  auto subscribed = session_->control().subscribe(opened_.id);
  crash_point("subscribe.answered");
  if (!subscribed.ok()) return subscribed.status();
  auto row = own_row(subscribed->row, wire::reader_row_units(slots()));
  if (!row.ok()) return row.status();
  if (order_ != nullptr) {
    auto status = order_->open_read_events(subscribed->row, subscribed->read_events);
    if (!status.ok()) return status;
  }
  reader_.emplace(*board_, opened_.id, slots(), *reinterpret_cast<wire::ReaderRow*>(*row), *this);
  return absl::OkStatus();
}

absl::StatusOr<SlotWriter*> ArrayState::writer(RowRef at) {
  if (writer_) return &*writer_;
  auto row = own_row(at, wire::writer_row_units(slots()));
  if (!row.ok()) return row.status();
  writer_.emplace(*board_, opened_.id, slots(), at, *reinterpret_cast<wire::WriterRow*>(*row),
                  *this);
  return &*writer_;
}

bool ArrayState::enter_writing(std::chrono::nanoseconds slice) {
  std::uint32_t found = kNobody;
  if (turn_.compare_exchange_strong(found, kTaken)) return true;
  if (slice == std::chrono::nanoseconds::zero()) return false;
  // Whoever sleeps says so, and who ends the turn wakes all of them.
  if (found = turn_.exchange(kAwaited); found != kNobody) {
    const wire::FutexWait wait{&turn_, kAwaited};
    wire::futex_wait({&wait, 1}, slice);
    found = turn_.exchange(kAwaited);
  }
  return found == kNobody;
}

void ArrayState::leave_writing() {
  if (turn_.exchange(kNobody) == kAwaited) wire::futex_wake_all(turn_);
}

bool ArrayState::reopen() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return busy_ != Busy::kLeaving; });
  if (left_) return false;
  ++opens_;
  closed_.store(false);
  return true;
}

void ArrayState::close() {
  closed_.store(true);
  settle_unused();
  leave_if_due();
}

// The daemon lets nobody go whose GPU work may still touch the slots.
void ArrayState::await_device() {
  constexpr std::chrono::seconds kPatience{10};
  if (order_ == nullptr) return;
  const auto end = std::chrono::steady_clock::now() + kPatience;
  for (Backoff backoff; !order_->complete() && std::chrono::steady_clock::now() < end;) {
    backoff.pause();
  }
}

// True if it is due, and this thread's to do. closed_ (or the daemon's mark on the board) first,
// then the look at the holds: a thread that is about to read announces its hold first and looks at
// the mark then.
bool ArrayState::begin_leaving() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return busy_ == Busy::kIdle; });
  if (left_ || !ending()) return false;
  if (must_settle()) session_->note_unsettled();
  const SlotReader* reader = reader_ready_.load();
  if (reader != nullptr && reader->holds_any()) return false;
  busy_ = Busy::kLeaving;
  return true;
}

void ArrayState::leave_if_due() {
  if (!ending()) return;
  if (!enter_writing(std::chrono::nanoseconds::zero()))
    return;  // a write lease lives: it will come
  absl::Cleanup leave = [this] { leave_writing(); };
  if (begin_leaving()) {
    const absl::Cleanup done = [this] {
      left_ = true;
      end_busy();
    };
    await_device();
    // Closed before the daemon may destroy it, unless the device is still at work after all.
    {
      const DeviceUse closed = take_device_use();
    }
    // An error means that the daemon has gone, or does not know us: left either way.
    crash_point("leave.begin");
    session_->control().leave(opened_.id, opens_).IgnoreError();
    crash_point("leave.answered");
  }
  std::move(leave).Invoke();
  session_->kept().let_go();
}

// ---- RowResolver.

const ArrayState::MappedWriter* ArrayState::known_writer(RowRef at) const {
  const auto known = std::find_if(writers_.begin(), writers_.end(),
                                  [&](const auto& writer) { return writer->at == at; });
  return known == writers_.end() ? nullptr : known->get();
}

const wire::WriterRow* ArrayState::find_writer_row(RowRef at) {
  const auto remember = [&](const MappedWriter* writer) {
    last_writer_.store(writer, std::memory_order_release);
    return writer->row;
  };
  {
    const std::lock_guard lock(pages_mutex_);
    if (const MappedWriter* known = known_writer(at)) return remember(known);
  }
  auto mapping = session_->mappings().get(at.file, FileKind::kExtent);
  if (!mapping.ok() || !fits(**mapping, at, wire::writer_row_units(slots()))) return nullptr;
  const auto* row =
      reinterpret_cast<const wire::WriterRow*>((*mapping)->data() + at.unit * wire::kRowUnitBytes);
  const std::lock_guard lock(pages_mutex_);
  if (const MappedWriter* known = known_writer(at)) return remember(known);
  writers_.push_back(std::make_unique<MappedWriter>(MappedWriter{{at, row}, std::move(*mapping)}));
  return remember(writers_.back().get());
}

const wire::ReaderRow* ArrayState::find_reader_row(RowRef at) {
  const std::uint64_t key = wire::pack_subscriber(at);
  if (const auto known = readers_.find(key); known != readers_.end()) {
    last_reader_ = known->second;
    return last_reader_.row;
  }
  auto mapping = session_->mappings().get(at.file, FileKind::kExtent);
  if (!mapping.ok() || !fits(**mapping, at, wire::reader_row_units(slots()))) return nullptr;
  forget_dead_readers();
  const auto* row =
      reinterpret_cast<const wire::ReaderRow*>((*mapping)->data() + at.unit * wire::kRowUnitBytes);
  readers_.emplace(key, MappedReader{{at, row}, std::move(*mapping)});
  return row;
}

// A new subscriber is the occasion to unmap the pages of those who are gone.
void ArrayState::forget_dead_readers() {
  absl::flat_hash_map<std::uint64_t, MappedReader> alive;
  const wire::SubscriberChunk* chunk = &board_->subscribers;
  while (chunk != nullptr) {
    for (const wire::Word& entry : chunk->entries) {
      if (const auto known = readers_.find(entry.load()); known != readers_.end()) {
        alive.insert(*known);
      }
    }
    const std::uint64_t next = chunk->next.load();
    chunk = next == 0 ? nullptr : subscriber_chunk(wire::unpack_chunk(next));
  }
  readers_ = std::move(alive);
  last_reader_ = {};
}

const wire::SubscriberChunk* ArrayState::subscriber_chunk(FileRange at) {
  std::shared_ptr<Mapping> board;
  {
    const std::lock_guard lock(pages_mutex_);
    if (const auto known = mappings_.find(wire::to_int(at.file)); known != mappings_.end()) {
      board = known->second;
    }
  }
  if (board == nullptr) {
    auto mapping = session_->mappings().get(at.file, FileKind::kBoard);
    if (!mapping.ok()) return nullptr;
    board = std::move(*mapping);
    const std::lock_guard lock(pages_mutex_);
    mappings_.try_emplace(wire::to_int(at.file), board);
  }
  if (!board->contains(at.offset, sizeof(wire::SubscriberChunk), wire::kBoardUnitBytes)) {
    return nullptr;
  }
  return reinterpret_cast<const wire::SubscriberChunk*>(board->data() + at.offset);
}

}  // namespace memlease::internal
