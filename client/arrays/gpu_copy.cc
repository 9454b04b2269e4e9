#include "client/arrays/gpu_copy.h"

#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "client/arrays/pin.h"
#include "client/ordering/host_wait.h"
#include "client/ordering/lease_streams.h"
#include "client/ordering/strided_copy.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "wire/error.h"
#include "wire/hooks/test_hooks.h"

namespace memlease::internal {
namespace {

using wire::ErrorCode;

// What a stream of this process was given until now, waited for as any other wait is.
absl::Status wait_for_stream(OpenArray& array, Importer& importer, Stream stream,
                             const LeaseStreams& streams) {
  const auto mark = importer.mark(stream);
  if (!mark.ok()) return mark.status();
  return host_wait_complete(array.session(), streams, [&] { return (*mark)->complete(); });
}

// A slot's bytes for a copy by this GPU, of all or of so many bytes: those of the host by pages
// that are registered for it, if there are such. Lives until the copy is done.
struct SlotBytes {
  std::byte* data;
  RegisteredBytes registered;

  static SlotBytes from(OpenArray& array, std::uint32_t slot, Importer& importer) {
    auto registered = array.begin_copy(slot, false, array.facts().slot_bytes, importer);
    return {registered == nullptr ? array.read_data(slot) : registered.get(), registered};
  }
  static SlotBytes to(OpenArray& array, std::uint32_t slot, std::uint64_t copied_bytes,
                      Importer& importer) {
    auto registered = array.begin_copy(slot, true, copied_bytes, importer);
    return {registered == nullptr ? array.write_data(slot) : registered.get(), registered};
  }
};

// Copies on a stream that waits for nobody, once the host has waited for all that must come before:
// a copy from or to pageable memory blocks inside of the driver, where no deadline and no interrupt
// is looked at. Nothing is under way when it returns, also after an error.
absl::Status copy_now(OpenArray& array, Importer& importer,
                      absl::FunctionRef<absl::Status(Stream)> copy) {
  const auto on = importer.copy_stream();
  if (!on.ok()) return on.status();
  absl::Status copied = copy(*on);
  if (leaves_out("wait for the copy")) return copied;
  absl::Status finished = finish(importer, *on);
  crash_point("device.copied");
  if (!copied.ok()) return copied;
  if (finished.ok()) array.session().count_copy();
  return finished;
}

ElementLayout source_layout(const ElementLayout& part, const GpuSource& source) {
  ElementLayout layout = packed_layout(part);
  if (!source.strides_bytes.empty()) layout.strides_bytes = source.strides_bytes;
  return layout;
}

bool is_whole(const OpenArray& array, const ElementLayout& part) {
  return part.shape == array.kind().shape;
}

// As the part itself, or in C order, in which it is copied row by row: to the host, or to a region.
// (To all of an array of another order it would be element by element.)
absl::Status check_layout(const OpenArray& array, const ElementLayout& part,
                          const GpuSource& source) {
  const std::size_t ndim = part.shape.size();
  if (!source.strides_bytes.empty() && source.strides_bytes.size() != ndim) {
    return wire::make_error(ErrorCode::kInvalidArgument,
                            fmt::format("the source has {} strides, and '{}' {} dimensions",
                                        source.strides_bytes.size(), array.name(), ndim),
                            "Give one for each dimension, or none for C order.");
  }
  const ElementLayout layout = source_layout(part, source);
  if (same_strides(layout, part)) return absl::OkStatus();
  const bool by_rows = array.importer() == nullptr || !is_whole(array, part);
  if (by_rows && same_strides(layout, packed_layout(part))) return absl::OkStatus();
  return wire::make_error(
      ErrorCode::kUnsupported,
      fmt::format(
          "the source's strides in bytes are [{}], those of '{}' [{}], and no copy on a GPU "
          "rearranges elements",
          fmt::join(layout.strides_bytes, ","), array.name(), fmt::join(part.strides_bytes, ",")),
      "Make it contiguous first, as by tensor.contiguous() or cupy.ascontiguousarray(), bring it "
      "by way of the host, as put(source.get()) does for a lease, or write it with a kernel of "
      "the framework in a write lease.");
}

absl::StatusOr<Importer*> importer_for(OpenArray& array, const GpuSource& source) {
  auto importer = array.owner().imports().importers().holder(source.data);
  if (!importer.ok() || array.importer() == nullptr) return importer;
  const Importer& own = *array.importer();
  if ((*importer)->device() == own.device()) return importer;
  return wire::make_error(ErrorCode::kInvalidArgument,
                          fmt::format("the source is on cuda:{}, and '{}' on cuda:{}",
                                      (*importer)->ordinal(), array.name(), own.ordinal()),
                          "Bring it to the array's GPU first, as by tensor.to(\"cuda:N\").");
}

// Elements at one end of a copy, which count from `data`.
template <typename Byte>
struct End {
  Byte* data;
  const ElementLayout& layout;
};
using To = End<std::byte>;
using From = End<const std::byte>;

// In one piece where neither has gaps, whatever the order is; else the rows, until one fails.
absl::Status copy_elements(Importer& importer, To to, From from, Stream on) {
  const std::uint64_t size_bytes = element_bytes(to.layout);
  if (size_bytes != 0 && size_bytes == extent_bytes(to.layout) &&
      same_strides(to.layout, from.layout)) {
    return importer.copy(to.data + to.layout.offset_bytes, from.data + from.layout.offset_bytes,
                         size_bytes, on);
  }
  absl::Status status;
  for_each_rows(to.layout, from.layout, [&](const Rows& rows) {
    if (status.ok()) status = importer.copy_rows(to.data, from.data, rows, on);
  });
  return status;
}

// On the stream of a lease: behind the work on the source that is under way, which itself goes on
// behind the copy. The source is kept until that is done.
absl::Status copy_in_order(OpenArray& array, Importer& importer, const GpuSource& source, To to,
                           Stream on) {
  const bool has_theirs = source.stream && source.stream != on;
  absl::Status status = has_theirs ? importer.order(source.stream, on) : absl::OkStatus();
  if (!status.ok()) return status;
  const ElementLayout layout = source_layout(to.layout, source);
  status = copy_elements(importer, to, {static_cast<const std::byte*>(source.data), layout}, on);
  auto end = importer.mark(on);
  if (!end.ok()) {
    importer.synchronize().IgnoreError();
    return end.status();
  }
  array.owner().kept().keep(std::move(*end), source.owner);
  crash_point("device.copied");
  if (!status.ok()) return status;
  array.session().count_copy();
  return has_theirs ? importer.order(on, source.stream) : absl::OkStatus();
}

}  // namespace

absl::Status copy_within_device(OpenArray& array, std::uint32_t from, std::uint32_t slot,
                                Stream stream, LeaseStreams& streams) {
  Importer& importer = array.gpu()->importer();
  const auto copy = [&](Stream on) {
    return importer.copy(array.write_data(slot), array.read_data(from), array.facts().slot_bytes,
                         on);
  };
  if (!stream) {
    auto status = host_wait_slot(*array.gpu(), slot, streams);
    return status.ok() ? copy_now(array, importer, copy) : status;
  }
  auto status = order_write(*array.gpu(), slot, stream, streams);
  if (status.ok()) status = copy(stream);
  crash_point("device.copied");
  if (!status.ok()) return status;
  array.session().count_copy();
  // What comes next in an added slot, and its end, must wait for the copy: it ends as a read does.
  if (!array.is_added(from)) return status;
  array.reader_if_subscribed()->hold_again(from);
  return array.end_device_read(from, array.writing().slot_writer()->current().version, {stream, {}},
                               streams.interrupt_check);
}

absl::Status put_to_device(OpenArray& array, std::uint32_t slot, const ElementLayout& part,
                           const std::byte* packed, bool only_use, LeaseStreams& streams) {
  if (auto status = host_wait_slot(*array.gpu(), slot, streams); !status.ok()) return status;
  Importer& importer = array.gpu()->importer();
  auto status = copy_now(array, importer, [&](Stream on) {
    if (only_use) streams.stream = on;
    return copy_elements(importer, {array.write_data(slot), part}, {packed, packed_layout(part)},
                         on);
  });
  streams.over = only_use && status.ok();
  return status;
}

absl::Status get_from_device(OpenArray& array, std::uint32_t slot, std::uint64_t version,
                             const ElementLayout& part, std::byte* packed, bool only_use,
                             LeaseStreams& streams) {
  if (auto status = host_wait_version(*array.gpu(), slot, version, streams); !status.ok())
    return status;
  Importer& importer = array.gpu()->importer();
  return copy_now(array, importer, [&](Stream on) {
    if (only_use) streams.stream = on;
    return copy_elements(importer, {packed, packed_layout(part)}, {array.read_data(slot), part},
                         on);
  });
}

// By the GPU that it goes to, if there is one, else by that where it is.
absl::Status copy_version(OpenArray& from, std::uint32_t from_slot, std::uint64_t version,
                          LeaseStreams& from_streams, OpenArray& to, std::uint32_t slot,
                          LeaseStreams& streams) {
  absl::Status status;
  if (from.gpu() != nullptr) {
    status = host_wait_version(*from.gpu(), from_slot, version, from_streams);
  }
  if (status.ok() && to.gpu() != nullptr) status = host_wait_slot(*to.gpu(), slot, streams);
  if (!status.ok()) return status;
  Importer& importer = to.gpu() != nullptr ? to.gpu()->importer() : from.gpu()->importer();
  const SlotBytes source = SlotBytes::from(from, from_slot, importer);
  const SlotBytes target = SlotBytes::to(to, slot, to.facts().slot_bytes, importer);
  status = copy_now(to, importer, [&](Stream on) {
    if (to.gpu() != nullptr) streams.stream = on;
    if (from.importer() == &importer) from_streams.stream = on;
    const ElementLayout all = layout_of(to.kind());
    return copy_elements(importer, {target.data, all}, {source.data, all}, on);
  });
  streams.over = status.ok();
  return status;
}

absl::Status copy_version_on(OpenArray& from, std::uint32_t from_slot, OpenArray& to,
                             std::uint32_t slot, Stream stream) {
  struct Source {
    Pin pin;
    SlotBytes bytes;  // ends first
  };
  Importer& importer = to.gpu()->importer();
  const auto source =
      std::make_shared<const Source>(make_pin(from, from_slot, from.read_data(from_slot)),
                                     SlotBytes::from(from, from_slot, importer));
  return copy_in_order(to, importer, {source->bytes.data, from.strides_bytes(), {}, source},
                       {to.write_data(slot), layout_of(to.kind())}, stream);
}

absl::StatusOr<Importer*> check_source(OpenArray& array, const ElementLayout& part,
                                       const GpuSource& source) {
  if (element_bytes(part) == 0) return nullptr;
  if (auto status = check_layout(array, part, source); !status.ok()) return status;
  auto importer = importer_for(array, source);
  if (!importer.ok() || !source.stream) return importer;
  auto status = array.noted((*importer)->check_stream(source.stream));
  if (!status.ok()) return status;
  return importer;
}

namespace {

absl::Status put_into_host(OpenArray& array, std::uint32_t slot, const ElementLayout& part,
                           const GpuSource& source, Importer& importer) {
  const auto* const from = static_cast<const std::byte*>(source.data);
  const ElementLayout layout = source_layout(part, source);
  const std::uint64_t size_bytes = element_bytes(part);
  if (same_strides(layout, part)) {
    const SlotBytes bytes = SlotBytes::to(array, slot, size_bytes, importer);
    return copy_now(array, importer, [&](Stream on) {
      return copy_elements(importer, {bytes.data, part}, {from, layout}, on);
    });
  }
  std::vector<std::byte> packed(size_bytes);
  auto status = copy_now(array, importer, [&](Stream on) {
    return importer.copy(packed.data(), from, packed.size(), on);
  });
  if (status.ok()) copy_in(part, packed.data(), array.write_data(slot));
  return status;
}

}  // namespace

absl::Status put_from_gpu(OpenArray& array, std::uint32_t slot, const ElementLayout& part,
                          const GpuSource& source, Importer* by, bool only_use,
                          LeaseStreams& streams) {
  if (by == nullptr) return absl::OkStatus();
  Importer& importer = *by;
  const bool to_host = array.gpu() == nullptr;
  const Stream given = to_host ? Stream() : end_of(streams, {});
  if (given) {
    if (auto status = importer.check_stream(given); !status.ok()) return status;
    return copy_in_order(array, importer, source, {array.write_data(slot), part}, given);
  }
  // Before the wait for the slot: a new lease that nothing was ordered for ends without a wait for
  // the GPU, should this one be interrupted.
  if (source.stream) {
    auto status = wait_for_stream(array, importer, source.stream, streams);
    if (!status.ok()) return status;
  }
  if (to_host) return put_into_host(array, slot, part, source, importer);
  if (auto status = host_wait_slot(*array.gpu(), slot, streams); !status.ok()) return status;
  const auto status = copy_now(array, importer, [&](Stream on) {
    if (only_use) streams.stream = on;
    const ElementLayout layout = source_layout(part, source);
    return copy_elements(importer, {array.write_data(slot), part},
                         {static_cast<const std::byte*>(source.data), layout}, on);
  });
  streams.over = only_use && status.ok();
  return status;
}

}  // namespace memlease::internal
