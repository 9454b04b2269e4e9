#include "client/core/device_copy.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "client/core/device_lease.h"
#include "client/core/strided_copy.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "proto/wire/error.h"

namespace memlease::internal {
namespace {

using wire::ErrorCode;

absl::Status wait_for_stream(ArrayState& array, Importer& importer, Stream stream) {
  return host_wait(array, 0, [&] { return importer.idle(stream); });
}

// The stream of a write lease, which has waited for the slot, or one of ours, which does so here.
absl::StatusOr<Stream> stream_of_write(ArrayState& array, std::uint32_t slot, Importer& importer,
                                       Ordering& ordering) {
  if (const Stream given = end_of(ordering, {})) return given;
  auto ours = importer.export_stream();
  if (!ours.ok()) return ours;
  if (auto status = wait_write(array, slot, *ours, ordering); !status.ok()) return status;
  return ours;
}

// Extents of 1 have no use for their strides.
bool same_layout(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& a,
                 const std::vector<std::int64_t>& b) {
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] > 1 && a[i] != b[i]) return false;
  }
  return true;
}

enum class Layout : std::uint8_t { kOfArray, kCOrder, kOther };

Layout layout_of(const ArrayState& array, const GpuSource& source) {
  wire::ArraySpec packed = array.spec();
  packed.strides_bytes.clear();
  const std::vector<std::int64_t> c_order = wire::strides_bytes_of(packed);
  const auto& strides = source.strides_bytes.empty() ? c_order : source.strides_bytes;
  if (same_layout(packed.shape, strides, array.strides_bytes())) return Layout::kOfArray;
  return same_layout(packed.shape, strides, c_order) ? Layout::kCOrder : Layout::kOther;
}

absl::Status check_layout(const ArrayState& array, const GpuSource& source) {
  const Layout layout = layout_of(array, source);
  const bool to_host = array.order() == nullptr;
  if (layout == Layout::kOfArray || (layout == Layout::kCOrder && to_host)) return absl::OkStatus();
  return wire::make_error(
      ErrorCode::kUnsupported,
      fmt::format(
          "the source's strides in bytes are [{}], those of '{}' [{}], and no copy on a GPU "
          "changes the order of elements",
          fmt::join(source.strides_bytes, ","), array.name(),
          fmt::join(array.strides_bytes(), ",")),
      "Make it contiguous first, as by tensor.contiguous() or cupy.ascontiguousarray(), or write "
      "it with a kernel of the framework in a write lease.");
}

absl::StatusOr<Importer*> importer_for(ArrayState& array, const GpuSource& source) {
  auto importer = array.session().imports().importers().holder(source.data);
  if (!importer.ok() || array.order() == nullptr) return importer;
  const Importer& own = array.order()->importer();
  if ((*importer)->device() == own.device()) return importer;
  return wire::make_error(ErrorCode::kInvalidArgument,
                          fmt::format("the source is on cuda:{}, and '{}' on cuda:{}",
                                      (*importer)->ordinal(), array.name(), own.ordinal()),
                          "Bring it to the array's GPU first, as by tensor.to(\"cuda:N\").");
}

// The pieces without gaps of what stands as the array does.
absl::Status copy_pieces(const ArrayState& array, Importer& importer, std::byte* to,
                         const std::byte* from, Stream on) {
  const std::uint64_t size_bytes = array.opened().slot_bytes;
  if (element_bytes(array.spec()) == size_bytes) return importer.copy(to, from, size_bytes, on);
  absl::Status status;
  for_each_block(array.spec(), [&](std::size_t at, std::size_t /*packed*/, std::size_t bytes) {
    if (status.ok()) status = importer.copy(to + at, from + at, bytes, on);
  });
  return status;
}

// What a copy needs until it is done.
struct Lent {
  std::shared_ptr<const void> owner;
  std::vector<std::byte> staged;  // on its way into a host array of another order
};

// Behind the work on the source that is under way, which itself goes on behind the copy. `done`:
// the copy's end; null if there is nothing to wait for.
absl::Status copy_in_order(ArrayState& array, Importer& importer, const GpuSource& source,
                           std::byte* to, Stream on, const std::shared_ptr<Lent>& lent,
                           std::shared_ptr<DeviceEvent>& done) {
  const bool has_theirs = source.stream && source.stream != on;
  absl::Status status = has_theirs ? importer.order(source.stream, on) : absl::OkStatus();
  if (!status.ok()) return status;
  const auto* const from = static_cast<const std::byte*>(source.data);
  if (lent->staged.empty()) {
    status = copy_pieces(array, importer, to, from, on);
  } else {
    status = importer.copy(lent->staged.data(), from, lent->staged.size(), on);
  }
  auto mark = importer.mark(on);
  if (!mark.ok()) {
    importer.synchronize().IgnoreError();
    return mark.status();
  }
  done = std::move(*mark);
  array.session().kept().keep(done, lent);
  if (status.ok() && has_theirs) status = importer.order(on, source.stream);
  return status;
}

}  // namespace

