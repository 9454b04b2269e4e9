// Leases as Python sees them.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "python/bindings/view.h"

namespace memlease::python {

// A memlease::ReadLease or WriteLease with its views.
template <typename Lease>
class PyLease {
 public:
  static constexpr bool kReadonly = std::is_same_v<Lease, ReadLease>;

  PyLease(Lease lease, std::shared_ptr<ArrayViews> array)
      : version_(lease.version()),
        slot_(lease.slot()),
        views_(std::move(array), slot_, kReadonly),
        lease_(std::move(lease)) {}
  ~PyLease() { views_.settle(); }
  PyLease(const PyLease&) = delete;
  PyLease& operator=(const PyLease&) = delete;

  std::uint64_t version() const { return version_; }
  std::uint32_t slot() const { return slot_; }
  bool ended() const;

  // Throws Closed once the lease has ended, as all below do.
  void* data() const;
  // The same object on each call.
  py::object numpy() {
    void* const first = data();
    return views_.numpy() ? views_.numpy() : views_.numpy(first, lease_.pin());
  }
  py::dict interface() { return views_.interface(data(), lease_.pin()); }
  static constexpr bool readonly_ok() { return false; }  // as DLPackSource has it
  views::HostBlock block() { return views_.block(data(), lease_.pin()); }
  void fill_buffer(py::handle self, Py_buffer* buffer, int flags) {
    views_.fill_buffer(data(), lease_.pin(), self, buffer, flags);
  }

  // Ends a read lease. False, with a ViewAlive warning, if views keep its slot.
  bool release();
  // Ends a write lease with a version; with live views Busy, and the lease goes on.
  std::uint64_t publish(bool allow_pins);
  // Ends a write lease without one; ViewAlive as above.
  void drop();
  // `with`: release(), or publish(), or drop() after an exception and where publish() fails.
  void exit(bool failed);

  const ArrayViews& array() const { return views_.array(); }
  std::string repr() const;

 private:
  void warn_of(const std::string& alive, const char* what) const;

  const std::uint64_t version_;
  const std::uint32_t slot_;
  LeaseViews views_;
  Lease lease_;
};

using PyReadLease = PyLease<ReadLease>;
using PyWriteLease = PyLease<WriteLease>;

}  // namespace memlease::python
