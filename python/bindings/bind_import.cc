// Host arrays of others, taken over by DLPack: what put() copies from.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <vector>

#include "client/views/dlpack_view.h"
#include "python/bindings/bindings.h"

namespace memlease::python {
namespace {

// A tensor that its producer has handed over; gives it back when it dies.
template <typename Tensor>
struct Owned {
  explicit Owned(Tensor* taken) : tensor(taken) {}
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (tensor->deleter != nullptr) tensor->deleter(tensor);
  }
  Tensor* tensor;
};

using Arguments = std::vector<std::pair<const char*, py::object>>;

// Asks for all that we know of, and after a TypeError, which means "unknown argument", for less.
// `stream` is always given: producers' defaults differ.
py::capsule ask(const py::object& producer) {
  const py::object method = producer.attr("__dlpack__");
  const std::vector<Arguments> attempts = {
      {{"stream", py::none()},
       {"max_version", py::make_tuple(DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION)},
       {"dl_device", py::none()},
       {"copy", py::none()}},
      {{"stream", py::none()}, {"dl_device", py::none()}, {"copy", py::none()}},
      {{"stream", py::none()}},
  };
  for (const Arguments& attempt : attempts) {
    const py::dict keywords;  // constant is the reference, not what it names
    for (const auto& [name, value] : attempt) keywords[name] = value;
    try {
      return method(**keywords);
    } catch (const py::error_already_set& error) {
      if (!error.matches(PyExc_TypeError)) throw;
    }
  }
  return method();
}

// The elements in host memory, as a NumPy array of dtype V<itemsize> that owns `owner`.
py::tuple describe(const DLTensor& tensor, const py::capsule& owner) {
  const auto code = static_cast<std::uint8_t>(tensor.dtype.code);
  const DType dtype{code, tensor.dtype.bits, tensor.dtype.lanes};
  const std::string name = name_of(dtype);
  if (dtype.bits % 8 != 0 || name == "unknown") {
    throw Error(ErrorCode::Unsupported,
                "memlease has no element type of DLPack's code " + std::to_string(code) + ", " +
                    std::to_string(dtype.bits) + " bits and " + std::to_string(dtype.lanes) +
                    " lanes",
                "convert it to one of the dtypes that memlease.dtypes() lists");
  }
  const auto itemsize = static_cast<py::ssize_t>(dtype.itemsize_bytes());
  const std::vector<py::ssize_t> shape(tensor.shape, tensor.shape + tensor.ndim);
  std::vector<py::ssize_t> strides(shape.size());
  py::ssize_t compact = itemsize;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = tensor.strides == nullptr ? compact : tensor.strides[i] * itemsize;
    compact *= shape[i];
  }
  const char* const first = static_cast<const char*>(tensor.data) + tensor.byte_offset;
  const py::dtype raw("V" + std::to_string(itemsize));
  if (tensor.data == nullptr) return py::make_tuple(name, py::array(raw, shape));
  return py::make_tuple(name, py::array(raw, shape, strides, first, owner));
}

template <typename Tensor>
py::tuple take_over(const py::capsule& capsule, const char* name, const char* used_name) {
  auto* const tensor = static_cast<Tensor*>(PyCapsule_GetPointer(capsule.ptr(), name));
  if (tensor == nullptr || PyCapsule_SetName(capsule.ptr(), used_name) != 0) {
    throw py::error_already_set();
  }
  auto owned = std::make_unique<Owned<Tensor>>(tensor);
  if constexpr (std::is_same_v<Tensor, DLManagedTensorVersioned>) {
    if (tensor->version.major != DLPACK_MAJOR_VERSION) {
      throw py::buffer_error("memlease knows DLPack " + std::to_string(DLPACK_MAJOR_VERSION) +
                             ".x, and the producer sent version " +
                             std::to_string(tensor->version.major));
    }
  }
  const py::capsule owner(owned.get(), [](void* p) { delete static_cast<Owned<Tensor>*>(p); });
  return describe(owned.release()->tensor->dl_tensor, owner);
}

py::tuple import_dlpack(const py::object& producer) {
  const py::tuple device = producer.attr("__dlpack_device__")();
  const int type = device[0].cast<py::int_>().cast<int>();
  if (type != kDLCPU && type != kDLCUDAHost && type != kDLROCMHost) {
    throw Error(ErrorCode::Unsupported,
                "the source is on a device (DLPack type " + std::to_string(type) +
                    "), and put takes only host memory",
                "copy it to the host first, as tensor.cpu(); or into a GPU array on the GPU, as "
                "torch.from_dlpack(lease).copy_(tensor) in write()");
  }
  const py::capsule capsule = ask(producer);
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned") != 0) {
    return take_over<DLManagedTensorVersioned>(capsule, "dltensor_versioned",
                                               "used_dltensor_versioned");
  }
  return take_over<DLManagedTensor>(capsule, "dltensor", "used_dltensor");
}

}  // namespace

void bind_imports(py::module_& module) {
  module.def("import_dlpack", &import_dlpack, py::arg("producer"),
             "(dtype's name, NumPy array of dtype V<itemsize>) over a host array's memory.");
}

}  // namespace memlease::python