absl::Status copy_within_device(ArrayState& array, std::uint32_t from, std::uint32_t slot,
                                Stream stream, Ordering& ordering) {
  Importer& importer = array.order()->importer();
  const auto on = stream ? absl::StatusOr<Stream>(stream) : importer.export_stream();
  if (!on.ok()) return on.status();
  if (auto status = wait_write(array, slot, *on, ordering); !status.ok()) return status;
  auto status =
      importer.copy(array.slot_data(slot), array.slot_data(from), array.opened().slot_bytes, *on);
  if (!status.ok()) return status;
  array.session().count_copy();
  if (!stream) status = wait_for_stream(array, importer, *on);
  ordering.stream = stream;  // the work that follows is not on ours
  return status;
}

// Into pinned memory of the caller's a copy goes on after its call, from pageable memory it does
// not: waited for either way.
absl::Status put_to_device(ArrayState& array, std::uint32_t slot, const std::byte* packed,
                           Ordering& ordering) {
  Importer& importer = array.order()->importer();
  const auto on = stream_of_write(array, slot, importer, ordering);
  if (!on.ok()) return on.status();
  absl::Status status;
  for_each_block(array.spec(), [&](std::size_t at, std::size_t from, std::size_t bytes) {
    if (status.ok()) status = importer.copy(array.slot_data(slot) + at, packed + from, bytes, *on);
  });
  if (!status.ok()) return status;
  array.session().count_copy();
  return wait_for_stream(array, importer, *on);
}

absl::Status get_from_device(ArrayState& array, std::uint32_t slot, std::uint64_t version,
                             std::byte* packed, bool only_use, Ordering& ordering) {
  Importer& importer = array.order()->importer();
  const auto on = importer.export_stream();
  if (!on.ok()) return on.status();
  absl::Status status = await_version(array, slot, version, *on);
  if (only_use) ordering.stream = *on;
  ordering.done = true;
  for_each_block(array.spec(), [&](std::size_t at, std::size_t to, std::size_t bytes) {
    if (status.ok()) status = importer.copy(packed + to, array.slot_data(slot) + at, bytes, *on);
  });
  if (!status.ok()) return status;
  array.session().count_copy();
  return host_wait(array, version, [&] { return importer.idle(*on); });
}

absl::Status check_source(ArrayState& array, const GpuSource& source) {
  if (element_bytes(array.spec()) == 0) return absl::OkStatus();
  if (auto status = check_layout(array, source); !status.ok()) return status;
  const auto importer = importer_for(array, source);
  if (!importer.ok()) return importer.status();
  return source.stream ? (*importer)->check_stream(source.stream) : absl::OkStatus();
}

absl::Status put_from_gpu(ArrayState& array, std::uint32_t slot, const GpuSource& source,
                          Ordering& ordering) {
  if (element_bytes(array.spec()) == 0) return absl::OkStatus();
  const auto importer = importer_for(array, source);
  if (!importer.ok()) return importer.status();
  const bool to_host = array.order() == nullptr;
  const bool waits = to_host || !end_of(ordering, {});
  const auto on =
      to_host ? (**importer).export_stream() : stream_of_write(array, slot, **importer, ordering);
  if (!on.ok()) return on.status();
  const auto lent = std::make_shared<Lent>(Lent{source.owner, {}});
  if (to_host && layout_of(array, source) == Layout::kCOrder) {
    lent->staged.resize(element_bytes(array.spec()));
  }
  std::byte* const to = array.slot_data(slot);
  std::shared_ptr<DeviceEvent> done;
  auto status = copy_in_order(array, **importer, source, to, *on, lent, done);
  if (!status.ok()) return status;
  array.session().count_copy();
  if (waits) {
    status = host_wait(array, 0, [&] { return done->complete(); });
    if (status.ok() && !lent->staged.empty()) copy_in(array.spec(), lent->staged.data(), to);
  }
  array.session().kept().let_go();
  return status;
}

}  // namespace memlease::internal
