#include <functional>

#include "python/bindings/dlpack_capsule.h"
#include "python/bindings/lease.h"

namespace memlease::python {
namespace {

const char* const kReadDoc = R"(The right to read one version, whose bytes do not change meanwhile.

Use it in ``with``, or call `release`. NumPy, PyTorch, JAX and whatever speaks the buffer protocol,
``__array_interface__`` or DLPack take the lease itself, without a copy; `array` is a NumPy view.
Every view is read-only and keeps the version's slot until it dies, also beyond the lease.
Not thread-safe: one thread at a time uses one lease. Nothing here blocks or calls the daemon.
)";

const char* const kWriteDoc =
    R"(The right to write the next version. Readers see nothing of it until `publish`.

Use it in ``with``: a clean exit publishes, an exception drops. `array` is a writable NumPy view;
its bytes are unspecified, or after `Array.update` those of the current version. Views must be gone
when the version is published. Not thread-safe. Nothing here blocks or calls the daemon.
)";

const char* const kArrayDoc =
    R"(The version's elements as a NumPy array over the shared memory: no copy.

The same object on each access, and for a later lease of the same slot if nobody kept it.

Raises
------
Closed
    The lease has ended.
Unsupported
    NumPy has no such dtype and ml_dtypes, which has, is not installed.
)";

const char* const kDLPackDoc =
    R"(Export by DLPack, versioned or not as the consumer asks. Never waits.

Raises
------
BufferError
    The request cannot be met: another device, or a read lease for a consumer that takes only the
    unversioned form, which cannot say "read-only" (see `dlpack`).
Closed
    The lease has ended.
)";

const char* const kDLPackMethodDoc =
    R"(What to give to a DLPack consumer instead of the lease itself.

Parameters
----------
readonly_ok : bool
    Hand read-only memory also to consumers that cannot be told so, as JAX. Writing through what
    they make of it is undefined: it ends the process or changes a version that others read.
)";

const char* const kReleaseDoc = R"(End the lease. A second call does nothing.

Returns
-------
bool
    False if views of it are alive: they keep the slot, and a `ViewAlive` warning says so.

Raises
------
ProducerDied
    The version turned out to be torn: do not use what was computed from it.
)";

const char* const kPublishDoc = R"(Make the version current and end the lease.

Parameters
----------
allow_pins : bool
    Publish although views of the lease are alive. The caller answers for nobody writing through
    them: that would change a published version.

Returns
-------
int
    The version's number.

Raises
------
Busy
    Views of the lease are alive. The lease goes on.
)";

const char* const kDropDoc = R"(End the lease without a version. A second call does nothing.

Views of it that are alive keep the slot out of use, and a `ViewAlive` warning says so.
)";

void* or_anywhere(const void* data) {
  alignas(256) static char nothing;  // zero elements need an address all the same
  return data == nullptr ? &nothing : const_cast<void*>(data);
}

// DLPack with an option that the protocol's own arguments have no room for.
class DLPackSource {
 public:
  DLPackSource(std::function<views::HostBlock()> block, bool readonly_ok)
      : block_(std::move(block)), readonly_ok_(readonly_ok) {}
  views::HostBlock block() const { return block_(); }
  bool readonly_ok() const { return readonly_ok_; }

 private:
  std::function<views::HostBlock()> block_;  // holds the lease's Python object
  bool readonly_ok_;
};

// `Source` is a lease or a DLPackSource.
template <typename Source>
void bind_dlpack(py::class_<Source>& type) {
  type.def(
      "__dlpack__",
      [](Source& self, py::object stream, py::object max_version, py::object dl_device,
         py::object copy) {
        return make_capsule(self.block(),
                            {std::move(stream), std::move(max_version), std::move(dl_device),
                             std::move(copy), self.readonly_ok()});
      },
      kDLPackDoc, py::kw_only(), py::arg("stream") = py::none(),
      py::arg("max_version") = py::none(), py::arg("dl_device") = py::none(),
      py::arg("copy") = py::none());
  type.def(
      "__dlpack_device__", [](const Source&) { return py::make_tuple(int{kDLCPU}, 0); },
      "(1, 0): kDLCPU.");
}

template <typename Lease>
int get_buffer(PyObject* self, Py_buffer* buffer, int flags) {
  buffer->obj = nullptr;
  try {
    py::cast<Lease&>(py::handle(self)).fill_buffer(self, buffer, flags);
    return 0;
  } catch (const Error& error) {
    set_python_error(error);
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_BufferError, error.what());
  }
  return -1;
}

