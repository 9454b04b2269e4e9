#include "client/arrays/mapped_array.h"

#include <utility>

#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::internal {

using wire::ErrorCode;
using wire::make_error;
using wire::RowRef;

MappedArray::MappedArray(std::shared_ptr<ArrayOwner> owner, const OpenAnswer& answer)
    : owner_(std::move(owner)),
      session_(owner_->session()),
      known_(answer, owner_->share_kind(answer.spec)) {}

absl::Status MappedArray::open_record(const OpenAnswer& answer, InterruptCheck interrupt) {
  const auto brought = bring_to_open(answer, session_.mappings(), interrupt);
  if (!brought.ok()) return brought.status();
  auto record = map_record(answer, session_.mappings(), interrupt);
  if (!record.ok()) return record.status();
  record_ = *std::move(record);
  if (answer.subscribed) {
    if (auto status = pages().map_rows(answer, interrupt); !status.ok()) return status;
  }
  if (!wire::is_host(kind())) return open_on_device(interrupt);
  if (answer.subscribed) return map_slots(interrupt).status();
  const auto mapped = map_slots_of(known_, session_.mappings(), Access::kRead, interrupt);
  if (!mapped.ok()) return mapped.status();
  segment_ = mapped->segments.front();
  return absl::OkStatus();
}

absl::Status MappedArray::open_on_device(InterruptCheck interrupt) {
  const auto seen = owner_->imports().importers().importer(kind().device);
  auto slots = make_slot_pages();
  if (known_.rare().home && wire::code_of(seen.status()) == ErrorCode::kUnsupported) {
    slots->set_out_of_reach(seen.status());
  } else {
    auto opened = GpuArray::open(known_, session_, owner_->imports(), interrupt);
    if (!opened.ok()) return opened.status();
    gpu_ = std::move(*opened);
    slots->set_device(*gpu_);
  }
  slot_pages_.set(std::move(slots));
  FaultTable::add(*this);
  return absl::OkStatus();
}

ArrayPages& MappedArray::pages() {
  return pages_.get(
      [this] { return std::make_unique<ArrayPages>(known_, record_, session_.mappings()); });
}

std::unique_ptr<SlotPages> MappedArray::make_slot_pages() {
  return std::make_unique<SlotPages>(known_, board(), session_.mappings(), owner_->imports());
}

// Of several threads that map them the first one's count.
absl::StatusOr<SlotPages*> MappedArray::map_slots(InterruptCheck interrupt) {
  if (SlotPages* const mapped = slot_pages_.if_made()) return mapped;
  auto slots = make_slot_pages();
  if (auto status = slots->map_for_reading(interrupt); !status.ok()) {
    return wire::code_of(status) == ErrorCode::kNotFound && withdrawn() ? gone(false) : status;
  }
  const SlotPages* const mine = slots.get();
  SlotPages& mapped = slot_pages_.get([&] { return std::move(slots); });
  if (&mapped == mine) FaultTable::add(*this);
  return &mapped;
}

int MappedArray::device_ordinal() const {
  return gpu_ == nullptr ? -1 : gpu_->importer().ordinal();
}

template <typename FindRow>
std::uint64_t MappedArray::find_version(FindRow find_row) {
  constexpr int kMostTries = 1000;  // a process that only moves ownership must not keep others here
  std::uint64_t version = 0;
  std::uint64_t word = board().writer.load();
  for (int tries = 0; tries < kMostTries; ++tries) {
    if (board().array_id.load() != wire::to_int(known_.id)) return 0;
    const wire::WriterRow* writer = find_row(wire::writer_row_of(word));
    version = writer == nullptr ? 0 : wire::unpack_publication(writer->publication.load()).version;
    if (const std::uint64_t before = std::exchange(word, board().writer.load()); before == word)
      break;
  }
  return version;
}

std::uint64_t MappedArray::known_version() {
  return find_version([this](RowRef at) { return writer_row(at); });
}

