#include "client/ordering/work_end.h"

#include "client/ordering/host_wait.h"
#include "wire/hooks/test_hooks.h"

namespace memlease::internal {

absl::StatusOr<Stream> join(Importer& importer, const WorkEnd& end) {
  if (!end.stream || !end.view_stream || end.stream == end.view_stream) return end.stream;
  if (leaves_out("join the exported stream")) return end.stream;
  for (const Stream stream : {end.stream, end.view_stream}) {
    if (auto status = importer.check_stream(stream); !status.ok()) return status;
  }
  if (auto status = importer.order(end.stream, end.view_stream); !status.ok()) return status;
  return end.view_stream;
}

bool work_unknown(const absl::Status& idle) { return !idle.ok() && !device_failed(idle); }

bool host_wait_all(Importer& importer, const WorkEnd& end) {
  for (const Stream stream : {end.stream, end.view_stream}) {
    if (stream && importer.is_capturing(stream)) return false;
  }
  return !work_unknown(importer.synchronize());
}

}  // namespace memlease::internal
