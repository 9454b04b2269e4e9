// The types ReadLease and WriteLease.
#include <Python.h>
#include <structmember.h>

#include <array>
#include <cstddef>
#include <vector>

#include "python/bindings/cuda_array.h"
#include "python/bindings/dlpack_capsule.h"
#include "python/bindings/fastcall.h"
#include "python/bindings/lease.h"

namespace memlease::python {
namespace {

constexpr const char* kReadDoc =
    R"(The right to read one version, whose bytes do not change meanwhile.

Use it in ``with``, or call `release`. NumPy, PyTorch, JAX and whatever speaks the buffer protocol,
``__array_interface__`` or DLPack take the lease itself, without a copy; `array` is a NumPy view.
Every view is read-only and keeps the version's slot until it dies, also beyond the lease. Arrays on
a GPU are taken by DLPack or ``__cuda_array_interface__``; the latter's views do not keep the slot.
Not thread-safe: one thread at a time uses one lease. Nothing here calls the daemon, or blocks, but
for what says so of arrays on a GPU.
)";

constexpr const char* kWriteDoc =
    R"(The right to write the next version. Readers see nothing of it until `publish`.

Use it in ``with``: a clean exit publishes, an exception drops. `array` is a writable NumPy view;
its bytes are unspecified, or after `Array.update` those of the current version. Views must be gone
when the version is published. Arrays on a GPU are filled through DLPack or
``__cuda_array_interface__``, or by ``lease[...] = source`` with an array on the same GPU, as
`Array.put` takes it: a copy on the lease's stream, or one that blocks. Not thread-safe. Nothing here calls the daemon, or blocks, but for what
says so of arrays on a GPU.
)";

constexpr const char* kArrayDoc =
    R"(The version's elements as a NumPy array over the shared memory: no copy.

The same object on each access, and for a later lease of the same slot if nobody kept it.

Raises
------
Closed
    The lease has ended.
Unsupported
    NumPy has no such dtype and ml_dtypes, which has, is not installed; or the array is on a GPU.
)";

constexpr const char* kDLPackDoc =
    R"(__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)
--

Export by DLPack, versioned or not as the consumer asks.

Of an array on a GPU the consumer's `stream` is made to wait for the bytes: a handle, 1 or None the
legacy stream, 2 the thread's own; with -1 the consumer sees to the order. That does not block; only
``dl_device=(1, 0)``, which copies a version to the host, does.

Raises
------
BufferError
    The request cannot be met: another device, or a read lease for a consumer that takes only the
    unversioned form, which cannot say "read-only" (see `dlpack`).
ValueError
    A stream that is none: 0, which is ambiguous, or of a host array any but -1.
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

constexpr const char* kReleaseDoc = R"(release($self, /, stream=None)
--

End the lease. A second call does nothing.

Parameters
----------
stream : stream, optional
    Of an array on a GPU: a writer waits for what this stream was given until now (see
    `memlease.stream`). Default: the stream that the lease began with; without one, or if something
    made from the lease was used on another, this blocks until the GPU has nothing to do.

Returns
-------
bool
    False if views of it are alive: they keep the slot, and a `ViewAlive` warning says so.

Raises
------
ProducerDied
    The version turned out to be torn: do not use what was computed from it.
)";

constexpr const char* kPublishDoc = R"(publish($self, /, stream=None, *, allow_pins=False)
--

Make the version current and end the lease.

Parameters
----------
stream : stream, optional
    Of an array on a GPU: readers wait for what this stream was given until now. Default: as in
    `ReadLease.release`.
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

constexpr const char* kDropDoc = R"(drop($self, /, stream=None)
--

End the lease without a version. A second call does nothing.

`stream` is as in `publish`.
Views of it that are alive keep the slot out of use, and a `ViewAlive` warning says so.
)";

constexpr const char* kArrayMethodDoc = R"(__array__($self, /, dtype=None, copy=None)
--

A NumPy array of the version: `array` itself where neither dtype nor copy ask for another.)";

constexpr const char* kExitDoc = R"(__exit__($self, kind, value, traceback, /)
--

