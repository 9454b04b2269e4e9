#include "python/bindings/dlpack_capsule.h"

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

void check_stream(const py::object& stream) {
  if (stream.is_none()) return;
  if (!py::isinstance<py::int_>(stream)) {
    throw py::type_error("__dlpack__: stream must be None or an int");
  }
  if (!stream.equal(py::int_(-1))) {
    throw py::value_error("__dlpack__: host memory has no streams: give stream=None or -1");
  }
}

void check_device(const py::object& device) {
  if (device.is_none()) return;
  const auto [type, id] = to_pair(device, "dl_device");
  if (type != kDLCPU || id != 0) {
    throw py::buffer_error(
        "__dlpack__: the array is in host memory, (1, 0), and memlease copies to "
        "no other device; copy it there with the framework");
  }
}

bool wants_copy(const py::object& copy) {
  if (copy.is_none()) return false;
  if (!py::isinstance<py::bool_>(copy)) {
    throw py::type_error("__dlpack__: copy must be None or a bool");
  }
  return copy.cast<bool>();
}

}  // namespace

py::capsule make_capsule(views::HostBlock block, const DLPackRequest& request) {
  check_stream(request.stream);
  check_device(request.dl_device);
  const bool versioned =
      !request.max_version.is_none() && to_pair(request.max_version, "max_version").first >= 1;
  if (wants_copy(request.copy)) {
    block = without_gil([&] { return views::copy_of(block); });
  }
  try {
    if (versioned) {
      return to_capsule(views::export_versioned(std::move(block)), kVersionedName,
                        &destroy_versioned);
    }
    if (block.readonly && !request.readonly_ok) {
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

void bind_dlpack(py::module_& module) {
  py::class_<DLPackSource>(module, "DLPackSource", "A lease for DLPack consumers, with options.")
      .def(
          "__dlpack__",
          [](const DLPackSource& self, py::object stream, py::object max_version,
             py::object dl_device, py::object copy) {
            return make_capsule(self.block(),
                                {std::move(stream), std::move(max_version), std::move(dl_device),
                                 std::move(copy), self.readonly_ok()});
          },
          "As a lease's `__dlpack__`.", py::kw_only(), py::arg("stream") = py::none(),
          py::arg("max_version") = py::none(), py::arg("dl_device") = py::none(),
          py::arg("copy") = py::none())
      .def(
          "__dlpack_device__", [](const DLPackSource&) { return py::make_tuple(int{kDLCPU}, 0); },
          "(1, 0): kDLCPU.");
}

}  // namespace memlease::python
