// Arrays of others, taken over by DLPack: what put() copies from.
#include <optional>
#include <vector>

#include "client/views/dlpack_view.h"
#include "python/bindings/fastcall.h"
#include "python/bindings/gpu_source.h"
#include "python/bindings/numpy_array.h"

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

bool is_known(int device_type) {
  return device_type == kDLCPU || device_type == kDLCUDA || device_type == kDLCUDAHost ||
         device_type == kDLROCMHost;
}

// Where a producer is to make its elements ready.
struct Wanted {
  py::object stream;  // as __dlpack__ takes it
  Stream copies_on;   // none: of the host, or the caller answers for the order
};

using Arguments = std::vector<std::pair<const char*, py::object>>;

// Asks for all that we know of, and after a TypeError, which means "unknown argument",
// for less. `stream` is always given: producers' defaults differ, and PyTorch's is not to wait.
// Only of a host array it may go at last.
py::capsule ask(const py::object& producer, const py::object& stream) {
  const py::object method = producer.attr("__dlpack__");
  std::vector<Arguments> attempts = {
      {{"stream", stream},
       {"max_version", py::make_tuple(DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION)},
       {"dl_device", py::none()},
       {"copy", py::none()}},
      {{"stream", stream}, {"dl_device", py::none()}, {"copy", py::none()}},
      {{"stream", stream}},
  };
  if (stream.is_none()) attempts.emplace_back();
  for (std::size_t i = 0;; ++i) {
    const py::dict keywords;  // constant is the reference, not what it names
    for (const auto& [name, value] : attempts[i]) keywords[name] = value;
    try {
      return method(**keywords);
    } catch (const py::error_already_set& error) {
      if (!error.matches(PyExc_TypeError) || i + 1 == attempts.size()) throw;
    }
  }
}

std::string dtype_of(const DLTensor& tensor) {
  const auto code = static_cast<std::uint8_t>(tensor.dtype.code);
  const DType dtype{code, tensor.dtype.bits, tensor.dtype.lanes};
  const std::string name = name_of(dtype);
  if (dtype.bits % 8 == 0 && name != "unknown") return name;
  throw Unsupported("memlease has no element type of DLPack's code " + std::to_string(code) + ", " +
                        std::to_string(dtype.bits) + " bits and " + std::to_string(dtype.lanes) +
                        " lanes",
                    "convert it first, as by tensor.to(torch.float32)");
}

[[noreturn]] void refuse(const std::string& what) {
  throw InvalidArgument("the source's DLPack tensor has " + what, "correct its producer");
}

// Can it be what it says of itself? That its memory is there is the producer's word.
void require_possible(const DLTensor& tensor, std::int64_t itemsize) {
  constexpr int kMostAxes = 64;  // as NumPy
  if (tensor.ndim < 0 || tensor.ndim > kMostAxes) {
    refuse(std::to_string(tensor.ndim) + " axes, and can have 0 to " + std::to_string(kMostAxes));
  }
  if (tensor.ndim > 0 && tensor.shape == nullptr) {
    refuse("no shape and " + std::to_string(tensor.ndim) + " axes");
  }
  bool empty = false;
  std::int64_t bytes = itemsize;
  for (int i = 0; i < tensor.ndim; ++i) {
    const std::int64_t extent = tensor.shape[i];
    std::int64_t reach = 0;
    empty = empty || extent == 0;
    if (extent < 0 || (extent > 0 && __builtin_mul_overflow(bytes, extent, &bytes))) {
      refuse("an impossible shape, with " + std::to_string(extent) + " on axis " +
             std::to_string(i));
    }
    if (tensor.strides != nullptr && extent > 1 &&
        (__builtin_mul_overflow(tensor.strides[i], itemsize, &reach) ||
         __builtin_mul_overflow(reach, extent - 1, &reach))) {
      refuse("impossible strides, with " + std::to_string(tensor.strides[i]) + " on axis " +
             std::to_string(i));
    }
  }
  if (tensor.data == nullptr && !empty) refuse("elements and no memory");
}

// In bytes; no strides mean C order.
std::vector<std::int64_t> tensor_strides(const DLTensor& tensor, std::int64_t itemsize) {
  std::vector<std::int64_t> strides(static_cast<std::size_t>(tensor.ndim));
  std::int64_t compact = itemsize;
  for (std::size_t i = strides.size(); i-- > 0;) {
    // Of an axis with one element or none the stride means nothing.
    const bool is_compact = tensor.strides == nullptr || tensor.shape[i] <= 1;
    strides[i] = is_compact ? compact : tensor.strides[i] * itemsize;
    compact *= tensor.shape[i];
  }
  return strides;
}

// On the host: a NumPy array of dtype V<itemsize> that owns `owner`. The offset counts.
py::tuple describe(const DLTensor& tensor, const py::capsule& owner, const Wanted& wanted) {
  const std::string name = dtype_of(tensor);
  const auto itemsize = static_cast<std::int64_t>(parse_dtype(name).itemsize_bytes());
  require_possible(tensor, itemsize);
  const std::vector<std::int64_t> shape(tensor.shape, tensor.shape + tensor.ndim);
  const std::vector<std::int64_t> strides = tensor_strides(tensor, itemsize);
  const char* const first = static_cast<const char*>(tensor.data) + tensor.byte_offset;
  if (tensor.device.device_type == kDLCUDA) {
    return py::make_tuple(
        name, PyGpuSource{name, shape, {first, strides, wanted.copies_on, keep_alive(owner)}});
  }
  const py::module_ numpy = py::module_::import("numpy");
  const py::object raw = numpy.attr("dtype")("V" + std::to_string(itemsize));
  if (tensor.data == nullptr) return py::make_tuple(name, numpy.attr("empty")(shape, raw));
  return py::make_tuple(name, numpy_array(raw, shape, strides, first, owner));
}

