// DLPack's Python side: capsules, and the arguments of __dlpack__.
#pragma once

#include <functional>
#include <utility>

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

// A lease as a DLPack producer, with an option that the protocol's own arguments have no room for.
class DLPackSource {
 public:
  // `block` holds the lease's Python object.
  DLPackSource(std::function<views::HostBlock()> block, bool readonly_ok)
      : block_(std::move(block)), readonly_ok_(readonly_ok) {}
  views::HostBlock block() const { return block_(); }
  bool readonly_ok() const { return readonly_ok_; }

 private:
  std::function<views::HostBlock()> block_;
  bool readonly_ok_;
};

}  // namespace memlease::python
