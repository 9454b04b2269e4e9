// One array as this process has it open: its membership, the halves of the slot protocol, and the
// ends of leases, on what MappedArray has mapped. Its owner deletes it, and so leaves the array,
// when there is no handle (a shared_ptr) any more and no lease or pin: these keep it by their hold
// or by having entered writing, so that they need not count anything else. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/arrays/lazily.h"
#include "client/arrays/mapped_array.h"
#include "client/arrays/membership.h"
#include "client/arrays/outliving_pins.h"
#include "client/arrays/view_warning.h"
#include "client/arrays/writing.h"
#include "client/ordering/work_end.h"
#include "client/slots/slot_reader.h"
#include "client/slots/slot_writer.h"

namespace memlease::internal {

class OpenArray final : public MappedArray {
 public:
  // Maps, fetches and opens; a wait for the daemon ends with what `interrupt` says. After an error
  // it is the caller that leaves the array.
  static absl::StatusOr<std::unique_ptr<OpenArray>> open(std::shared_ptr<ArrayOwner> owner,
                                                         const OpenAnswer& answer,
                                                         InterruptCheck interrupt);
  // Leaves the array, by way of its owner.
  ~OpenArray() override;
  OpenArray(const OpenArray&) = delete;
  OpenArray& operator=(const OpenArray&) = delete;

  // kClosed, kForkedClient, kDaemonLost or OK.
  absl::Status usable() const;
  // Nothing speaks against it, and no look is due: usable() would say OK.
  bool usable_at_once() const { return membership_.open_at_once() && session_.usable_at_once(); }
  // The handles and whoever subscribes or leaves. A handle is closed by close_handle() alone.
  Membership& membership() { return membership_; }
  // Whoever leaves it without a write leaves the array, too, if that has become due (leave_if_due).
  Writing& writing() { return writing_; }
  const Writing& writing() const { return writing_; }
  ViewWarning& view_warning() { return view_warning_; }
  // The pins of a host array that outlive their leases, for pin.cc and release_views().
  OutlivingPins& outliving_pins() { return outliving_pins_.get(); }

  // The reader's half; takes a row from the daemon at its first call. Interrupted, it has none yet,
  // and the next call asks for the same row again.
  absl::StatusOr<SlotReader*> reader(InterruptCheck interrupt);
  // The reader's half if there is one already, else nullptr.
  SlotReader* reader_if_subscribed() const { return reader_.if_made(); }
  // What the writer's half takes, with a row to copy (ArrayPages); nothing where it is there.
  Brought bring_to_write(wire::RowRef at, wire::RowRef from, InterruptCheck interrupt);
  // The writer's half, for whoever has entered writing; row as the daemon gave it, likewise.
  absl::StatusOr<SlotWriter*> writer(wire::RowRef at, InterruptCheck interrupt);

