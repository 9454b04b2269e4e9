// DLPack's Python side: capsules, and the arguments of __dlpack__. Under the GIL.
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

// What they ask for.
struct DLPackPlan {
  Stream stream;  // of the consumer; none: it sees to the order by itself
  bool versioned = false;
  bool copy = false;     // within the host's memory
  bool to_host = false;  // a copy of what is on a device
  bool readonly_ok = false;
};

// `device`: where the elements are. BufferError where the request cannot be met, ValueError for a
// stream that is not valid, TypeError only for arguments of a wrong type: consumers take that as
// "unknown argument" and ask for less.
DLPackPlan plan_export(const DLPackRequest& request, DLDevice device);
// A capsule for what the plan has been carried out with.
py::capsule make_capsule(views::Block block, const DLPackPlan& plan);

// A lease as a DLPack producer, with an option that the protocol's own arguments have no room for.
class DLPackSource {
 public:
  // `block` holds the lease's Python object.
  DLPackSource(std::function<views::Block(const DLPackPlan&)> block, DLDevice device,
               bool readonly_ok)
      : block_(std::move(block)), device_(device), readonly_ok_(readonly_ok) {}
  py::capsule capsule(DLPackRequest request) const;
  DLDevice device() const { return device_; }

 private:
  std::function<views::Block(const DLPackPlan&)> block_;
  DLDevice device_;
  bool readonly_ok_;
};

}  // namespace memlease::python
