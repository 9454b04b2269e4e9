// The types ReadLease and WriteLease.
#include <Python.h>
#include <structmember.h>

#include <array>
#include <cstddef>
#include <vector>

#include "python/bindings/dlpack_capsule.h"
#include "python/bindings/fastcall.h"
#include "python/bindings/lease.h"

namespace memlease::python {
namespace {

constexpr const char* kReadDoc =
    R"(The right to read one version, whose bytes do not change meanwhile.

Use it in ``with``, or call `release`. NumPy, PyTorch, JAX and whatever speaks the buffer protocol,
``__array_interface__`` or DLPack take the lease itself, without a copy; `array` is a NumPy view.
Every view is read-only and keeps the version's slot until it dies, also beyond the lease.
Not thread-safe: one thread at a time uses one lease. Nothing here blocks or calls the daemon.
)";

constexpr const char* kWriteDoc =
    R"(The right to write the next version. Readers see nothing of it until `publish`.

Use it in ``with``: a clean exit publishes, an exception drops. `array` is a writable NumPy view;
its bytes are unspecified, or after `Array.update` those of the current version. Views must be gone
when the version is published. Not thread-safe. Nothing here blocks or calls the daemon.
)";

constexpr const char* kArrayDoc =
    R"(The version's elements as a NumPy array over the shared memory: no copy.

The same object on each access, and for a later lease of the same slot if nobody kept it.

Raises
------
Closed
    The lease has ended.
Unsupported
    NumPy has no such dtype and ml_dtypes, which has, is not installed.
)";

constexpr const char* kDLPackDoc =
    R"(__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)
--

Export by DLPack, versioned or not as the consumer asks. Never waits.

Raises
------
BufferError
    The request cannot be met: another device, or a read lease for a consumer that takes only the
    unversioned form, which cannot say "read-only" (see `dlpack`).
Closed
    The lease has ended.
)";

constexpr const char* kDLPackMethodDoc = R"(dlpack($self, /, *, readonly_ok=False)
--

What to give to a DLPack consumer instead of the lease itself.

Parameters
----------
readonly_ok : bool
    Hand read-only memory also to consumers that cannot be told so, as JAX. Writing through what
    they make of it is undefined: it ends the process or changes a version that others read.
)";

constexpr const char* kReleaseDoc = R"(release($self, /)
--

End the lease. A second call does nothing.

Returns
-------
bool
    False if views of it are alive: they keep the slot, and a `ViewAlive` warning says so.

Raises
------
ProducerDied
    The version turned out to be torn: do not use what was computed from it.
)";

constexpr const char* kPublishDoc = R"(publish($self, /, *, allow_pins=False)
--

Make the version current and end the lease.

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

constexpr const char* kDropDoc = R"(drop($self, /)
--

End the lease without a version. A second call does nothing.

Views of it that are alive keep the slot out of use, and a `ViewAlive` warning says so.
)";

constexpr const char* kArrayMethodDoc = R"(__array__($self, /, dtype=None, copy=None)
--

A NumPy array of the version: `array` itself where neither dtype nor copy ask for another.)";

constexpr const char* kExitDoc = R"(__exit__($self, kind, value, traceback, /)
--

End the lease.)";

template <typename Function>
void* slot(Function* function) {
  return reinterpret_cast<void*>(function);
}

template <typename Lease, auto Getter>
PyObject* get(PyObject* self, void* /*closure*/) {
  return guarded([&] {
    auto&& value = (lease_of<Lease>(self).*Getter)();
    if constexpr (std::is_convertible_v<decltype(value), py::handle>) {
      return Py_NewRef(value.ptr());
    } else {
      return py::cast(value).release().ptr();
    }
  });
}

template <typename Lease>
PyObject* enter(PyObject* self, PyObject* /*nothing*/) {
  return guarded([&] {
    lease_of<Lease>(self).data();  // throws Closed
    return Py_NewRef(self);
  });
}

template <typename Lease>
PyObject* exit(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([&] {
    if (count != 3) throw py::type_error("__exit__() takes 3 arguments");
    lease_of<Lease>(self).exit(Py_IsNone(arguments[0]) == 0);
    return Py_NewRef(Py_None);
  });
}

PyObject* release(PyObject* self, PyObject* /*nothing*/) {
  return guarded([&] { return PyBool_FromLong(lease_of<ReadLease>(self).release() ? 1 : 0); });
}