  // A read that need not wait, nor ask, nor fail. kNotYet: there is nothing to have just now, and
  // nothing else to be said. What is neither that nor kAcquired means no more than that it is to be
  // tried by begin_read().
  ReadAttempt read_at_once(std::uint64_t version, std::uint64_t newer_than) {
    SlotReader* reader = reader_.if_made();
    if (reader == nullptr || !usable_at_once()) return {};
    if (board().elsewhere.load(std::memory_order_relaxed) != 0) return {};
    const ReadAttempt attempt = reader->acquire(version, newer_than);
    if (attempt.outcome != ReadOutcome::kAcquired) return attempt;
    if (!keep(attempt)) return {};
    if (mapped_at_once(attempt.slot)) return attempt;
    end_read(attempt.slot);
    return {};
  }
  // To be asked after each hold that a read has taken. False if close(), or the end of its GPU,
  // came first in another thread, and the hold has been given back: those look at the holds after
  // their mark, we at the mark after the hold. They may have left it to us to leave the array.
  bool keep(const ReadAttempt& acquired) {
    if (!closed() && !lost()) return true;
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
  // Ends what claim_number() has begun here.
  void end_number();
  // Does this process itself hold slots beside the current one, by leases and views?
  // For whoever has entered writing.
  bool holds_back_slots();

  // FaultTable::Array.
  bool find_place(const void* address, FaultTable::Place& place) const override;

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
  bool has_deferred() const { return gpu_ != nullptr && gpu_->has_deferred(); }

  // One handle (ArrayHandle) less: with the last one the array is closed. May call the daemon.
  // Closed it is whatever comes: this fails with what `interrupt` says alone.
  absl::Status close_handle(InterruptCheck interrupt);
  // The same for a caller that closes many, as leave_if_due().
  absl::Status close_handle(std::vector<Departure>& departures, InterruptCheck interrupt);
  // It is closed or withdrawn, or what this process wrote has been lost with its GPU.
  bool ending() const { return closed() || lost() || withdrawn(); }
  // Gives rows and ownership back, or when the last lease and pin has gone; adds to `departures`
  // what is to be told to the daemon at once.
  void close(std::vector<Departure>& departures);
  bool closed() const { return membership_.closed(); }
  bool left() const { return membership_.left(); }
  // Leaves if nothing is held any more and the array is closed or withdrawn. May wait for the
  // device and call the daemon, both without a lock.
  void leave_if_due();
  // The same, but adds to `departures` what the daemon is to be told: the caller gives it to the
  // owner, who tells of many arrays by one call. Until then the daemon counts an open too many,
  // which keeps nobody from opening the array again. Fails with what `interrupt` says alone, which
  // is asked while it waits for the device; it is left then all the same.
  absl::Status leave_if_due(std::vector<Departure>& departures, InterruptCheck interrupt);
  // Whoever opens the name now gets this array: a name is freed by withdrawing alone.
  bool has_its_name() const;

  // For the owner alone, under its lock: the handle that there is, and of those whose end it has
  // not seen yet how many there are.
  struct Handles {
    std::weak_ptr<OpenArray> newest;
    std::uint32_t count = 0;
  };
  Handles& handles() { return handles_; }
  // For the owner: there is no handle, or there is one again.
  void set_without_handle(bool without) { without_handle_.store(without); }
  // Has a lease or pin. To be asked where no handle could begin one.
  bool in_use() const;
  // The end of a lease or pin may be what somebody waits for.
  bool end_matters() const { return without_handle_.load() || ending(); }

  // GpuArray::noted() for a call that has no lease; leaves the array if versions were lost. Whoever
  // writes, or leaves it, just now sees the failure himself.
  absl::Status noted(absl::Status status);
  // Whether the array's GPU knows it. For a lease that is to be taken: nothing has happened yet.
  absl::Status check_stream(Stream stream);
  // What has failed, if what this process wrote has been lost by that.
  absl::Status check_lost() const {
    return gpu_ == nullptr ? absl::OkStatus() : gpu_->check_lost();
  }

 private:
  bool lost() const { return gpu_ != nullptr && gpu_->lost(); }
  OpenArray(std::shared_ptr<ArrayOwner> owner, const OpenAnswer& answer);
  bool mapped_at_once(std::uint32_t slot) const {
    return slot_pages_.if_made()->mapped_at_once(slot);
  }
  absl::Status release_own_deferred();
  absl::Status subscribe(InterruptCheck interrupt);
  std::uint64_t version_in(std::uint32_t slot) const;
  bool may_leave();
  absl::Status leave(std::uint32_t opens, std::vector<Departure>& departures,
                     InterruptCheck interrupt);
  absl::Status host_wait_work(InterruptCheck interrupt);
  template <typename GiveUp>
  void end_lease(GiveUp give_up);

  Membership membership_;
  Handles handles_;
  const wire::RowRef own_row_;  // as it was opened; file 0: it has not been subscribed to
  Writing writing_;
  Lazily<OutlivingPins> outliving_pins_;
  ViewWarning view_warning_;
  std::atomic<bool> without_handle_{false};
  Lazily<SlotReader> reader_;  // made by the thread that subscribes, which is alone
};

}  // namespace memlease::internal
