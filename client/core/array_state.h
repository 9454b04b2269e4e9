// One array as this process has it: its pages, its bytes, its membership. Its session deletes it,
// and so leaves the array, when there is no handle (a shared_ptr) any more and no lease or pin:
// these keep it by their hold or by the turn to write, so that they need not count anything else.
// Thread-safe.
#pragma once

#include <memlease/lease.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/core/control_port.h"
#include "client/core/device_order.h"
#include "client/core/mapping_cache.h"
#include "client/core/row_resolver.h"
#include "client/core/session.h"
#include "client/core/slot_reader.h"
#include "client/core/slot_writer.h"

namespace memlease::internal {

class ArrayState final : public RowResolver {
 public:
  // After an error it is the caller that leaves the array.
  static absl::StatusOr<std::unique_ptr<ArrayState>> open(std::shared_ptr<Session> session,
                                                          const OpenedArray& opened);
  ~ArrayState() override;

  Session& session() const { return *session_; }
  const OpenedArray& opened() const { return opened_; }
  const wire::ArraySpec& spec() const { return opened_.spec; }
  const std::string& name() const { return opened_.spec.name; }
  std::uint32_t slots() const { return opened_.spec.slots; }
  const std::vector<std::int64_t>& strides_bytes() const { return strides_bytes_; }
  std::byte* slot_data(std::uint32_t slot) const { return slot_data_[slot]; }
  // What orders streams; nullptr for a host array, whose bytes are there when a lease is. Only for
  // whoever has a lease or the turn to write: without these another thread may leave the array.
  DeviceOrder* order() const { return order_.get(); }
  // The array's device in this process, also where it has been left; nullptr for the host.
  Importer* importer() const { return importer_; }
  int device_ordinal() const { return device_ordinal_; }  // in this process; -1 for the host
  // The version that is current now; 0 = none.
  std::uint64_t current_version();

  // kClosed, kForkedClient, kDaemonLost or OK.
  absl::Status usable() const;
  // Nothing speaks against it, and no look is due: usable() would say OK.
  bool usable_at_once() const {
    return !closed_.load(std::memory_order_relaxed) && !left_.load(std::memory_order_relaxed) &&
           session_->usable_at_once();
  }
  // Made before a fork, and this is the child: the pages are not here.
  bool forked() const { return fork_generation_ != fork_generation(); }
  // What stands in the way of a withdrawn or ending daemon's array, as an error.
  absl::Status gone(bool draining) const;

  // The reader's half; takes a row from the daemon at its first call.
  absl::StatusOr<SlotReader*> reader();
  // The reader's half if there is one already, else nullptr.
  SlotReader* reader_if_subscribed() const { return reader_ready_.load(); }
  // The writer's half, for whoever is inside of a Writing; row as the daemon gave it.
  absl::StatusOr<SlotWriter*> writer(wire::RowRef at);
  SlotWriter* writer_if_any() { return writer_ ? &*writer_ : nullptr; }

  // A read that need not wait, nor ask, nor fail: anything but kAcquired means no more than that.
  ReadAttempt read_at_once(std::uint64_t version, std::uint64_t newer_than) {
    SlotReader* reader = reader_ready_.load();
    if (reader == nullptr || !usable_at_once()) return {};
    const ReadAttempt attempt = reader->acquire(version, newer_than);
    if (attempt.outcome != ReadAttempt::Outcome::kAcquired || keep(*reader, attempt)) {
      return attempt;
    }
    return {};
  }
  // To be asked after each hold that a read has taken. False if close() came first in another
  // thread, and the hold has been given back: close() looks at the holds after its mark, we at its
  // mark after the hold.
  bool keep(SlotReader& reader, const ReadAttempt& acquired) {
    if (!closed_.load()) return true;
    reader.release(acquired.slot);
    return false;
  }
  // Ends a read lease. Leaves the array if that is due. This may be gone afterwards.
  void end_read(std::uint32_t slot);
  // Likewise, with what the streams were given until now as its end.
  // `interruptible`: a wait ends with an interrupt, which is returned.
  absl::Status end_device_read(std::uint32_t slot, std::uint64_t version,
                               const DeviceOrder::WorkEnd& end, bool interruptible);
  // Ends a write lease, likewise.
  void end_write(std::uint32_t slot, std::uint64_t version, bool publish);
  // Holds the slot, which a lease of this process has now, until the last copy dies. The reader's
  // half must be there.
  Pin pin(std::uint32_t slot);
  // The lease that the pin was made for ends, and the pin goes on.
  void end_lease_of(const Pin& pin) const;
  // Does what pins of a device array that died alone have left undone, and leases that could not
  // wait; waits for the device then. Also for the session's other arrays. And lets sources go that
  // have been copied. For whoever has a lease or the turn to write.
  absl::Status settle();
  // The same for anybody; a later call does what cannot be done now.
  void settle_unused();
  // A write lease ends, and nobody can tell whether its work is over: the slot is kept until
  // settle() can.
  void keep_for_settle(std::uint32_t slot);

