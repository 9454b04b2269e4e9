// The types ReadLease and WriteLease.
#include <Python.h>
#include <structmember.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <string_view>
#include <vector>

#include "python/bindings/cuda_array.h"
#include "python/bindings/dlpack_capsule.h"
#include "python/bindings/fastcall.h"
#include "python/bindings/lease.h"
#include "python/bindings/lease_attributes.h"
#include "python/bindings/lease_docs.h"
#include "python/bindings/lease_functions.h"
#include "python/bindings/lease_numbers.h"
#include "python/bindings/lease_sequence.h"
#include "python/bindings/package_parts.h"

namespace memlease::python {
namespace {

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

bool is_true(PyObject* value) {
  const int truth = PyObject_IsTrue(value);
  if (truth < 0) throw py::error_already_set();
  return truth != 0;
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

// JAX asks for it before __cuda_array_interface__, whose streams it does not know.
template <typename Lease>
PyObject* get_jax_array(PyObject* self, void* /*closure*/) {
  return guarded([&] {
    if (!lease_of<Lease>(self).array().on_device()) {
      throw py::attribute_error("__jax_array__: JAX takes arrays in host memory as NumPy's");
    }
    return package_parts().jax_array(py::handle(self)).release().ptr();
  });
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

// Nothing in it waits, at its end; what may wait is its beginning.
template <typename Lease>
PyObject* refuse_async(PyObject* /*self*/, PyObject* /*arguments*/) {
  constexpr bool kReads = PyLease<Lease>::kReadonly;
  PyErr_SetString(PyExc_TypeError,
                  kReads
                      ? "a lease takes `with`, not `async with`; to wait in asyncio's loop for it: "
                        "async with array.read_async() as lease"
                      : "a lease takes `with`, not `async with`; array.write(wait=0) does not wait "
                        "for a free slot");
  return nullptr;
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
    Stream stream;
    if (count != 0 || keywords != nullptr) {
      stream = only_stream({"publish", arguments, count, keywords});
    }
    return PyLong_FromUnsignedLongLong(lease_of<WriteLease>(self).publish(stream));
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
    const py::object elements = lease_of<Lease>(self).numpy();
    if (dtype == Py_None && (copy == Py_None || copy == Py_False)) {
      return Py_NewRef(elements.ptr());
    }
    const py::object made = py::module_::import("numpy").attr("array")(
        elements, py::arg("dtype") = py::handle(dtype), py::arg("copy") = py::handle(copy));
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
      throw InvalidArgument("version=" + std::to_string(options.version) +
                                " of the CUDA array interface is not known",
                            "give 3, or 2 for a library that refuses 3");
    }
    if (Py_IsNone(host_wait) == 0) options.host_wait = is_true(host_wait);
    if (Py_IsNone(no_stream) == 0) options.no_stream = is_true(no_stream);
    if (options.host_wait.value_or(false) && options.no_stream.value_or(false)) {
      throw InvalidArgument("host_wait=True and no_stream=True contradict",
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
PyObject* sycl_usm(PyObject* self, PyObject* arguments, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    static constexpr const char* kNames[] = {"syclobj", "usm_type", "copy", nullptr};
    PyObject* syclobj = nullptr;
    PyObject* usm_type = nullptr;
    PyObject* copy = Py_None;
    if (PyArg_ParseTupleAndKeywords(arguments, keywords, "O|$OO:sycl_usm",
                                    const_cast<char**>(kNames), &syclobj, &usm_type, &copy) == 0) {
      return nullptr;
    }
    const py::object type =
        usm_type == nullptr ? py::str("shared") : py::reinterpret_borrow<py::object>(usm_type);
    return lease_of<Lease>(self).export_usm(self, syclobj, type, copy).release().ptr();
  });
}

template <typename Lease>
PyObject* repr(PyObject* self) {
  return guarded([&] { return PyUnicode_FromString(lease_of<Lease>(self).repr().c_str()); });
}

template <typename Lease>
PyObject* get_item(PyObject* self, PyObject* key) {
  return guarded([&] { return PyObject_GetItem(lease_of<Lease>(self).elements().ptr(), key); });
}

// For iteration.
template <typename Lease>
PyObject* get_row(PyObject* self, Py_ssize_t index) {
  return guarded([&] { return PySequence_GetItem(lease_of<Lease>(self).elements().ptr(), index); });
}

int set_item(PyObject* self, PyObject* key, PyObject* value) {
  return guarded([&] {
    refuse_mask(value);
    lease_of<WriteLease>(self).assign(key, value);
    return 0;
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
PyObject* make_memoryview(PyObject* self, PyObject* /*nothing*/) {
  return guarded([&]() -> PyObject* {
    const auto fill = [object = py::reinterpret_borrow<py::object>(self)](
                          py::handle exporter, Py_buffer* buffer, int flags) {
      lease_of<Lease>(object).fill_buffer(exporter, buffer, flags);
    };
    return PyMemoryView_FromObject(py::cast(LeaseBuffer{fill}).ptr());
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
      {"__aenter__", &refuse_async<Lease>, METH_NOARGS, "TypeError: `with` is enough."},
      {"__aexit__", &refuse_async<Lease>, METH_VARARGS, "TypeError: `with` is enough."},
      {"__array__", c_function(&array<Lease>), kKeywords, kArrayMethodDoc},
      {"__array_ufunc__", c_function(&call_ufunc), kKeywords,
       "NumPy's functions take the lease's array, also as ``out``."},
      {"__bytes__", &to_bytes<Lease>, METH_NOARGS, "A copy of the elements in C order."},
      {"__format__", &format<Lease>, METH_O,
       "As NumPy formats the elements; without a format, str."},
      {"__copy__", &copy_elements<Lease>, METH_NOARGS, "A NumPy array of one's own, as `copy()`."},
      {"__deepcopy__", &copy_elements<Lease>, METH_O, "A NumPy array of one's own, as `copy()`."},
      {"__reduce_ex__", &refuse_pickle, METH_O, "TypeError: a lease belongs to its process."},
      {"__dlpack__", c_function(&dlpack_capsule<Lease>), kKeywords, kDLPackDoc},
      {"__dlpack_device__", &dlpack_device<Lease>, METH_NOARGS, kDLPackDeviceDoc},
      {"memoryview", &make_memoryview<Lease>, METH_NOARGS, kMemoryviewDoc},
      {"dlpack", c_function(&dlpack_source<Lease>), kKeywords, kDLPackMethodDoc},
      {"cuda_array", c_function(&cuda_array<Lease>), kKeywords, kCudaArrayDoc},
      {"sycl_usm", c_function(&sycl_usm<Lease>), kKeywords, kSyclUsmDoc},
      kReads ? PyMethodDef{"release", c_function(&release), kFast, kReleaseDoc}
             : PyMethodDef{"drop", c_function(&drop), kFast, kDropDoc},
      kReads ? PyMethodDef{} : PyMethodDef{"publish", c_function(&publish), kFast, kPublishDoc},
      kReads ? PyMethodDef{}
             : PyMethodDef{"__array_function__", c_function(&call_function), METH_FASTCALL,
                           "Functions of NumPy take the lease's array."},
      {}};
  return table;
}

PyObject* pandas_priority(PyObject* /*self*/, void* /*closure*/) {
  constexpr long kAboveDataFrames = 5000;
  return PyLong_FromLong(kAboveDataFrames);
}

template <typename Lease>
PyGetSetDef* properties() {
  using Inside = PyLease<Lease>;
  static std::vector<PyGetSetDef> table = {
      {"__pandas_priority__", &pandas_priority, nullptr,
       "Above that of pandas' own: what stands on the left asks the lease.", nullptr},
      {"version", &get<Lease, &Inside::version>, nullptr, "Number of the version: 1, 2, 3, ...",
       nullptr},
      {"slot", &get<Lease, &Inside::slot>, nullptr, "Index of the slot that holds it.", nullptr},
      {"shape", &get<Lease, &Inside::shape>, nullptr,
       "Extents: the array's, or those of the region that the lease shows.", nullptr},
      {"ndim", &get_ndim<Lease>, nullptr, "Number of axes.", nullptr},
      {"size", &get_size<Lease>, nullptr, "Number of elements.", nullptr},
      {"nbytes", &get_nbytes<Lease>, nullptr, "Bytes of all elements, without gaps.", nullptr},
      {"dtype", &get_dtype<Lease>, nullptr, "Element type, as of the array.", nullptr},
      {"dtype_name", &get<Lease, &Inside::dtype>, nullptr,
       "Name of the element type, such as 'float32' or 'bfloat16'.", nullptr},
      {"array", &get<Lease, &Inside::array_attribute>, &set_array<Lease>, kArrayDoc, nullptr},
      {"__cuda_array_interface__", &get_cuda_interface<Lease>, nullptr, kCudaInterfaceDoc, nullptr},
      {"__jax_array__", &get_jax_array<Lease>, nullptr,
       "What `jnp.asarray` calls: arrays on a GPU only, else AttributeError.", nullptr},
      {Inside::kReadonly ? "released" : "ended", &get<Lease, &Inside::ended>, nullptr,
       Inside::kReadonly ? "True once the lease has ended."
                         : "True once it is published or dropped.",
       nullptr},
  };
  if (table.back().name == nullptr) return table.data();
  for (const char* const name : kOfArray) {
    table.push_back(
        {name, &get_of_array<Lease>, nullptr, "As of `array`, NumPy's.", const_cast<char*>(name)});
  }
  // NumPy prefers it, and a buffer, to __array__, which alone gives the array that publish() can
  // make read-only: a write lease has neither.
  if constexpr (Inside::kReadonly) {
    table.push_back({"__array_interface__", &get<Lease, &Inside::interface>, nullptr,
                     "NumPy's array interface, version 3; \"data\" is a buffer. Host arrays only.",
                     nullptr});
  } else {
    for (const char* const name : kInPlace) {
      table.push_back({name, &get_of_array<Lease>, nullptr, "As of `array`, NumPy's.",
                       const_cast<char*>(name)});
    }
    for (PyGetSetDef& one : table) {
      const auto is_this = [&](const char* name) { return std::string_view(name) == one.name; };
      if (std::any_of(kAssignable.begin(), kAssignable.end(), is_this)) one.set = &set_of_array;
    }
  }
  table.push_back({});
  return table.data();
}

// Arithmetic with a lease is that of its elements.
std::vector<PyType_Slot> number_slots() {
  return {
      {Py_nb_int, slot(&unary<PyNumber_Long>)},
      {Py_nb_float, slot(&unary<PyNumber_Float>)},
      {Py_nb_index, slot(&unary<PyNumber_Index>)},
      {Py_nb_negative, slot(&unary<PyNumber_Negative>)},
      {Py_nb_positive, slot(&unary<PyNumber_Positive>)},
      {Py_nb_absolute, slot(&unary<PyNumber_Absolute>)},
      {Py_nb_add, slot(&binary<PyNumber_Add>)},
      {Py_nb_subtract, slot(&binary<PyNumber_Subtract>)},
      {Py_nb_multiply, slot(&binary<PyNumber_Multiply>)},
      {Py_nb_matrix_multiply, slot(&binary<PyNumber_MatrixMultiply>)},
      {Py_nb_true_divide, slot(&binary<PyNumber_TrueDivide>)},
      {Py_nb_floor_divide, slot(&binary<PyNumber_FloorDivide>)},
      {Py_nb_remainder, slot(&binary<PyNumber_Remainder>)},
      {Py_nb_divmod, slot(&binary<PyNumber_Divmod>)},
      {Py_nb_power, slot(&power)},
      {Py_nb_invert, slot(&unary<PyNumber_Invert>)},
      {Py_nb_and, slot(&binary<PyNumber_And>)},
      {Py_nb_or, slot(&binary<PyNumber_Or>)},
      {Py_nb_xor, slot(&binary<PyNumber_Xor>)},
      {Py_nb_lshift, slot(&binary<PyNumber_Lshift>)},
      {Py_nb_rshift, slot(&binary<PyNumber_Rshift>)},
      {Py_nb_inplace_add, slot(&in_place<PyNumber_InPlaceAdd>)},
      {Py_nb_inplace_subtract, slot(&in_place<PyNumber_InPlaceSubtract>)},
      {Py_nb_inplace_multiply, slot(&in_place<PyNumber_InPlaceMultiply>)},
      {Py_nb_inplace_matrix_multiply, slot(&in_place<PyNumber_InPlaceMatrixMultiply>)},
      {Py_nb_inplace_true_divide, slot(&in_place<PyNumber_InPlaceTrueDivide>)},
      {Py_nb_inplace_floor_divide, slot(&in_place<PyNumber_InPlaceFloorDivide>)},
      {Py_nb_inplace_remainder, slot(&in_place<PyNumber_InPlaceRemainder>)},
      {Py_nb_inplace_power, slot(&power_in_place)},
      {Py_nb_inplace_and, slot(&in_place<PyNumber_InPlaceAnd>)},
      {Py_nb_inplace_or, slot(&in_place<PyNumber_InPlaceOr>)},
      {Py_nb_inplace_xor, slot(&in_place<PyNumber_InPlaceXor>)},
      {Py_nb_inplace_lshift, slot(&in_place<PyNumber_InPlaceLshift>)},
      {Py_nb_inplace_rshift, slot(&in_place<PyNumber_InPlaceRshift>)},
  };
}

template <typename Lease>
std::vector<PyType_Slot> lease_slots(const char* doc) {
  static PyMemberDef members[] = {
      {"__weaklistoffset__", T_PYSSIZET, offsetof(LeaseHead, weak_references), READONLY, nullptr},
      {}};
  std::vector<PyType_Slot> slots = number_slots();
  const PyType_Slot of_lease[] = {
      {Py_tp_doc, const_cast<char*>(doc)},
      {Py_tp_dealloc, slot(&destroy<Lease>)},
      {Py_tp_members, members},
      {Py_tp_methods, methods<Lease>()},
      {Py_tp_getset, properties<Lease>()},
      {Py_tp_repr, slot(&repr<Lease>)},
      {Py_tp_iter, slot(&iterate)},
      {Py_tp_richcompare, slot(&compare)},
      {Py_tp_hash, slot(&identity_hash)},
      {Py_nb_bool, slot(&truth<Lease>)},
      {Py_mp_length, slot(&length<Lease>)},
      {Py_sq_length, slot(&length<Lease>)},
      {Py_mp_subscript, slot(&get_item<Lease>)},
      {Py_sq_item, slot(&get_row<Lease>)},
      {Py_sq_contains, slot(&contains)},
  };
  slots.insert(slots.end(), std::begin(of_lease), std::end(of_lease));
  if constexpr (PyLease<Lease>::kReadonly) {
    slots.push_back({Py_bf_getbuffer, slot(&get_buffer<Lease>)});
    slots.push_back({Py_bf_releasebuffer, slot(&release_buffer)});
    slots.push_back({Py_mp_ass_subscript, slot(&refuse_item)});
  } else {
    slots.push_back({Py_bf_getbuffer, slot(&refuse_buffer)});
    slots.push_back({Py_mp_ass_subscript, slot(&set_item)});
  }
  slots.push_back({});
  return slots;
}

template <typename Lease>
void bind_lease(py::module_& module, const char* name, const char* doc) {
  std::vector<PyType_Slot> slots = lease_slots<Lease>(doc);
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
