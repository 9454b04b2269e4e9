// One array as this process has it open: its pages, its bytes, its membership. Its owner deletes
// it, and so leaves the array, when there is no handle (a shared_ptr) any more and no lease or pin:
// these keep it by their hold or by the write lock, so that they need not count anything else.
// Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/arrays/array_owner.h"
#include "client/arrays/array_pages.h"
#include "client/arrays/fault_table.h"
#include "client/arrays/outliving_pins.h"
#include "client/arrays/slot_pages.h"
#include "client/arrays/write_lock.h"
#include "client/ordering/gpu_array.h"
#include "client/ordering/gpu_order.h"
#include "client/ordering/work_end.h"
#include "client/session/control_port.h"
#include "client/session/session.h"
#include "client/slots/slot_reader.h"
#include "client/slots/slot_writer.h"
#include "wire/mutex.h"

namespace memlease::internal {

class OpenArray final : public FaultTable::Array {
 public:
  // Maps, fetches and opens. After an error it is the caller that leaves the array.
  static absl::StatusOr<std::unique_ptr<OpenArray>> open(std::shared_ptr<ArrayOwner> owner,
                                                         const OpenAnswer& answer);
  // Leaves the array, by way of its owner.
  ~OpenArray() override;
  OpenArray(const OpenArray&) = delete;
  OpenArray& operator=(const OpenArray&) = delete;

  ArrayOwner& owner() const { return *owner_; }
  Session& session() const { return session_; }
  const OpenAnswer& answer() const { return answer_; }
  const wire::ArraySpec& spec() const { return answer_.spec; }
  const std::string& name() const { return answer_.spec.name; }
  std::uint32_t slots() const { return answer_.spec.slots; }
  wire::SlotLayout layout() const { return {answer_.spec.slots, answer_.spec.max_slots}; }
  bool is_added(std::uint32_t slot) const { return slot >= slots(); }
  const std::vector<std::int64_t>& strides_bytes() const { return strides_bytes_; }
  // Of a slot that is held and has been mapped; to write, of one that is in writing.
  std::byte* read_data(std::uint32_t slot) const { return slot_pages_.read_data(slot); }
  std::byte* write_data(std::uint32_t slot) const { return slot_pages_.write_data(slot); }
  // Maps it unless it is, which a slot may be that the daemon has added. To be asked after each
  // hold, and each begin of a write. Unmaps those that have gone.
  absl::Status map_slot(std::uint32_t slot, InterruptCheck interrupt) {
    return slot_pages_.map_slot(slot, interrupt);
  }
  absl::Status map_slot_to_write(std::uint32_t slot, InterruptCheck interrupt) {
    return slot_pages_.map_slot_to_write(slot, interrupt);
  }
  const wire::BoardRecord& board() const { return pages_.board(); }
  const wire::WriterRow* writer_row(wire::RowRef at, Unmapped unmapped = Unmapped::kFetch) {
    return pages_.writer_row(at, unmapped);
  }
  // Maps a writer's row; a wait for the daemon ends with what `interrupt` says.
  absl::Status map_writer_row(wire::RowRef at, InterruptCheck interrupt) {
    return pages_.map_writer_row(at, interrupt).status();
  }
  // Maps readers' rows likewise (ArrayPages), for a write.
  absl::StatusOr<bool> map_reader_rows(InterruptCheck interrupt) {
    return pages_.map_reader_rows(interrupt);
  }
  // The version that is current now; 0 = none. Maps the writer's row likewise, and fails with an
  // interrupt alone.
  absl::StatusOr<std::uint64_t> current_version(InterruptCheck interrupt);
  // The same for the text of an error, which calls nobody.
  std::uint64_t known_version();

  // The GPU's part, also where the array has been left; nullptr for the host, whose bytes are there
  // when a lease is.
  GpuArray* gpu() const { return gpu_.get(); }
  Importer* importer() const { return gpu_ == nullptr ? nullptr : &gpu_->importer(); }
  int device_ordinal() const;  // in this process; -1 for the host

  // kClosed, kForkedClient, kDaemonLost or OK.
  absl::Status usable() const;
  // Nothing speaks against it, and no look is due: usable() would say OK.
  bool usable_at_once() const {
    return !closed_.load(std::memory_order_relaxed) && !left_.load(std::memory_order_relaxed) &&
           session_.usable_at_once();
  }
  // Made before a fork, and this is the child: the pages are not here.
  bool forked() const { return fork_generation_ != fork_generation(); }
  // What stands in the way of a withdrawn or ending daemon's array, as an error.
  absl::Status gone(bool draining) const;