  // One write at a time in this process: false if it lasts beyond the slice.
  bool enter_writing(std::chrono::nanoseconds slice);
  void leave_writing();

  // One more Open reply has been merged into this state; it is open again if it was closed but not
  // left yet. False if it has been left: make a new one. Waits for a thread that is leaving it.
  bool reopen();
  // It is closed or withdrawn.
  bool ending() const {
    return closed_.load() || (board_->writer.load() & wire::kWriterWithdrawn) != 0;
  }
  // Gives rows and the right back at once, or when the last lease and pin has gone.
  void close();
  bool closed() const { return closed_.load(); }
  bool left() const { return left_.load(); }
  // Leaves if nothing is held any more and the array is closed or withdrawn. May wait for the
  // device and call the daemon, both without a lock.
  void leave_if_due();
  // Its name is free, or another array's.
  bool withdrawn() const;
  // Whoever opens the name now gets this array: a name is freed by withdrawing alone.
  bool has_its_name() const;

  // RowResolver.
  const wire::SubscriberChunk* subscriber_chunk(wire::FileRange at) override;

  const wire::BoardRecord& board() const { return *board_; }

 private:
  friend class Session;
  using PinMark = DeviceOrder::PinMark;
  struct PinEnd {
    ArrayState* array;
    std::uint32_t slot;
    std::shared_ptr<PinMark> mark;  // null for the host
    void operator()(const void* data) const;
  };
  struct MappedWriter : KnownWriter {
    std::shared_ptr<Mapping> mapping;
  };
  struct MappedReader : KnownReader {
    std::shared_ptr<Mapping> mapping;
  };

  ArrayState(std::shared_ptr<Session> session, const OpenedArray& opened);
  absl::Status map_all();
  absl::Status map_slots();
  absl::Status import_slots();
  // Holds are kept that end by settle() alone.
  bool must_settle() const { return order_ != nullptr && order_->must_settle(); }
  absl::Status settle_own();
  absl::Status subscribe();
  void end_busy();
  bool begin_leaving();
  void await_device();
  DeviceUse take_device_use();
  const MappedWriter* known_writer(wire::RowRef at) const;  // pages_mutex_ is held
  const wire::WriterRow* find_writer_row(wire::RowRef at) override;
  const wire::ReaderRow* find_reader_row(wire::RowRef at) override;
  template <typename GiveUp>
  void end_lease(GiveUp give_up);
  // The end of a lease or pin may be what somebody waits for.
  bool end_matters() const { return without_handle_.load() || ending(); }
  // Has a lease or pin. To be asked where no handle could begin one.
  bool in_use() const;
  absl::StatusOr<std::byte*> own_row(wire::RowRef at, std::uint32_t units);
  void forget_dead_readers();

  const std::shared_ptr<Session> session_;
  const OpenedArray opened_;
  const std::uint32_t fork_generation_;
  std::vector<std::int64_t> strides_bytes_;
  std::vector<std::byte*> slot_data_;
  const wire::BoardRecord* board_ = nullptr;
  Importer* importer_ = nullptr;
  std::map<std::uint32_t, std::shared_ptr<Mapping>> mappings_;  // boards, segments, own extents
  std::map<std::uint32_t, std::shared_ptr<DeviceMemory>> imported_;  // segments on a device
  std::unique_ptr<DeviceOrder> order_;                               // gone once left
  int device_ordinal_ = -1;

  std::weak_ptr<ArrayState> handle_;  // these two guarded by the session
  std::uint32_t handles_ = 0;
  std::atomic<bool> without_handle_{false};
  std::atomic<bool> closed_{false};
  std::atomic<bool> left_{false};  // no member any more; the rows may be another array's by now
  // A thread that subscribes or leaves does so alone, but makes its calls without the lock.
  enum class Busy : std::uint8_t { kIdle, kSubscribing, kLeaving };
  std::mutex mutex_;              // guards what follows, but for the atomics
  std::condition_variable idle_;  // busy_ is kIdle again
  Busy busy_ = Busy::kIdle;
  std::uint32_t opens_ = 1;
  std::optional<SlotReader> reader_;
  std::atomic<SlotReader*> reader_ready_{nullptr};

  enum Turn : std::uint32_t { kNobody, kTaken, kAwaited };
  wire::HalfWord turn_{kNobody};  // whose turn to write: a lock that may be left by another thread
  std::optional<SlotWriter> writer_;                          // used inside of a write alone
  absl::flat_hash_map<std::uint64_t, MappedReader> readers_;  // likewise

  std::mutex pages_mutex_;                              // guards mappings_ and writers_
  std::vector<std::unique_ptr<MappedWriter>> writers_;  // never shrinks: readers use its rows
};

}  // namespace memlease::internal