PyObject* publish(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                  PyObject* keywords) {
  return guarded([&] {
    static constexpr std::array kParameters{"allow_pins"};
    std::array<PyObject*, 1> values{};
    FastCall{"publish", arguments, count, keywords}.bind(kParameters, 0, values);
    const int allow_pins = values[0] == nullptr ? 0 : PyObject_IsTrue(values[0]);
    if (allow_pins < 0) throw py::error_already_set();
    return PyLong_FromUnsignedLongLong(lease_of<WriteLease>(self).publish(allow_pins != 0));
  });
}

PyObject* drop(PyObject* self, PyObject* /*nothing*/) {
  return guarded([&] {
    lease_of<WriteLease>(self).drop();
    return Py_NewRef(Py_None);
  });
}

template <typename Lease>
PyObject* array(PyObject* self, PyObject* arguments, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    static constexpr const char* kNames[] = {"dtype", "copy", nullptr};
    PyObject* dtype = Py_None;
    PyObject* copy = Py_None;
    if (PyArg_ParseTupleAndKeywords(arguments, keywords, "|OO:__array__",
                                    const_cast<char**>(kNames), &dtype, &copy) == 0) {
      return nullptr;
    }
    const py::object made = py::module_::import("numpy").attr("array")(
        lease_of<Lease>(self).numpy(), py::arg("dtype") = py::handle(dtype),
        py::arg("copy") = py::handle(copy));
    return Py_NewRef(made.ptr());
  });
}

template <typename Lease>
PyObject* dlpack_capsule(PyObject* self, PyObject* arguments, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    static constexpr const char* kNames[] = {"stream", "max_version", "dl_device", "copy", nullptr};
    std::array<PyObject*, 4> values{Py_None, Py_None, Py_None, Py_None};
    if (PyArg_ParseTupleAndKeywords(arguments, keywords, "|$OOOO:__dlpack__",
                                    const_cast<char**>(kNames), &values[0], &values[1], &values[2],
                                    &values[3]) == 0) {
      return nullptr;
    }
    const auto object = [&](std::size_t i) {
      return py::reinterpret_borrow<py::object>(values[i]);
    };
    return make_capsule(lease_of<Lease>(self).block(),
                        {object(0), object(1), object(2), object(3), false})
        .release()
        .ptr();
  });
}

PyObject* dlpack_device(PyObject* /*self*/, PyObject* /*nothing*/) {
  return Py_BuildValue("(ii)", int{kDLCPU}, 0);
}

template <typename Lease>
PyObject* dlpack_source(PyObject* self, PyObject* arguments, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    static constexpr const char* kNames[] = {"readonly_ok", nullptr};
    int readonly_ok = 0;
    if (PyArg_ParseTupleAndKeywords(arguments, keywords, "|$p:dlpack", const_cast<char**>(kNames),
                                    &readonly_ok) == 0) {
      return nullptr;
    }
    const auto block = [object = py::reinterpret_borrow<py::object>(self)] {
      return lease_of<Lease>(object).block();
    };
    return py::cast(DLPackSource(block, readonly_ok != 0)).release().ptr();
  });
}

template <typename Lease>
PyObject* repr(PyObject* self) {
  return guarded([&] { return PyUnicode_FromString(lease_of<Lease>(self).repr().c_str()); });
}

template <typename Lease>
PyObject* get_item(PyObject* self, PyObject* key) {
  return guarded([&] { return PyObject_GetItem(lease_of<Lease>(self).numpy().ptr(), key); });
}

// For iteration.
template <typename Lease>
PyObject* get_row(PyObject* self, Py_ssize_t index) {
  return guarded([&] { return PySequence_GetItem(lease_of<Lease>(self).numpy().ptr(), index); });
}

int set_item(PyObject* self, PyObject* key, PyObject* value) {
  return guarded([&] {
    PyObject* const numpy = lease_of<WriteLease>(self).numpy().ptr();
    return value == nullptr ? PyObject_DelItem(numpy, key) : PyObject_SetItem(numpy, key, value);
  });
}

template <typename Lease>
int get_buffer(PyObject* self, Py_buffer* buffer, int flags) {
  buffer->obj = nullptr;
  return guarded([&] {
    lease_of<Lease>(self).fill_buffer(self, buffer, flags);
    return 0;
  });
}