  // The reader's half; takes a row from the daemon at its first call.
  absl::StatusOr<SlotReader*> reader(InterruptCheck interrupt);
  // The reader's half if there is one already, else nullptr.
  SlotReader* reader_if_subscribed() const { return reader_ready_.load(); }
  // The writer's half, for whoever has the write lock; row as the daemon gave it.
  absl::StatusOr<SlotWriter*> writer(wire::RowRef at);
  SlotWriter* writer_if_any() { return writer_ ? &*writer_ : nullptr; }

  // A read that need not wait, nor ask, nor fail: anything but kAcquired means no more than that.
  ReadAttempt read_at_once(std::uint64_t version, std::uint64_t newer_than) {
    SlotReader* reader = reader_ready_.load();
    if (reader == nullptr || !usable_at_once()) return {};
    const ReadAttempt attempt = reader->acquire(version, newer_than);
    if (attempt.outcome != ReadAttempt::Outcome::kAcquired) return attempt;
    if (!keep(attempt)) return {};
    if (mapped_at_once(attempt.slot)) return attempt;
    end_read(attempt.slot);
    return {};
  }
  // To be asked after each hold that a read has taken. False if close() came first in another
  // thread, and the hold has been given back: close() looks at the holds after its mark, we at its
  // mark after the hold. It may have left it to us to leave the array.
  bool keep(const ReadAttempt& acquired) {
    if (!closed_.load()) return true;
    end_read(acquired.slot);
    return false;
  }
  // Ends a read lease. Leaves the array if that is due. This may be gone afterwards.
  void end_read(std::uint32_t slot);
  // Likewise, with what the streams were given until now as its end.
  // `interrupt_check`: a wait ends with its interrupt, which is returned; 0: with none.
  absl::Status end_device_read(std::uint32_t slot, std::uint64_t version, const WorkEnd& end,
                               std::uint64_t interrupt_check);
  // Ends a write lease, likewise.
  void end_write(std::uint32_t slot, std::uint64_t version, bool publish);
  // In a write that is about to be published, with a pin that has the slot until they are writable
  // again: views of it live that could write into it late. From here on that faults.
  // `data`: where the lease has it.
  ProtectedPages protect(std::uint32_t slot, std::byte* data);

  // The pins of a host array that outlive their leases; the table is pin.cc's and release_views()'.
  void add_pin(PinnedSlot& pin) { outliving_pins_.add(pin); }
  void remove_pin(const PinnedSlot& pin) { outliving_pins_.remove(pin); }
  bool release_pin(const OutlivingPins::Found& pin) { return outliving_pins_.release(pin); }
  std::vector<OutlivingPins::Found> outliving_pins();
  // Of how many slots has this process a lease or view?
  std::uint32_t held_slots() const;

  // Does this process itself hold slots beside the current one, by leases and views?
  bool holds_back_slots();
  // A writer, of whatever process, waits for a slot. Calls nobody.
  bool writer_wants_slot();
  // What this process holds has kept a write of its own waiting.
  void note_starved() { starved_.store(true, std::memory_order_relaxed); }
  // True once, for `starved` or what has been noted: the user is to be told about views.
  bool take_view_warning(bool starved) {
    return (starved || starved_.load(std::memory_order_relaxed)) &&
           !warned_of_views_.exchange(true);
  }

  // FaultTable::Array.
  bool find_place(const void* address, FaultTable::Place& place) const override;

  // The write lock of this process. Whoever lets it go without a write leaves the array if that has
  // become due meanwhile.
  bool enter_writing(std::chrono::nanoseconds slice) {
    if (!write_lock_.acquire(slice)) return false;
    writing_thread_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    return true;
  }
  void leave_writing() {
    writing_thread_.store({}, std::memory_order_relaxed);
    write_lock_.release();
  }
  // This thread has entered it, and nobody has left it.
  bool written_by_this_thread() const {
    return writing_thread_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }
  // For whoever has it: when a writer that would skip a version asks the daemon for one more slot
  // again.
  std::chrono::steady_clock::time_point next_growth() const { return next_growth_; }
  void set_next_growth(std::chrono::steady_clock::time_point at) { next_growth_ = at; }

  // Does what pins of a device array that died alone have left undone, and leases that could not
  // wait; waits for the device then. Also for the owner's other arrays. And lets sources go that
  // have been copied. For whoever has a lease or the write lock.
  absl::Status release_deferred();
  // The same for anybody; a later call does what cannot be done now.
  void release_deferred_if_unused();
  // A write lease ends, and nobody can tell whether its work is over: the slot is kept until
  // release_deferred() can.
  void defer_release(std::uint32_t slot);
  // Are there holds that end by release_deferred() alone?
  bool has_deferred() const { return order() != nullptr && order()->reader().has_deferred(); }

