#include "python/bindings/lease.h"

namespace memlease::python {
namespace {

void* or_anywhere(const void* data) {
  alignas(256) static char nothing;  // zero elements need an address all the same
  return data == nullptr ? &nothing : const_cast<void*>(data);
}

}  // namespace

template <typename Lease>
bool PyLease<Lease>::ended() const {
  if constexpr (kReadonly) {
    return lease_.released();
  } else {
    return lease_.ended();
  }
}

template <typename Lease>
void* PyLease<Lease>::data() const {
  return or_anywhere(lease_.data());
}

template <typename Lease>
PyLease<Lease>::~PyLease() {
  if (views_.empty()) return;
  const py::error_scope pending;
  settle();
}

// A read lease itself keeps the slot until settle() looks whether the array is needed any longer;
// a write lease asks at once, since its first pin calls the daemon, which may fail.
template <typename Lease>
const py::object& PyLease<Lease>::numpy() {
  void* const first = data();
  if (views_.numpy()) return views_.numpy();
  return views_.numpy(first, slot(), kReadonly ? Pin() : lease_.pin());
}

template <typename Lease>
std::string PyLease<Lease>::settle() {
  if (views_.empty()) return {};
  if (!views_.take_back(slot()) && !views_.is_kept()) {
    try {
      views_.keep(lease_.pin());
    } catch (const Error&) {
      return {};  // in a forked child, which has no pages to keep
    }
  }
  return views_.alive();
}

template <typename Lease>
std::string PyLease<Lease>::repr() const {
  return std::string("<memlease.") + (kReadonly ? "Read" : "Write") + "Lease '" + array().name +
         "' v" + std::to_string(version()) + " slot=" + std::to_string(slot()) +
         (ended() ? " ended>" : ">");
}

template <typename Lease>
void PyLease<Lease>::warn_of(const std::string& alive, const char* what) const {
  const std::string text = what + std::string(" version ") + std::to_string(version()) + " of '" +
                           array().name +
                           "' has ended, but something made from it is alive: " + alive +
                           ". Slot " + std::to_string(slot()) +
                           " stays out of use until that dies: del it before the lease ends, or "
                           "keep a copy instead";
  const py::object category = py::module_::import("memlease.errors").attr("ViewAlive");
  if (PyErr_WarnEx(category.ptr(), text.c_str(), 1) != 0) throw py::error_already_set();
}

template <>
bool PyLease<ReadLease>::release() {
  if (views_.empty()) return lease_.release();
  const std::string alive = settle();
  views_.abandon();
  const bool is_free = lease_.release();
  if (!is_free && !alive.empty()) warn_of(alive, "the lease to read");
  return is_free;
}

template <>
void PyLease<ReadLease>::exit(bool /*failed*/) {
  if (!ended()) release();
}

template <>
std::uint64_t PyLease<WriteLease>::publish(bool allow_pins) {
  data();  // throws Closed
  const std::string alive = settle();
  if (!alive.empty() && !allow_pins) {
    throw Error(
        ErrorCode::Busy,
        "version " + std::to_string(version()) + " of '" + array().name +
            "' cannot be published while something can still write into it: " + alive,
        "del it first, or write with w[...] = instead of keeping w.array, or promise not to "
        "write and call publish(allow_pins=True)");
  }
  const std::uint64_t version = lease_.publish(allow_pins);
  views_.abandon();
  return version;
}

template <>
void PyLease<WriteLease>::drop() {
  if (ended()) return;
  const std::string alive = settle();
  views_.abandon();
  lease_.drop();
  if (!alive.empty()) warn_of(alive, "the lease to write");
}

template <>
void PyLease<WriteLease>::exit(bool failed) {
  if (ended()) return;
  if (failed) return drop();
  try {
    publish(false);
  } catch (...) {
    views_.abandon();
    lease_.drop();
    throw;
  }
}

template class PyLease<ReadLease>;
template class PyLease<WriteLease>;

}  // namespace memlease::python