absl::StatusOr<std::uint64_t> MappedArray::current_version(InterruptCheck interrupt) {
  absl::Status failed;  // not where its process has gone, which the board is about to say
  const auto find_row = [&](RowRef at) -> const wire::WriterRow* {
    if (const wire::WriterRow* known = writer_row(at)) return known;
    if (!failed.ok()) return nullptr;
    const auto mapped = pages().map_writer_row(at, interrupt);
    if (!mapped.ok() && wire::code_of(mapped.status()) != ErrorCode::kNotFound) {
      failed = mapped.status();
    }
    return mapped.ok() ? *mapped : nullptr;
  };
  const std::uint64_t version = find_version(find_row);
  // What counts versions until a number comes would count for ever.
  if (withdrawn() && wire::code_of(failed) != ErrorCode::kInterrupted) return gone(false);
  if (!failed.ok()) return failed;
  return version;
}

bool MappedArray::only_slot_is_empty() {
  if (slots() != 1) return false;
  const wire::WriterRow* writer = writer_row(wire::writer_row_of(board().writer.load()));
  return writer != nullptr && wire::only_slot_is_empty(*writer, 1);
}

GpuUse MappedArray::end_use_of_slots() {
  GpuUse use = gpu_ == nullptr ? GpuUse() : gpu_->take_use();
  segment_.reset();
  SlotPages* const slots = slot_pages_.if_made();
  if (slots == nullptr) return use;
  OpenMemory open = slots->take_open();
  use.memory.insert(use.memory.end(), open.begin(), open.end());
  slots->unmap();
  return use;
}

ProtectedPages MappedArray::protect(std::uint32_t slot, std::byte* data) {
  Session::ViewCounts& counts = session_.view_counts();
  bool refused = false;
  const ProtectedPages pages = slot_pages().protect(slot, data, refused);
  if (pages) counts.protected_slots.fetch_add(1, std::memory_order_relaxed);
  if (refused) counts.refused_protections.fetch_add(1, std::memory_order_relaxed);
  return pages;
}

RegisteredBytes MappedArray::begin_copy(std::uint32_t slot, bool to, std::uint64_t copied_bytes,
                                        Importer& importer) {
  bool refused = false;
  auto copy = slot_pages().begin_copy(slot, to, copied_bytes, importer, refused);
  if (refused) session_.count_refused_registration();
  return copy;
}

bool MappedArray::writer_wants_slot() {
  const wire::WriterRow* writer = writer_row(wire::writer_row_of(board().writer.load()));
  return writer != nullptr && writer->wanted.load() != 0;
}

bool MappedArray::withdrawn() const {
  return (board().writer.load() & wire::kWriterWithdrawn) != 0 ||
         board().array_id.load() != wire::to_int(known_.id);
}

const wire::WriterRow* MappedArray::last_writer_row(RowRef at) const {
  const ArrayPages* const pages = pages_.if_made();
  return pages == nullptr ? nullptr : pages->rows().last_writer_row(at);
}

bool MappedArray::has_writer() const {
  const std::uint64_t word = board().writer.load();
  if ((word & wire::kWriterVacant) != 0 || withdrawn()) return false;
  const wire::WriterRow* row = last_writer_row(wire::writer_row_of(word));
  return row == nullptr || row->copies_at.load() != (word & ~wire::kWriterFlags);
}

absl::Status MappedArray::named(const absl::Status& of_call) const {
  return wire::code_of(of_call) == ErrorCode::kWithdrawn ? gone(false) : of_call;
}

absl::Status MappedArray::gone(bool draining) const {
  if (draining) {
    session_.note_daemon_ends();
    return make_error(ErrorCode::kDaemonLost,
                      fmt::format("the daemon of {} is shutting down", session_.directory()),
                      "Release your leases; connect again once it has been restarted.");
  }
  return make_error(
      ErrorCode::kWithdrawn,
      fmt::format("'{}' has been withdrawn, or the process that created it has ended", name()),
      known_.rare().home
          ? "Views stay valid until they die. Ask the array for it again: array.on(device)."
          : "Views stay valid until they die. Open the name again if it was created again; "
            "with lifetime 'persistent' an array outlives its creator.");
}

}  // namespace memlease::internal
