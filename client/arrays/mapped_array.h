// An array as this process has it mapped: what it is, where its bytes and pages are, and what the
// words that others write say about it. Who uses it here, and for how long, is OpenArray's, which
// begins as one of these. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/arrays/array_owner.h"
#include "client/arrays/array_pages.h"
#include "client/arrays/fault_table.h"
#include "client/arrays/lazily.h"
#include "client/arrays/slot_pages.h"
#include "client/ordering/gpu_array.h"
#include "client/ordering/gpu_order.h"
#include "client/ordering/gpu_use.h"
#include "client/session/control_port.h"
#include "client/session/known_array.h"
#include "client/session/session.h"
#include "wire/board.h"

namespace memlease::internal {

class MappedArray : public FaultTable::Array {
 public:
  MappedArray(const MappedArray&) = delete;
  MappedArray& operator=(const MappedArray&) = delete;

  ArrayOwner& owner() const { return *owner_; }
  Session& session() const { return session_; }
  const KnownArray& facts() const { return known_; }
  const wire::ArrayKind& kind() const { return *known_.kind; }
  const std::string& name() const { return known_.name; }
  std::uint32_t slots() const { return kind().slots; }
  wire::SlotLayout layout() const { return known_.layout(); }
  bool is_added(std::uint32_t slot) const { return slot >= slots(); }
  const std::vector<std::int64_t>& strides_bytes() const { return kind().strides_bytes; }
  // Made before a fork, and this is the child: the pages are not here.
  bool forked() const { return session_.forked(); }

  // Of a slot that is held and has been mapped; to write, of one that is in writing.
  std::byte* read_data(std::uint32_t slot) const { return slot_pages().read_data(slot); }
  std::byte* write_data(std::uint32_t slot) const { return slot_pages().write_data(slot); }
  // Where a slot that nobody holds here was mapped, perhaps: to be prefetched, no more.
  const std::byte* likely_data(std::uint32_t slot) const { return slot_pages().likely_data(slot); }
  // The ranges in which a slot that is held has this address; nullptr if in none.
  MappedRanges* ranges_of(std::uint32_t slot, const std::byte* data) const {
    return slot_pages().ranges_of(slot, data);
  }
  // Maps it unless it is, which a slot may be that the daemon has added. To be asked after each
  // hold, and each begin of a write. Unmaps those that have gone.
  absl::Status map_slot(std::uint32_t slot, InterruptCheck interrupt) {
    return slot_pages().map_slot(slot, interrupt);
  }
  absl::Status map_slot_to_write(std::uint32_t slot, InterruptCheck interrupt) {
    return slot_pages().map_slot_to_write(slot, interrupt);
  }
  // In a write that is about to be published, with a pin that has the slot until they are writable
  // again: views of it live that could write into it late. From here on that faults.
  // `data`: where the lease has it.
  ProtectedPages protect(std::uint32_t slot, std::byte* data);

  // For a copy on a GPU of so many bytes, from a slot that is held, or `to` one that is in writing:
  // by pages that are registered for that. nullptr: by read_data() or write_data().
  RegisteredBytes begin_copy(std::uint32_t slot, bool to, std::uint64_t copied_bytes,
                             Importer& importer);