  // Handles (ArrayHandle): the first one comes with the array, and with the last one that is closed
  // the array is.
  // One more Open reply has been merged into this array, for one more handle; it is open again if
  // it was closed but not left yet. False if it has been left: make a new one. Waits for a thread
  // that is leaving it.
  bool reopen();
  // One more handle without a reply. False if it has been closed.
  bool add_handle();
  // One less: it has been closed, which may call the daemon, or it has died, which may not.
  void close_handle();
  void drop_handle();
  // What a closed handle is told.
  absl::Status handle_closed() const;
  // It is closed or withdrawn.
  bool ending() const {
    return closed_.load() || (board().writer.load() & wire::kWriterWithdrawn) != 0;
  }
  // Gives rows and ownership back at once, or when the last lease and pin has gone.
  void close();
  bool closed() const { return closed_.load(); }
  bool left() const { return left_.load(); }
  // Leaves if nothing is held any more and the array is closed or withdrawn. May wait for the
  // device and call the daemon, both without a lock.
  void leave_if_due();
  // A process has the writer's ownership, not the daemon.
  bool has_writer() const;
  // Its name is free, or another array's.
  bool withdrawn() const;
  // Whoever opens the name now gets this array: a name is freed by withdrawing alone.
  bool has_its_name() const;

  // For the owner: there is no handle, or there is one again.
  void set_without_handle(bool without) { without_handle_.store(without); }
  // Has a lease or pin. To be asked where no handle could begin one.
  bool in_use() const;
  // The end of a lease or pin may be what somebody waits for.
  bool end_matters() const { return without_handle_.load() || ending(); }

 private:
  OpenArray(std::shared_ptr<ArrayOwner> owner, const OpenAnswer& answer);
  absl::Status map_all();
  bool mapped_at_once(std::uint32_t slot) const { return slot_pages_.mapped_at_once(slot); }
  // What orders streams, while there is a lease, a pin or the write lock: without these another
  // thread may leave the array.
  GpuOrder* order() const { return gpu_ == nullptr ? nullptr : gpu_->order(); }
  absl::Status release_own_deferred();
  absl::Status subscribe(InterruptCheck interrupt);
  template <typename FindRow>
  std::uint64_t find_version(FindRow find_row);
  std::uint64_t version_in(std::uint32_t slot) const;
  void end_busy() ABSL_LOCKS_EXCLUDED(mutex_);
  void finish_closing();
  std::optional<std::uint32_t> begin_leaving() ABSL_LOCKS_EXCLUDED(mutex_);
  void await_device();
  GpuUse take_gpu_use();
  template <typename GiveUp>
  void end_lease(GiveUp give_up);

  const std::shared_ptr<ArrayOwner> owner_;
  Session& session_;
  const OpenAnswer answer_;
  const std::uint32_t fork_generation_;
  std::vector<std::int64_t> strides_bytes_;
  ArrayPages pages_;
  std::unique_ptr<GpuArray> gpu_;
  SlotPages slot_pages_;
  OutlivingPins outliving_pins_;

  std::atomic<bool> without_handle_{false};
  std::atomic<bool> closed_{false};
  std::atomic<bool> starved_{false};
  std::atomic<bool> warned_of_views_{false};
  std::atomic<bool> left_{false};  // no member any more; the rows may be another array's by now
  WriteLock write_lock_;
  std::atomic<std::thread::id> writing_thread_;
  std::optional<SlotWriter> writer_;                   // used under the write lock alone
  std::chrono::steady_clock::time_point next_growth_;  // likewise

  // A thread that subscribes or leaves does so alone, but makes its calls without the lock.
  enum class Busy : std::uint8_t { kIdle, kSubscribing, kLeaving };
  wire::Mutex mutex_;
  wire::CondVar idle_;  // busy_ is kIdle again
  Busy busy_ ABSL_GUARDED_BY(mutex_) = Busy::kIdle;
  std::thread::id subscriber_ ABSL_GUARDED_BY(mutex_);  // while kSubscribing
  std::uint32_t opens_ ABSL_GUARDED_BY(mutex_) = 1;
  std::uint32_t handles_ ABSL_GUARDED_BY(mutex_) = 1;  // that nobody has closed
  // Made by the thread that subscribes, without the lock; the others look at it when busy_ is
  // kIdle.
  std::optional<SlotReader> reader_;
  std::atomic<SlotReader*> reader_ready_{nullptr};
};

}  // namespace memlease::internal