End the lease.)";

constexpr const char* kDLPackDeviceDoc = R"(__dlpack_device__($self, /)
--

(1, 0), the host's memory, or (2, n): cuda:n as this process numbers its GPUs.)";

constexpr const char* kCudaInterfaceDoc =
    R"(The CUDA array interface, version 3: arrays on a GPU only, else AttributeError.

A dict, new at each access, and each access makes its ``stream`` wait again for all that must come
before: what is put on that stream, or comes after it was synchronised, sees the version complete.
Never blocks. A dict holds nothing: whoever uses the address keeps the lease, and `release` must be
told where the work ends.

Raises
------
AttributeError
    The array is in host memory, or of a type that NumPy cannot name, such as bfloat16.
Closed
    The lease has ended.
)";

constexpr const char* kCudaArrayDoc =
    R"(cuda_array($self, /, *, version=3, host_wait=None, no_stream=None, readonly_ok=False)
--

What to give to a consumer of the CUDA array interface instead of the lease itself.

It has the attribute ``__cuda_array_interface__`` and keeps the lease.

Parameters
----------
version : int
    Of the interface: 3, or 2, which names no stream.
host_wait : bool, optional
    At each access of the attribute block, without the GIL, until the bytes are complete, and name
    no stream: for consumers that ignore the stream, as PyTorch. Default: True for version 2, else
    what the environment variable ``MEMLEASE_CUDA_HOST_WAIT`` says, else False.
no_stream : bool, optional
    Name no stream, ``None``, and wait for nothing: the caller answers for the order, and logs say
    so once (R-CAI-13, R-SYNC-13). How the lease ends and what it keeps does not change. Default:
    what ``MEMLEASE_CUDA_NO_STREAM`` says where the host does not wait, else False.
readonly_ok : bool
    Do not say that the bytes of a read lease are read-only: for consumers that refuse such, as
    PyTorch. Writing through what they make of it changes a version that others read.

Returns
-------
CudaArraySource
)";

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

Stream only_stream(const FastCall& call) {
  static constexpr std::array kParameters{"stream"};
  std::array<PyObject*, 1> values{};
  call.bind(kParameters, 1, values);
  return to_stream(values[0]);
}

template <typename Lease>
PyObject* get_cuda_interface(PyObject* self, void* /*closure*/) {
  return guarded([&] { return lease_of<Lease>(self).cuda_interface().release().ptr(); });
}

