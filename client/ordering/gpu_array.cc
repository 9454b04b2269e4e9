#include "client/ordering/gpu_array.h"

#include <utility>

#include "wire/error.h"

namespace memlease::internal {

absl::StatusOr<std::unique_ptr<GpuArray>> GpuArray::open(const OpenAnswer& answer, Session& session,
                                                         ImportCache& imports) {
  const auto importer = imports.importers().importer(answer.spec.device);
  if (!importer.ok()) return importer.status();
  std::unique_ptr<GpuArray> array(new GpuArray(answer, session, **importer));
  if (auto status = array->open_slots(imports); !status.ok()) return status;
  auto order = GpuOrder::open(**importer, imports, answer);
  if (!order.ok()) return order.status();
  array->order_ = std::move(*order);
  return array;
}

absl::Status GpuArray::open_slots(ImportCache& imports) {
  for (const wire::FileRange& at : answer_.slots) {
    auto& segment = segments_[wire::to_int(at.file)];
    if (segment == nullptr) {
      auto memory = imports.get(at.file, importer_);
      if (!memory.ok()) return memory.status();
      segment = std::move(*memory);
    }
    if (at.offset > segment->size_bytes() ||
        answer_.slot_bytes > segment->size_bytes() - at.offset) {
      return wire::defect("a slot lies outside of its segment");
    }
    slot_data_.push_back(segment->data() + at.offset);
  }
  return absl::OkStatus();
}

GpuUse GpuArray::take_use() {
  GpuUse use;
  for (auto& [file, memory] : segments_) use.memory.push_back(std::move(memory));
  segments_.clear();
  use.order = std::move(order_);
  return use;
}

}  // namespace memlease::internal
