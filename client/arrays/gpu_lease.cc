#include "client/arrays/gpu_lease.h"

#include "absl/cleanup/cleanup.h"
#include "client/arrays/gpu_copy.h"
#include "client/ordering/lease_streams.h"

namespace memlease::internal {

absl::Status begin_gpu_write(OpenArray& array, std::uint32_t slot, Stream stream, bool copy,
                             LeaseStreams& streams) {
  if (auto status = array.gpu()->check_lost(); !status.ok()) return status;
  const wire::Publication current = array.writing().slot_writer()->current();
  if (copy && current.slot != slot) {
    return copy_within_device(array, current.slot, slot, stream, streams);
  }
  return stream ? order_write(*array.gpu(), slot, stream, streams) : absl::OkStatus();
}

absl::Status end_gpu_write(OpenArray& array, std::uint32_t slot, std::uint64_t version,
                           bool publish, Stream said, LeaseStreams& streams) {
  GpuArray& gpu = *array.gpu();
  bool published = false;
  bool idle = false;  // is nothing under way that is not recorded? Else the device is waited for
  absl::Status stopped;
  const absl::Cleanup end = [&] {
    idle = idle || (stopped.ok() && host_wait_all(gpu.importer(), work_end(streams, said)));
    if (!idle) array.defer_release(slot);
    array.end_write(slot, version, published);
  };
  // A version that nobody has written still comes behind the slot's earlier users. What is given up
  // untouched leaves everything as it was.
  absl::Status status;
  if (!streams.ordered && publish) {
    status = said ? order_write(gpu, slot, said, streams) : host_wait_slot_once(gpu, streams);
  }
  if (status.ok() && streams.ordered) {
    const auto go_on = [&] { return stopped = gpu.session().check_wait(streams.interrupt_check); };
    status = gpu.noted(
        gpu.order()->writer().record_write(slot, version, work_end(streams, said), go_on));
  }
  idle = status.ok() || !streams.ordered;
  published = publish && status.ok();
  return status;
}

}  // namespace memlease::internal