template <typename Lease>
PyObject* enter(PyObject* self, PyObject* /*nothing*/) {
  return guarded([&] {
    lease_of<Lease>(self).check_live();
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

PyObject* release(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                  PyObject* keywords) {
  return guarded([&] {
    Stream stream;
    if (count != 0 || keywords != nullptr) {
      stream = only_stream({"release", arguments, count, keywords});
    }
    return PyBool_FromLong(lease_of<ReadLease>(self).release(stream) ? 1 : 0);
  });
}

PyObject* publish(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                  PyObject* keywords) {
  return guarded([&] {
    static constexpr std::array kParameters{"stream", "allow_pins"};
    std::array<PyObject*, 2> values{};
    FastCall{"publish", arguments, count, keywords}.bind(kParameters, 1, values);
    const Stream stream = to_stream(values[0]);
    const int allow_pins = values[1] == nullptr ? 0 : PyObject_IsTrue(values[1]);
    if (allow_pins < 0) throw py::error_already_set();
    return PyLong_FromUnsignedLongLong(lease_of<WriteLease>(self).publish(stream, allow_pins != 0));
  });
}

PyObject* drop(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
  return guarded([&] {
    Stream stream;
    if (count != 0 || keywords != nullptr) {
      stream = only_stream({"drop", arguments, count, keywords});
    }
    lease_of<WriteLease>(self).drop(stream);
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
    PyLease<Lease>& lease = lease_of<Lease>(self);
    const DLPackPlan plan =
        plan_export({object(0), object(1), object(2), object(3), false}, lease.dlpack_device());
    return make_capsule(lease.block(plan), plan).release().ptr();
  });
}

template <typename Lease>
PyObject* dlpack_device(PyObject* self, PyObject* /*nothing*/) {
  const DLDevice device = lease_of<Lease>(self).dlpack_device();
  return Py_BuildValue("(ii)", int{device.device_type}, device.device_id);
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
    const auto block = [object = py::reinterpret_borrow<py::object>(self)](const DLPackPlan& plan) {
      return lease_of<Lease>(object).block(plan);
    };
    const DLDevice device = lease_of<Lease>(self).dlpack_device();
    return py::cast(DLPackSource(block, device, readonly_ok != 0)).release().ptr();
  });
}

template <typename Lease>
PyObject* cuda_array(PyObject* self, PyObject* arguments, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    static constexpr const char* kNames[] = {"version", "host_wait", "no_stream", "readonly_ok",
                                             nullptr};
    CudaInterfaceOptions options;
    PyObject* host_wait = Py_None;
    PyObject* no_stream = Py_None;
    int readonly_ok = 0;
    if (PyArg_ParseTupleAndKeywords(arguments, keywords, "|$iOOp:cuda_array",
                                    const_cast<char**>(kNames), &options.version, &host_wait,
                                    &no_stream, &readonly_ok) == 0) {
      return nullptr;
    }
    if (options.version != 2 && options.version != 3) {
      throw Error(ErrorCode::InvalidArgument,
                  "version=" + std::to_string(options.version) +
                      " of the CUDA array interface is not known",
                  "give 3, or 2 for a library that refuses 3");
    }
    if (Py_IsNone(host_wait) == 0) options.host_wait = PyObject_IsTrue(host_wait) > 0;
    if (Py_IsNone(no_stream) == 0) options.no_stream = PyObject_IsTrue(no_stream) > 0;
    if (options.host_wait.value_or(false) && options.no_stream.value_or(false)) {
      throw Error(ErrorCode::InvalidArgument, "host_wait=True and no_stream=True contradict",
                  "give host_wait=True: it names no stream, and is safe");
    }
    options.readonly_ok = readonly_ok != 0;
    const auto make = [object = py::reinterpret_borrow<py::object>(self), options] {
      return lease_of<Lease>(object).cuda_interface(options);
    };
    return py::cast(CudaArraySource(make)).release().ptr();
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
    PyLease<WriteLease>& lease = lease_of<WriteLease>(self);
    if (key == Py_Ellipsis && value != nullptr && lease.fill(value)) return 0;
    PyObject* const numpy = lease.numpy().ptr();
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
  constexpr int kFast = METH_FASTCALL | METH_KEYWORDS;
  constexpr bool kReads = PyLease<Lease>::kReadonly;
  static PyMethodDef table[] = {
      {"__enter__", &enter<Lease>, METH_NOARGS, "__enter__($self, /)\n--\n\nThe lease itself."},
      {"__exit__", c_function(&exit<Lease>), METH_FASTCALL, kExitDoc},
      {"__array__", c_function(&array<Lease>), kKeywords, kArrayMethodDoc},
      {"__dlpack__", c_function(&dlpack_capsule<Lease>), kKeywords, kDLPackDoc},
      {"__dlpack_device__", &dlpack_device<Lease>, METH_NOARGS, kDLPackDeviceDoc},
      {"dlpack", c_function(&dlpack_source<Lease>), kKeywords, kDLPackMethodDoc},
      {"cuda_array", c_function(&cuda_array<Lease>), kKeywords, kCudaArrayDoc},
      kReads ? PyMethodDef{"release", c_function(&release), kFast, kReleaseDoc}
             : PyMethodDef{"drop", c_function(&drop), kFast, kDropDoc},
      kReads ? PyMethodDef{} : PyMethodDef{"publish", c_function(&publish), kFast, kPublishDoc},
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
       "NumPy's array interface, version 3; \"data\" is a buffer. Host arrays only.", nullptr},
      {"__cuda_array_interface__", &get_cuda_interface<Lease>, nullptr, kCudaInterfaceDoc, nullptr},
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