template <typename Tensor>
py::tuple take_over(const py::capsule& capsule, const char* name, const char* used_name,
                    DLDevice device, const Wanted& wanted) {
  auto* const tensor = static_cast<Tensor*>(PyCapsule_GetPointer(capsule.ptr(), name));
  if (tensor == nullptr || PyCapsule_SetName(capsule.ptr(), used_name) != 0) {
    throw py::error_already_set();
  }
  auto owned = std::make_unique<Owned<Tensor>>(tensor);
  // Only the version and the deleter are at places that we know.
  if constexpr (std::is_same_v<Tensor, DLManagedTensorVersioned>) {
    if (tensor->version.major != DLPACK_MAJOR_VERSION) {
      throw py::buffer_error("memlease knows DLPack " + std::to_string(DLPACK_MAJOR_VERSION) +
                             ".x, and the producer sent version " +
                             std::to_string(tensor->version.major));
    }
  }
  const DLDevice found = tensor->dl_tensor.device;
  if (!is_known(found.device_type) ||
      (found.device_type == kDLCUDA) != (device.device_type == kDLCUDA)) {
    throw py::buffer_error(
        "__dlpack__: the producer says that it is on a device of DLPack's type " +
        std::to_string(int{device.device_type}) + " and sent a tensor on one of type " +
        std::to_string(int{found.device_type}));
  }
  const py::capsule owner(owned.get(), [](void* p) { delete static_cast<Owned<Tensor>*>(p); });
  return describe(owned.release()->tensor->dl_tensor, owner, wanted);
}

DLDevice device_of(const py::object& producer) {
  const py::tuple device = producer.attr("__dlpack_device__")();
  const auto number = [&](int i) { return device[i].cast<py::int_>().cast<int>(); };
  const int type = number(0);
  if (!is_known(type)) {
    throw Unsupported("the source is on a device (DLPack type " + std::to_string(type) +
                          "), and put takes the host's memory and CUDA's",
                      "copy it to the host first, as by tensor.cpu()");
  }
  return {static_cast<DLDeviceType>(type), number(1)};
}

Wanted wanted_on(DLDevice device, const py::object& stream, bool ignore_stream) {
  if (device.device_type != kDLCUDA) return {py::none(), {}};
  const Stream given = to_stream(stream.is_none() ? nullptr : stream.ptr());
  const Stream on = stream_on(device.device_id, given);
  if (ignore_stream) return {py::int_(-1), {}};
  return {py::int_(on.handle()), on};
}

py::tuple import_dlpack(const py::object& producer, const py::object& stream, bool ignore_stream) {
  const DLDevice device = device_of(producer);
  const Wanted wanted = wanted_on(device, stream, ignore_stream);
  const py::capsule capsule = ask(producer, wanted.stream);
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned") != 0) {
    return take_over<DLManagedTensorVersioned>(capsule, "dltensor_versioned",
                                               "used_dltensor_versioned", device, wanted);
  }
  return take_over<DLManagedTensor>(capsule, "dltensor", "used_dltensor", device, wanted);
}

PyGpuSource gpu_source(const std::string& dtype, std::vector<std::int64_t> shape,
                       std::vector<std::int64_t> strides, std::uintptr_t data,
                       std::optional<std::uintptr_t> stream, py::object owner) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the array interface has addresses as numbers
  const auto* const first = reinterpret_cast<const void*>(data);
  return {dtype,
          std::move(shape),
          {first, std::move(strides), stream ? Stream::from_handle(*stream) : Stream(),
           keep_alive(std::move(owner))}};
}

}  // namespace

std::shared_ptr<const void> keep_alive(py::object object) {
  return {object.release().ptr(), [](PyObject* last) {
            if (Py_IsInitialized() == 0) return;
            const GilAcquire acquired;
            const py::error_scope pending;
            Py_DECREF(last);
          }};
}

void bind_imports(py::module_& module) {
  py::class_<PyGpuSource>(module, "GpuSource",
                          "Elements of another library in a GPU's memory, for `Array.put`.")
      .def(py::init(&gpu_source), py::kw_only(), py::arg("dtype"), py::arg("shape"),
           py::arg("strides"), py::arg("data"), py::arg("stream"), py::arg("owner"))
      .def_property_readonly(
          "shape", [](const PyGpuSource& self) { return py::tuple(py::cast(self.shape)); },
          "Extents.");
  module.def("import_dlpack", &import_dlpack, py::arg("producer"), py::arg("stream"),
             py::arg("ignore_stream"),
             "(dtype's name, NumPy array of dtype V<itemsize> over a host array's memory), or "
             "(dtype's name, GpuSource).");
}

}  // namespace memlease::python
