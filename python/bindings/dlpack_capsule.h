// DLPack's Python side: capsules, and the arguments of __dlpack__.
#pragma once

#include "client/views/dlpack_view.h"
#include "python/bindings/bindings.h"

namespace memlease::python {

// The arguments of __dlpack__, as the consumer gave them.
struct DLPackRequest {
  py::object stream;
  py::object max_version;
  py::object dl_device;
  py::object copy;
  bool readonly_ok = false;  // hand read-only memory to consumers that cannot be told so
};

// A capsule for `block`. BufferError where the request cannot be met, ValueError for a stream (host
// memory has none), TypeError only for arguments of a wrong type: consumers take that as "unknown
// argument" and ask for less.
py::capsule make_capsule(views::HostBlock block, const DLPackRequest& request);

}  // namespace memlease::python