template <typename Lease>
void destroy(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  auto* const object = reinterpret_cast<LeaseObject<Lease>*>(self);
  if (object->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  object->lease.~PyLease();
  if (spare_lease<Lease> == nullptr) {
    spare_lease<Lease> = object;
  } else {
    PyObject_Free(object);
  }
  Py_DECREF(type);
}

template <typename Lease>
PyMethodDef* methods() {
  constexpr int kKeywords = METH_VARARGS | METH_KEYWORDS;
  constexpr bool kReads = PyLease<Lease>::kReadonly;
  static PyMethodDef table[] = {
      {"__enter__", &enter<Lease>, METH_NOARGS, "__enter__($self, /)\n--\n\nThe lease itself."},
      {"__exit__", c_function(&exit<Lease>), METH_FASTCALL, kExitDoc},
      {"__array__", c_function(&array<Lease>), kKeywords, kArrayMethodDoc},
      {"__dlpack__", c_function(&dlpack_capsule<Lease>), kKeywords, kDLPackDoc},
      {"__dlpack_device__", &dlpack_device, METH_NOARGS,
       "__dlpack_device__($self, /)\n--\n\n(1, 0): kDLCPU."},
      {"dlpack", c_function(&dlpack_source<Lease>), kKeywords, kDLPackMethodDoc},
      kReads ? PyMethodDef{"release", &release, METH_NOARGS, kReleaseDoc}
             : PyMethodDef{"drop", &drop, METH_NOARGS, kDropDoc},
      kReads ? PyMethodDef{}
             : PyMethodDef{"publish", c_function(&publish), METH_FASTCALL | METH_KEYWORDS,
                           kPublishDoc},
      {}};
  return table;
}

template <typename Lease>
PyGetSetDef* properties() {
  using Inside = PyLease<Lease>;
  static PyGetSetDef table[] = {
      {"version", &get<Lease, &Inside::version>, nullptr, "Number of the version: 1, 2, 3, ...",
       nullptr},
      {"slot", &get<Lease, &Inside::slot>, nullptr, "Index of the slot that holds it.", nullptr},
      {"shape", &get<Lease, &Inside::shape>, nullptr, "Extents, as of the array.", nullptr},
      {"dtype", &get<Lease, &Inside::dtype>, nullptr,
       "Name of the element type, such as 'float32' or 'bfloat16'.", nullptr},
      {"array", &get<Lease, &Inside::numpy>, nullptr, kArrayDoc, nullptr},
      {"__array_interface__", &get<Lease, &Inside::interface>, nullptr,
       "NumPy's array interface, version 3; \"data\" is a buffer.", nullptr},
      {Inside::kReadonly ? "released" : "ended", &get<Lease, &Inside::ended>, nullptr,
       Inside::kReadonly ? "True once the lease has ended."
                         : "True once it is published or dropped.",
       nullptr},
      {}};
  return table;
}

template <typename Lease>
void bind_lease(py::module_& module, const char* name, const char* doc) {
  static PyMemberDef members[] = {
      {"__weaklistoffset__", T_PYSSIZET, offsetof(LeaseHead, weak_references), READONLY, nullptr},
      {}};
  std::vector<PyType_Slot> slots = {
      {Py_tp_doc, const_cast<char*>(doc)},
      {Py_tp_dealloc, slot(&destroy<Lease>)},
      {Py_tp_members, members},
      {Py_tp_methods, methods<Lease>()},
      {Py_tp_getset, properties<Lease>()},
      {Py_tp_repr, slot(&repr<Lease>)},
      {Py_mp_subscript, slot(&get_item<Lease>)},
      {Py_sq_item, slot(&get_row<Lease>)},
      {Py_bf_getbuffer, slot(&get_buffer<Lease>)},
      {Py_bf_releasebuffer, slot(&release_buffer)},
  };
  if constexpr (!PyLease<Lease>::kReadonly) slots.push_back({Py_mp_ass_subscript, slot(&set_item)});
  slots.push_back({});
  PyType_Spec spec{
      name, sizeof(LeaseObject<Lease>), 0,
      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
      slots.data()};
  const auto type =
      py::reinterpret_steal<py::object>(PyType_FromModuleAndSpec(module.ptr(), &spec, nullptr));
  if (!type) throw py::error_already_set();
  module.attr(type.attr("__name__")) = type;
  lease_type<Lease> = reinterpret_cast<PyTypeObject*>(type.inc_ref().ptr());
}

}  // namespace

void bind_leases(py::module_& module) {
  bind_lease<ReadLease>(module, "memlease.ReadLease", kReadDoc);
  bind_lease<WriteLease>(module, "memlease.WriteLease", kWriteDoc);
}

}  // namespace memlease::python
