// Leases as Python sees them: extension types written against the C API, since every step of a
// loop makes and ends one. Under the GIL, which calls that may wait give up meanwhile.
#pragma once

#include <memory>
#include <new>
#include <string>
#include <utility>

#include "python/bindings/dlpack_capsule.h"
#include "python/bindings/view.h"

namespace memlease::python {

// How __cuda_array_interface__ is wanted.
struct CudaInterfaceOptions {
  int version = 3;  // or 2, which names no stream
  // Default: what memlease.opt_outs says.
  std::optional<bool> host_wait;  // in place of a stream
  std::optional<bool> no_stream;  // and nothing in its place
  bool readonly_ok = false;       // do not say that a read lease is read-only
};

// A memlease::ReadLease or WriteLease with its views.
template <typename Lease>
class PyLease {
 public:
  static constexpr bool kReadonly = std::is_same_v<Lease, ReadLease>;

  // `views` are those of the Python object `array`, or of a region of it, which the lease keeps;
  // `begin` returns the lease. `stream`: what the caller gave as one, or null; it lives as long as
  // the lease, which ends by it.
  template <typename Begin>
  PyLease(py::handle array, ArrayViews& views, std::shared_ptr<ArrayViews> region, PyObject* stream,
          Begin&& begin)
      : stream_(py::reinterpret_borrow<py::object>(stream)),
        lease_(begin()),
        array_(py::reinterpret_borrow<py::object>(array)),
        region_(std::move(region)),
        views_(region_ == nullptr ? views : *region_, kReadonly) {
    if constexpr (kReadonly) live_.add(*this);
  }
  ~PyLease();
  PyLease(const PyLease&) = delete;
  PyLease& operator=(const PyLease&) = delete;

  std::uint64_t version() const { return lease_.version(); }
  std::uint32_t slot() const { return lease_.slot(); }
  py::tuple shape() const { return py::tuple(py::cast(array().shape)); }
  std::string dtype() const { return name_of(array().dtype); }
  bool ended() const;

  // Throws Closed once the lease has ended, as all below do.
  void check_live() const { lease_.wait(Stream()); }
  // The same object on each call. It and the next two are for the host's arrays, and throw for a
  // device's: Unsupported, AttributeError and BufferError.
  const py::object& numpy();
  // The same for whoever reads it: a write lease whose bytes nobody has had begins with the current
  // version's, as after update().
  const py::object& elements();
  // The same as numpy(), for the attribute `array`; and what `lease.array += x` assigns to it.
  const py::object& array_attribute();
  void set_array_attribute(py::handle value);
  py::dict interface();
  void fill_buffer(py::handle exporter, Py_buffer* buffer, int flags);
  // For the devices' arrays, else AttributeError.
  py::dict cuda_interface() { return cuda_interface(CudaInterfaceOptions()); }
  py::dict cuda_interface(const CudaInterfaceOptions& options);
  // What to give to consumers of __sycl_usm_array_interface__; `self` is the Python object.
  py::object export_usm(py::handle self, py::handle syclobj, py::handle usm_type,
                        py::handle copy) const;
  DLDevice dlpack_device() const;
  views::Block block(const DLPackPlan& plan);

  // Ends a read lease. False if views keep its slot; with a ViewAlive warning if a writer waits for
  // one. The streams here and below are for arrays of devices, which may be waited for, without the
  // GIL. `may_throw`: the warning, where it is an error.
  bool release(Stream stream, bool may_throw = true);
  // lease[key] = source, or del lease[key] if `source` is null, of a write lease. All of it may
  // come from a GPU; on a device it must, else Unsupported. What is in USM is waited for.
  void assign(py::handle key, py::handle source);
  // Ends all leases of the array that live in this process, without a warning.
  static void release_all(const Array& array);
  // Ends a write lease with a version, whatever views live: these are read-only from then on. Where
  // the connection is strict: Busy, and the lease goes on.
  std::uint64_t publish(Stream stream);
  // Ends a write lease without one.
  void drop(Stream stream);
  // `with`: release(), or publish(), or drop() after an exception and where publish() fails.
  void exit(bool failed);

  // Of the region, where there is one.
  const ArrayViews& array() const { return views_.array(); }
  std::string repr() const;

 private:
  // Before the lease ends: takes the NumPy array back, or lets it keep the slot.
  void keep_array_if_used();
  // Of a write lease that dies: a RuntimeWarning, where what was written goes with it.
  void warn_of_loss() const;
  // Into a write lease; false if the source is not on a GPU, or `key` is not all of the lease.
  bool fill_from_gpu(py::handle key, py::handle source);
  bool on_device() const { return array().on_device(); }
  void* data() const;
  views::Block host_copy() const;
  // Where to find what the host cannot touch.
  std::string on_device_text() const;
  template <typename Call>
  decltype(auto) call(Call&& lease_call);

  // Those that have not been destroyed; under the GIL.
  class Live {
   public:
    void add(PyLease& lease) {
      lease.next_ = first_;
      if (first_ != nullptr) first_->previous_ = &lease;
      first_ = &lease;
    }
    void remove(PyLease& lease) {
      (lease.previous_ != nullptr ? lease.previous_->next_ : first_) = lease.next_;
      if (lease.next_ != nullptr) lease.next_->previous_ = lease.previous_;
    }
    PyLease* first() const { return first_; }

   private:
    PyLease* first_ = nullptr;
  };
  inline static Live live_;  // of read leases

  PyLease* next_ = nullptr;
  PyLease* previous_ = nullptr;
  py::object stream_;
  Lease lease_;
  py::object array_;
  std::shared_ptr<ArrayViews> region_;  // null: all of the array
  LeaseViews views_;
  // Nobody has had the bytes, which are unspecified, but by the last access of `array`.
  bool is_first_array_ = false;
};

// The Python object around a PyLease.
struct LeaseHead {
  PyObject ob_base;
  PyObject* weak_references;
};
template <typename Lease>
struct LeaseObject : LeaseHead {
  PyLease<Lease> lease;
};

template <typename Lease>
inline PyTypeObject* lease_type = nullptr;  // from bind_leases() on

// Memory of an object that has died, for the next one; or null. Loops need one at a time.
template <typename Lease>
inline void* spare_lease = nullptr;

template <typename Lease>
PyLease<Lease>& lease_of(py::handle object) {
  return reinterpret_cast<LeaseObject<Lease>*>(object.ptr())->lease;
}

// A new object, its lease made in place; the arguments are those of PyLease.
template <typename Lease, typename Begin>
PyObject* make_lease(py::handle array, ArrayViews& views, std::shared_ptr<ArrayViews> region,
                     PyObject* stream, Begin&& begin) {
  void* memory = std::exchange(spare_lease<Lease>, nullptr);
  if (memory == nullptr) memory = PyObject_Malloc(sizeof(LeaseObject<Lease>));
  if (memory == nullptr) throw std::bad_alloc();
  auto* const object = static_cast<LeaseObject<Lease>*>(memory);
  try {
    new (&object->lease)
        PyLease<Lease>(array, views, std::move(region), stream, std::forward<Begin>(begin));
  } catch (...) {
    PyObject_Free(memory);
    throw;
  }
  object->weak_references = nullptr;
  return PyObject_Init(reinterpret_cast<PyObject*>(object), lease_type<Lease>);
}

}  // namespace memlease::python