template <typename Lease>
py::class_<Lease> bind_lease(py::module_& module, const char* name, const char* doc) {
  py::class_<Lease> type(module, name, doc, py::custom_type_setup([](PyHeapTypeObject* heap_type) {
                           heap_type->ht_type.tp_as_buffer = &heap_type->as_buffer;
                           heap_type->as_buffer.bf_getbuffer = &get_buffer<Lease>;
                           heap_type->as_buffer.bf_releasebuffer = &release_buffer;
                         }));
  type.def_property_readonly("version", &Lease::version, "Number of the version: 1, 2, 3, ...");
  type.def_property_readonly("slot", &Lease::slot, "Index of the slot that holds it.");
  type.def_property_readonly("array", &Lease::numpy, kArrayDoc);
  type.def("__getitem__",
           [](Lease& self, const py::object& key) { return py::object(self.numpy()[key]); });
  type.def(
      "__array__",
      [](Lease& self, const py::object& dtype, const py::object& copy) {
        return py::module_::import("numpy").attr("array")(self.numpy(), py::arg("dtype") = dtype,
                                                          py::arg("copy") = copy);
      },
      py::arg("dtype") = py::none(), py::arg("copy") = py::none());
  type.def_property_readonly("__array_interface__", &Lease::interface,
                             "NumPy's array interface, version 3; \"data\" is a buffer.");
  bind_dlpack(type);
  type.def(
      "dlpack",
      [](const py::object& self, bool readonly_ok) {
        return DLPackSource([self] { return self.cast<Lease&>().block(); }, readonly_ok);
      },
      kDLPackMethodDoc, py::kw_only(), py::arg("readonly_ok") = false);
  type.def("__enter__", [](py::object self) {
    self.cast<Lease&>().data();  // throws Closed
    return self;
  });
  type.def("__exit__", [](Lease& self, const py::object& kind, const py::object&,
                          const py::object&) { self.exit(!kind.is_none()); });
  type.def("__repr__", &Lease::repr);
  return type;
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
std::string PyLease<Lease>::repr() const {
  return std::string("<memlease.") + (kReadonly ? "Read" : "Write") + "Lease '" + array().name +
         "' v" + std::to_string(version_) + " slot=" + std::to_string(slot_) +
         (ended() ? " ended>" : ">");
}

template <typename Lease>
void PyLease<Lease>::warn_of(const std::string& alive, const char* what) const {
  const std::string text = what + std::string(" version ") + std::to_string(version_) + " of '" +
                           array().name +
                           "' has ended, but something made from it is alive: " + alive +
                           ". Slot " + std::to_string(slot_) +
                           " stays out of use until that dies: del it before the lease ends, or "
                           "keep a copy instead";
  const py::object category = py::module_::import("memlease.errors").attr("ViewAlive");
  if (PyErr_WarnEx(category.ptr(), text.c_str(), 1) != 0) throw py::error_already_set();
}

template <>
bool PyReadLease::release() {
  const std::string alive = views_.settle();
  views_.abandon();
  const bool is_free = lease_.release();
  if (!is_free && !alive.empty()) warn_of(alive, "the lease to read");
  return is_free;
}

template <>
void PyReadLease::exit(bool /*failed*/) {
  if (!ended()) release();
}

template <>
std::uint64_t PyWriteLease::publish(bool allow_pins) {
  data();  // throws Closed
  const std::string alive = views_.settle();
  if (!alive.empty() && !allow_pins) {
    throw Error(
        ErrorCode::Busy,
        "version " + std::to_string(version_) + " of '" + array().name +
            "' cannot be published while something can still write into it: " + alive,
        "del it first, or write with w[...] = instead of keeping w.array, or promise not to "
        "write and call publish(allow_pins=True)");
  }
  const std::uint64_t version = lease_.publish(allow_pins);
  views_.abandon();
  return version;
}

template <>
void PyWriteLease::drop() {
  if (ended()) return;
  const std::string alive = views_.settle();
  views_.abandon();
  lease_.drop();
  if (!alive.empty()) warn_of(alive, "the lease to write");
}

template <>
void PyWriteLease::exit(bool failed) {
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

void bind_leases(py::module_& module) {
  py::class_<DLPackSource> source(module, "DLPackSource",
                                  "A lease for DLPack consumers, with options.");
  bind_dlpack(source);
  bind_lease<PyReadLease>(module, "ReadLease", kReadDoc)
      .def_property_readonly("released", &PyReadLease::ended, "True once the lease has ended.")
      .def("release", &PyReadLease::release, kReleaseDoc);
  bind_lease<PyWriteLease>(module, "WriteLease", kWriteDoc)
      .def_property_readonly("ended", &PyWriteLease::ended, "True once it is published or dropped.")
      .def("__setitem__", [](PyWriteLease& self, const py::object& key,
                             const py::object& value) { self.numpy()[key] = value; })
      .def("publish", &PyWriteLease::publish, kPublishDoc, py::kw_only(),
           py::arg("allow_pins") = false)
      .def("drop", &PyWriteLease::drop, kDropDoc);
}

}  // namespace memlease::python
