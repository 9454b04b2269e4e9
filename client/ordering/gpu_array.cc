#include "client/ordering/gpu_array.h"

#include <utility>

#include "client/ordering/host_wait.h"
#include "wire/board.h"
#include "wire/error.h"

namespace memlease::internal {

absl::StatusOr<std::unique_ptr<GpuArray>> GpuArray::open(const KnownArray& known, Session& session,
                                                         ImportCache& imports,
                                                         InterruptCheck interrupt) {
  const auto importer = imports.importers().importer(known.kind->device);
  if (!importer.ok()) return importer.status();
  std::unique_ptr<GpuArray> array(new GpuArray(known, session, **importer, imports));
  if (auto status = array->open_slots(interrupt); !status.ok()) return status;
  auto order = GpuOrder::open(**importer, imports, known, interrupt);
  if (!order.ok()) return order.status();
  array->order_ = std::move(*order);
  array->deferred_ = array->order_->reader().deferred_flag();
  if (array->order_->versions().by_host()) array->note_by_host();
  return array;
}

absl::Status GpuArray::noted(absl::Status status) {
  if (device_failed(status) && order_->complete() && order_->versions().lost()) lost_.store(true);
  return status;
}

// What the device cannot do at all is no refusal.
void GpuArray::note_by_host() {
  if (reported_by_host_.exchange(true) || !importer_.orders_by_words()) return;
  session_.count_refused_registration();
}

absl::StatusOr<std::byte*> GpuArray::place_in(const DeviceMemory& segment,
                                              wire::FileRange at) const {
  if (at.offset > segment.size_bytes() || known_.slot_bytes > segment.size_bytes() - at.offset) {
    return wire::defect("a slot lies outside of its segment");
  }
  importer_.checker_acquire(wire::checker_key_of_places(at.file), 0);
  return segment.data() + at.offset;
}

absl::Status GpuArray::open_slots(InterruptCheck interrupt) {
  for (const wire::FileRange& at : known_.slots) {
    auto& segment = segments_[wire::to_int(at.file)];
    if (segment == nullptr) {
      auto memory = imports_.get(at.file, importer_, interrupt);
      if (!memory.ok()) return memory.status();
      segment = std::move(*memory);
    }
    const auto data = place_in(*segment, at);
    if (!data.ok()) return data.status();
    slot_data_.push_back(*data);
  }
  return absl::OkStatus();
}

absl::StatusOr<GpuArray::AddedSlot> GpuArray::open_added(wire::FileRange at,
                                                         InterruptCheck interrupt) {
  auto memory = imports_.get(at.file, importer_, interrupt);
  if (!memory.ok()) return memory.status();
  const auto data = place_in(**memory, at);
  if (!data.ok()) return data.status();
  return AddedSlot{*data, std::move(*memory)};
}

// The daemon takes a slot away when all that was recorded there is complete.
void GpuArray::close_gone(OpenMemory gone) {
  if (gone.empty()) return;
  gone.clear();
  imports_.close_unused();
  if (!session_.control().silent()) imports_.flush();
}

GpuUse GpuArray::take_use() {
  GpuUse use;
  for (auto& [file, memory] : segments_) use.memory.push_back(std::move(memory));
  segments_.clear();
  use.order = std::move(order_);
  return use;
}

}  // namespace memlease::internal
