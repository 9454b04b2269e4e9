// One array as this process has it open: its membership, the halves of the slot protocol, and the
// ends of leases, on what MappedArray has mapped. Its owner deletes it, and so leaves the array,
// when there is no handle (a shared_ptr) any more and no lease or pin: these keep it by their hold
// or by the write lock, so that they need not count anything else. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/arrays/fault_table.h"
#include "client/arrays/mapped_array.h"
#include "client/arrays/outliving_pins.h"
#include "client/arrays/write_lock.h"
#include "client/ordering/work_end.h"
#include "client/slots/slot_reader.h"
#include "client/slots/slot_writer.h"
#include "wire/mutex.h"

namespace memlease::internal {

class OpenArray final : public MappedArray, public FaultTable::Array {
 public:
  // Maps, fetches and opens. After an error it is the caller that leaves the array.
  static absl::StatusOr<std::unique_ptr<OpenArray>> open(std::shared_ptr<ArrayOwner> owner,
                                                         const OpenAnswer& answer);
  // Leaves the array, by way of its owner.
  ~OpenArray() override;
  OpenArray(const OpenArray&) = delete;
  OpenArray& operator=(const OpenArray&) = delete;

  // kClosed, kForkedClient, kDaemonLost or OK.
  absl::Status usable() const;
  // Nothing speaks against it, and no look is due: usable() would say OK.
  bool usable_at_once() const {
    return !closed_.load(std::memory_order_relaxed) && !left_.load(std::memory_order_relaxed) &&
           session_.usable_at_once();
  }

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
    if (board().elsewhere.load(std::memory_order_relaxed) != 0) return {};
    const ReadAttempt attempt = reader->acquire(version, newer_than);
    if (attempt.outcome != ReadOutcome::kAcquired) return attempt;
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
  // Ends a read lease. Calls nobody; where the array is to be left, a later call of the process's
  // does that (ArrayOwner::note_release). This may be gone afterwards.
  void end_read(std::uint32_t slot);
  // Likewise, with what the streams were given until now as its end.
  // `interrupt_check`: a wait ends with its interrupt, which is returned; 0: with none.
  absl::Status end_device_read(std::uint32_t slot, std::uint64_t version, const WorkEnd& end,
                               std::uint64_t interrupt_check);
  // Ends a write lease, likewise.
  void end_write(std::uint32_t slot, std::uint64_t version, bool publish);
  // In a write on a replica: its number is from this home, which has given it by begin_number().
  // With the write's end the home's ends.
  void set_numbered_by(OpenArray& home) { numbered_by_ = &home; }
  // Ends what begin_number() has begun here.
  void end_number();
  // The pins of a host array that outlive their leases, for pin.cc and release_views().
  OutlivingPins& outliving_pins() { return outliving_pins_; }
  // Of how many slots has this process a lease or view?
  std::uint32_t held_slots() const;

  // Does this process itself hold slots beside the current one, by leases and views?
  bool holds_back_slots();
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
  bool enter_writing(std::chrono::nanoseconds slice) { return write_lock_.acquire(slice); }
  void leave_writing() { write_lock_.release(); }
  // This thread has entered it, and nobody has left it.
  bool written_by_this_thread() const { return write_lock_.taken_by_this_thread(); }
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
  bool mapped_at_once(std::uint32_t slot) const { return slot_pages_.mapped_at_once(slot); }
  absl::Status release_own_deferred();
  absl::Status subscribe(InterruptCheck interrupt);
  std::uint64_t version_in(std::uint32_t slot) const;
  void end_busy() ABSL_LOCKS_EXCLUDED(mutex_);
  void finish_closing();
  std::optional<std::uint32_t> begin_leaving() ABSL_LOCKS_EXCLUDED(mutex_);
  void await_device();
  template <typename GiveUp>
  void end_lease(GiveUp give_up);

  OutlivingPins outliving_pins_;

  std::atomic<bool> without_handle_{false};
  std::atomic<bool> closed_{false};
  std::atomic<bool> starved_{false};
  std::atomic<bool> warned_of_views_{false};
  std::atomic<bool> left_{false};  // no member any more; the rows may be another array's by now
  WriteLock write_lock_;
  std::optional<SlotWriter> writer_;                   // used under the write lock alone
  OpenArray* numbered_by_ = nullptr;                   // likewise; kept by its own write lock
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
