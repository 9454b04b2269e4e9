#include <pybind11/stl.h>

#include "python/bindings/array_handle.h"
#include "python/bindings/fastcall.h"
#include "python/bindings/gpu_source.h"

namespace memlease::python {
namespace {

constexpr const char* kFollowDoc = R"(Iterate over versions as they come: the newest each time.

Parameters
----------
timeout : float, optional
    Seconds that each step waits at most. Default: no end.
after : int
    Begin with a version above this one; 0 begins with the current one.
stream : stream, optional
    As in `read`, for each lease.

Returns
-------
Follower
)";

// The C-ordered bytes of a Python object, for as long as this lives.
class Bytes {
 public:
  Bytes(const py::object& object, int flags) {
    if (PyObject_GetBuffer(object.ptr(), &buffer_, flags) != 0) throw py::error_already_set();
  }
  ~Bytes() { PyBuffer_Release(&buffer_); }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;

  void* data() const { return buffer_.buf; }
  std::uint64_t size() const { return static_cast<std::uint64_t>(buffer_.len); }

 private:
  Py_buffer buffer_{};
};

Stream optional_stream(const py::object& stream) {
  return to_stream(stream.is_none() ? nullptr : stream.ptr());
}

std::uint64_t get_bytes(const ArrayHandle& self, const py::object& destination,
                        std::optional<double> timeout) {
  const ReadOptions options{0, 0, to_timeout(timeout, "timeout")};
  const Bytes bytes(destination, PyBUF_WRITABLE);
  return without_gil([&] { return self->get(bytes.data(), bytes.size(), options); });
}

std::uint64_t put_bytes(const ArrayHandle& self, const py::object& source,
                        std::optional<double> wait, const py::object& stream) {
  const WriteOptions options{to_timeout(wait, "wait"), optional_stream(stream)};
  const Bytes bytes(source, PyBUF_SIMPLE);
  return without_gil([&] { return self->put(bytes.data(), bytes.size(), options); });
}

std::uint64_t put_gpu(const ArrayHandle& self, const PyGpuSource& source,
                      std::optional<double> wait, const py::object& stream) {
  const WriteOptions options{to_timeout(wait, "wait"), optional_stream(stream)};
  return without_gil([&] { return self->put(source.source, options); });
}

// Under the GIL and not waiting: properties.
template <auto Getter>
auto get(const ArrayHandle& self) {
  return ((*self).*Getter)();
}

py::tuple to_tuple(const std::vector<std::int64_t>& values) { return py::tuple(py::cast(values)); }

void bind_properties(py::class_<ArrayHandle>& type) {
  type.def_property_readonly("name", &get<&Array::name>, "Name in the catalog.");
  type.def_property_readonly(
      "dtype", [](const ArrayHandle& self) { return name_of(self->dtype()); },
      "Name of the element type, such as 'float32' or 'bfloat16'.");
  type.def_property_readonly(
      "shape", [](const ArrayHandle& self) { return to_tuple(self->shape()); },
      "Extents, slowest axis first as in NumPy.");
  type.def_property_readonly(
      "strides", [](const ArrayHandle& self) { return to_tuple(self->strides_bytes()); },
      "Bytes from one element to the next, per axis.");
  type.def_property_readonly("device", &get<&Array::device>,
                             "Memory space: 'host', or the UUID of a GPU, which all processes know "
                             "it by: 'GPU-6a9f...'.");
  type.def_property_readonly(
      "device_ordinal",
      [](const ArrayHandle& self) -> std::optional<int> {
        const int ordinal = self->device_ordinal();
        return ordinal < 0 ? std::nullopt : std::optional(ordinal);
      },
      "n of that GPU's cuda:n in this process; None for the host.");
  type.def_property_readonly("slots", &get<&Array::slots>, "How many versions have room, 1 to 64.");
  type.def_property_readonly(
      "lifetime",
      [](const ArrayHandle& self) { return self->persistent() ? "persistent" : "session"; },
      "'session' or 'persistent'.");
  type.def_property_readonly("mode", &get<&Array::mode>, "Access, as of a file: 0o600.");
  type.def_property_readonly("owner_uid", &get<&Array::owner_uid>,
                             "Number of the user who created it, to whom the mode's first digit "
                             "applies.");
  type.def_property_readonly("owner_gid", &get<&Array::owner_gid>,
                             "Number of that user's group, to which the mode's second digit "
                             "applies.");
  type.def_property_readonly("size_bytes", &get<&Array::size_bytes>,
                             "Bytes of one version from its first to its last element.");
  type.def_property_readonly("may_write", &get<&Array::may_write>, "Whether `write` is allowed.");
  type.def_property_readonly("created", &get<&Array::created>,
                             "Whether the call that gave this handle made the array.");
  type.def_property_readonly("version", &get<&Array::version>,
                             "Number of the current version; 0 = none. Takes no lease.");
  type.def_property_readonly("directory", &get<&Array::directory>,
                             "Of the daemon that owns the array.");
  type.def_property_readonly("id", &get<&Array::id>, "Unique in the daemon's run.");
  type.def_property_readonly("closed", &get<&Array::closed>, "True once `close` was called.");
}

}  // namespace

void bind_arrays(py::module_& module) {
  py::class_<ArrayHandle> type(module, "Array");
  type.def(py::init<const ArrayHandle&>(), py::arg("handle"));
  bind_properties(type);
  bind_lease_calls(type);
  type.def(
      "follow",
      [](const py::object& self, std::optional<double> timeout, std::uint64_t after,
         const py::object& stream) {
        const Timeout each = to_timeout(timeout, "timeout");
        const Stream on = optional_stream(stream);
        return std::make_unique<PyFollower>(handle_of(self)->follow(each, after, on), self, stream);
      },
      kFollowDoc, py::kw_only(), py::arg("timeout") = py::none(), py::arg("after") = 0,
      py::arg("stream") = py::none());
  type.def("_get_bytes", &get_bytes, py::arg("destination"), py::arg("timeout"));
  type.def("_put_bytes", &put_bytes, py::arg("source"), py::arg("wait"), py::arg("stream"));
  type.def("_put_gpu", &put_gpu, py::arg("source"), py::arg("wait"), py::arg("stream"));
  type.def(
      "withdraw", [](const ArrayHandle& self) { without_gil([&] { self->withdraw(); }); },
      "Remove the name at once; the bytes go with the last lease and view. Calls the daemon.");
  type.def(
      "close",
      [](const ArrayHandle& self) {
        self.views().clear();
        without_gil([&] { self->close(); });
      },
      "Close this handle; with the process's last one of the array the subscription and the "
      "writer's "
      "right are given up. Leases and views stay valid.");
}

}  // namespace memlease::python