  const wire::BoardRecord& board() const { return *record_.board; }
  // For the daemon's metrics; nullptr before this process has read or written the array.
  wire::SessionCounts* counts() const {
    const ArrayPages* const pages = pages_.if_made();
    return pages == nullptr ? nullptr : pages->counts();
  }
  // nullptr: it is not mapped.
  const wire::WriterRow* writer_row(wire::RowRef at) {
    ArrayPages* const pages = pages_.if_made();
    return pages == nullptr ? nullptr : pages->writer_row(at);
  }
  // Maps a writer's row; a wait for the daemon ends with what `interrupt` says.
  absl::Status map_writer_row(wire::RowRef at, InterruptCheck interrupt) {
    return pages().map_writer_row(at, interrupt).status();
  }
  // Maps readers' rows likewise (ArrayPages), for a write.
  absl::StatusOr<bool> map_reader_rows(InterruptCheck interrupt) {
    return pages().map_reader_rows(interrupt);
  }
  // The version that is current now; 0 = none. Maps the writer's row likewise, and fails with an
  // interrupt or kWithdrawn alone.
  absl::StatusOr<std::uint64_t> current_version(InterruptCheck interrupt);
  // There is one slot, and the last write of it was dropped, so that no version is there to be
  // read, whatever is current. Of what is mapped.
  bool only_slot_is_empty();
  // The current version for the text of an error, which calls nobody.
  std::uint64_t known_version();
  // A process has the writer's ownership, not the daemon, and not only to copy versions here that
  // were written elsewhere; as far as can be told without a call.
  bool has_writer() const;
  // A writer, of whatever process, waits for a slot. Calls nobody.
  bool writer_wants_slot();
  // Its name is free, or another array's.
  bool withdrawn() const;
  // The error of a use of the array once it is withdrawn or its daemon is ending.
  absl::Status gone(bool draining) const;
  // The error of a call about this array. A daemon that has it no more does not know its name.
  absl::Status named(const absl::Status& of_call) const;

  // The GPU's part, also where the array has been left; nullptr for the host, whose bytes are there
  // when a lease is.
  GpuArray* gpu() const { return gpu_.get(); }
  Importer* importer() const { return gpu_ == nullptr ? nullptr : &gpu_->importer(); }
  int device_ordinal() const;  // in this process; -1 for the host
  // Not OK: a replica on a GPU that this process does not see, and why. Its pages tell which
  // version is there; it has no bytes, and no handle leads to it.
  absl::Status reach() const {
    const SlotPages* const slots = slot_pages_.if_made();
    return slots == nullptr ? absl::OkStatus() : slots->reach();
  }

 protected:
  MappedArray(std::shared_ptr<ArrayOwner> owner, const OpenAnswer& answer);
  ~MappedArray() = default;
  // Before all else: fetches, maps and opens what tells how the array is; where it has been
  // subscribed to, or is a GPU's, also what a reader needs, of a replica whose GPU this process
  // does not see without its bytes. A wait for the daemon ends with what `interrupt` says, here and
  // below.
  absl::Status open_record(const OpenAnswer& answer, InterruptCheck interrupt);
  // What only reading and writing need, as many arrays are created and not used: made by who first
  // does.
  ArrayPages& pages();
  absl::StatusOr<SlotPages*> map_slots(InterruptCheck interrupt);
  // To who has a reader or writer, or a lease by them.
  SlotPages& slot_pages() const { return *slot_pages_.if_made(); }
  // That was asked for last; nullptr: another one was. For signal handlers, too.
  const wire::WriterRow* last_writer_row(wire::RowRef at) const;
  // What orders streams, while there is a lease, a pin or the write lock: without these another
  // thread may leave the array.
  GpuOrder* order() const { return gpu_ == nullptr ? nullptr : gpu_->order(); }
  // Nobody uses the array any more: unmaps its slots. What is open of a GPU's, and registered for
  // GPUs, is to be closed.
  GpuUse end_use_of_slots();

  const std::shared_ptr<ArrayOwner> owner_;
  Session& session_;
  const KnownArray known_;
  MappedRecord record_;  // constant after open_record()
  // The host's first slot is in it: so who opens an array knows that it can be mapped, and its
  // first use finds it mapped.
  std::shared_ptr<Mapping> segment_;
  std::unique_ptr<GpuArray> gpu_;
  Lazily<ArrayPages> pages_;
  Lazily<SlotPages> slot_pages_;

 private:
  absl::Status open_on_device(InterruptCheck interrupt);
  std::unique_ptr<SlotPages> make_slot_pages();
  template <typename FindRow>
  std::uint64_t find_version(FindRow find_row);
};

}  // namespace memlease::internal
