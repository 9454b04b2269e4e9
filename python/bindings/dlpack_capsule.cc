#include "python/bindings/dlpack_capsule.h"

#include <optional>
#include <string>
#include <utility>

namespace memlease::python {
namespace {

// PyCapsule keeps the pointer to its name: static names. Consumers rename what they take over.
constexpr const char* kVersionedName = "dltensor_versioned";
constexpr const char* kUnversionedName = "dltensor";

// Frees a tensor that nobody has taken over. Destructors run with an exception pending at times.
template <typename Tensor>
void destroy_unused(PyObject* capsule, const char* name) {
  if (PyCapsule_IsValid(capsule, name) == 0) return;
  const py::error_scope pending;
  auto* const tensor = static_cast<Tensor*>(PyCapsule_GetPointer(capsule, name));
  tensor->deleter(tensor);
}

void destroy_versioned(PyObject* capsule) {
  destroy_unused<DLManagedTensorVersioned>(capsule, kVersionedName);
}
void destroy_unversioned(PyObject* capsule) {
  destroy_unused<DLManagedTensor>(capsule, kUnversionedName);
}

template <typename Tensor>
py::capsule to_capsule(Tensor* tensor, const char* name, PyCapsule_Destructor destructor) {
  PyObject* const capsule = PyCapsule_New(tensor, name, destructor);
  if (capsule == nullptr) {
    tensor->deleter(tensor);
    throw py::error_already_set();
  }
  return py::reinterpret_steal<py::capsule>(capsule);
}

// A pair of integers, or TypeError naming the argument.
std::pair<long, long> to_pair(const py::object& object, const char* argument) {
  if (py::isinstance<py::tuple>(object) && py::len(object) == 2) {
    const py::tuple tuple = object;
    if (PyIndex_Check(tuple[0].ptr()) != 0 && PyIndex_Check(tuple[1].ptr()) != 0) {
      return {tuple[0].cast<long>(), tuple[1].cast<long>()};
    }
  }
  throw py::type_error(std::string("__dlpack__: ") + argument + " must be None or (int, int)");
}

Stream host_stream(const py::int_& stream) {
  if (stream.equal(py::int_(-1))) return {};
  throw py::value_error("__dlpack__: host memory has no streams: give stream=None or -1");
}

// None means the legacy stream, and -1 that the consumer sees to the order.
Stream device_stream(const py::object& stream) {
  constexpr std::uintptr_t kLegacy = 1;
  if (stream.is_none()) return Stream::from_handle(kLegacy);
  if (stream.equal(py::int_(-1))) return {};
  int overflow = 0;
  const long long handle = PyLong_AsLongLongAndOverflow(stream.ptr(), &overflow);
  if (overflow == 0 && handle > 0) return Stream::from_handle(static_cast<std::uintptr_t>(handle));
  throw py::value_error("__dlpack__: stream=" + std::string(py::repr(stream)) +
                        " is not a CUDA stream: give None or 1 for the legacy stream, 2 for the "
                        "thread's, a stream's handle, or -1; 0 is ambiguous");
}

Stream to_stream(const py::object& stream, DLDevice device) {
  if (!stream.is_none() && !py::isinstance<py::int_>(stream)) {
    throw py::type_error("__dlpack__: stream must be None or an int");
  }
  if (device.device_type == kDLCUDA) return device_stream(stream);
  return stream.is_none() ? Stream() : host_stream(stream);
}

// True if the elements are asked for in the host's memory and are not there.
bool wants_host(const py::object& wanted, DLDevice device) {
  if (wanted.is_none()) return false;
  const auto [type, id] = to_pair(wanted, "dl_device");
  if (type == device.device_type && id == device.device_id) return false;
  if (type == kDLCPU && id == 0) return true;
  throw py::buffer_error(
      "__dlpack__: the array is on device (" + std::to_string(int{device.device_type}) + ", " +
      std::to_string(device.device_id) +
      "), and memlease copies to no other device than the host; copy it there with the framework");
}

std::optional<bool> wants_copy(const py::object& copy) {
  if (copy.is_none()) return std::nullopt;
  if (!py::isinstance<py::bool_>(copy)) {
    throw py::type_error("__dlpack__: copy must be None or a bool");
  }
  return copy.cast<bool>();
}

}  // namespace

DLPackPlan plan_export(const DLPackRequest& request, DLDevice device) {
  DLPackPlan plan;
  plan.to_host = wants_host(request.dl_device, device);
  plan.stream = to_stream(request.stream, plan.to_host ? DLDevice{kDLCPU, 0} : device);
  plan.versioned =
      !request.max_version.is_none() && to_pair(request.max_version, "max_version").first >= 1;
  plan.readonly_ok = request.readonly_ok;
  const std::optional<bool> copy = wants_copy(request.copy);
  if (plan.to_host && copy == false) {
    throw py::buffer_error("__dlpack__: without a copy the host cannot have what is on a GPU");
  }
  if (device.device_type == kDLCUDA && !plan.to_host && copy == true) {
    throw py::buffer_error(
        "__dlpack__: memlease makes no copies on a GPU; take it without copy=True, and copy it "
        "with the framework");
  }
  plan.copy = copy == true && !plan.to_host;
  return plan;
}

py::capsule make_capsule(views::Block block, const DLPackPlan& plan) {
  if (plan.copy) {
    block = without_gil([&] { return views::copy_of(block); });
  }
  try {
    if (plan.versioned) {
      return to_capsule(views::export_versioned(std::move(block)), kVersionedName,
                        &destroy_versioned);
    }
    // The host's memory defends itself: who writes by a read lease's mapping ends the process.
    const bool is_guarded = block.device.device_type == kDLCPU;
    if (block.readonly && !is_guarded && !plan.readonly_ok) {
      throw py::buffer_error(
          "__dlpack__: the lease is for reading, and this consumer takes only the unversioned "
          "DLPack, which cannot say so. If nothing will write through it, give it "
          "lease.dlpack(readonly_ok=True) instead of the lease");
    }
    return to_capsule(views::export_unversioned(std::move(block)), kUnversionedName,
                      &destroy_unversioned);
  } catch (const Error& error) {
    throw py::buffer_error(error.what());
  }
}

py::capsule DLPackSource::capsule(DLPackRequest request) const {
  request.readonly_ok = readonly_ok_;
  const DLPackPlan plan = plan_export(request, device_);
  return make_capsule(block_(plan), plan);
}

void bind_dlpack(py::module_& module) {
  py::class_<DLPackSource>(module, "DLPackSource", "A lease for DLPack consumers, with options.")
      .def(
          "__dlpack__",
          [](const DLPackSource& self, py::object stream, py::object max_version,
             py::object dl_device, py::object copy) {
            return self.capsule({std::move(stream), std::move(max_version), std::move(dl_device),
                                 std::move(copy), false});
          },
          "As a lease's `__dlpack__`.", py::kw_only(), py::arg("stream") = py::none(),
          py::arg("max_version") = py::none(), py::arg("dl_device") = py::none(),
          py::arg("copy") = py::none())
      .def(
          "__dlpack_device__",
          [](const DLPackSource& self) {
            return py::make_tuple(int{self.device().device_type}, self.device().device_id);
          },
          "As a lease's `__dlpack_device__`.");
}

}  // namespace memlease::python
