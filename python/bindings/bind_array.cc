#include <pybind11/stl.h>

#include "python/bindings/array_handle.h"
#include "python/bindings/lease.h"

namespace memlease::python {
namespace {

const char* const kReadDoc = R"(Lease the current version, or the one asked for, for reading.

Blocks, without the GIL, while there is no such version; Ctrl-C ends the wait. The first read of a
process calls the daemon, no other does.

Parameters
----------
version : int, optional
    This version, from 1.
newer_than : int, optional
    The current version once it is above this one.
timeout : float, optional
    Seconds to wait at most. Default: no end.

Returns
-------
ReadLease

Raises
------
Timeout
    No such version within `timeout`.
VersionGone
    The version has been overwritten.
ProducerDied, WriteAborted
    The version was never completed.
Withdrawn, Denied, Closed, DaemonLost, ForkedClient
)";

const char* const kWriteDoc = R"(Lease the next version, to be filled.

Blocks, without the GIL, while readers hold every slot or another process has the writer's right;
Ctrl-C ends the wait. Calls the daemon only where this process has to get the writer's right.

Parameters
----------
wait : float, optional
    Seconds to wait at most; 0 does not wait. Default: 10.

Returns
-------
WriteLease

Raises
------
NoFreeSlot
    Every slot was being read until the deadline; the message names the readers.
Busy
    This process itself holds the only slot.
Denied
    The caller may only read.
Withdrawn, Closed, DaemonLost, ForkedClient
)";

const char* const kUpdateDoc = R"(As `write`, beginning with the bytes of the current version.

They are copied from its slot; with ``slots=1`` it is the same slot.

Parameters
----------
wait : float, optional
    As in `write`.

Returns
-------
WriteLease
)";

const char* const kFollowDoc = R"(Iterate over versions as they come: the newest each time.

Parameters
----------
timeout : float, optional
    Seconds that each step waits at most. Default: no end.
after : int
    Begin with a version above this one; 0 begins with the current one.

Returns
-------
Follower
)";

std::unique_ptr<PyReadLease> read(const ArrayHandle& self, std::optional<std::uint64_t> version,
                                  std::optional<std::uint64_t> newer_than,
                                  std::optional<double> timeout) {
  if (version == 0) {
    throw Error(ErrorCode::InvalidArgument, "version=0 of '" + self->name() + "' cannot be read",
                "versions count from 1; leave `version` out for the current one");
  }
  const ReadOptions options{version.value_or(0), newer_than.value_or(0),
                            to_timeout(timeout, "timeout")};
  auto lease = without_gil([&] { return self->read(options); });
  return std::make_unique<PyReadLease>(std::move(lease), self.views());
}

template <WriteLease (Array::*Begin)(const WriteOptions&) const>
std::unique_ptr<PyWriteLease> begin(const ArrayHandle& self, std::optional<double> wait) {
  const WriteOptions options{to_timeout(wait, "wait")};
  auto lease = without_gil([&] { return ((*self).*Begin)(options); });
  return std::make_unique<PyWriteLease>(std::move(lease), self.views());
}

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

std::uint64_t get_bytes(const ArrayHandle& self, const py::object& destination,
                        std::optional<double> timeout) {
  const ReadOptions options{0, 0, to_timeout(timeout, "timeout")};
  const Bytes bytes(destination, PyBUF_WRITABLE);
  return without_gil([&] { return self->get(bytes.data(), bytes.size(), options); });
}

std::uint64_t put_bytes(const ArrayHandle& self, const py::object& source,
                        std::optional<double> wait) {
  const WriteOptions options{to_timeout(wait, "wait")};
  const Bytes bytes(source, PyBUF_SIMPLE);
  return without_gil([&] { return self->put(bytes.data(), bytes.size(), options); });
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
  type.def_property_readonly("device", &get<&Array::device>, "Memory space: 'host'.");
  type.def_property_readonly("slots", &get<&Array::slots>, "How many versions have room, 1 to 64.");
  type.def_property_readonly(
      "lifetime",
      [](const ArrayHandle& self) { return self->persistent() ? "persistent" : "session"; },
      "'session' or 'persistent'.");
  type.def_property_readonly("mode", &get<&Array::mode>, "Access, as of a file: 0o600.");
  type.def_property_readonly("size_bytes", &get<&Array::size_bytes>,
                             "Bytes of one version from its first to its last element.");
  type.def_property_readonly("may_write", &get<&Array::may_write>, "Whether `write` is allowed.");
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
  type.def("read", &read, kReadDoc, py::kw_only(), py::arg("version") = py::none(),
           py::arg("newer_than") = py::none(), py::arg("timeout") = py::none());
  type.def("write", &begin<&Array::write>, kWriteDoc, py::arg("wait") = py::none());
  type.def("update", &begin<&Array::update>, kUpdateDoc, py::arg("wait") = py::none());
  type.def(
      "follow",
      [](const ArrayHandle& self, std::optional<double> timeout, std::uint64_t after) {
        return std::make_unique<PyFollower>(self->follow(to_timeout(timeout, "timeout"), after),
                                            self.views());
      },
      kFollowDoc, py::kw_only(), py::arg("timeout") = py::none(), py::arg("after") = 0);
  type.def("_get_bytes", &get_bytes, py::arg("destination"), py::arg("timeout"));
  type.def("_put_bytes", &put_bytes, py::arg("source"), py::arg("wait"));
  type.def(
      "withdraw", [](const ArrayHandle& self) { without_gil([&] { self->withdraw(); }); },
      "Remove the name at once; the bytes go with the last lease and view. Calls the daemon.");
  type.def(
      "close",
      [](const ArrayHandle& self) {
        self.views()->clear();
        without_gil([&] { self->close(); });
      },
      "Give up the subscription and the writer's right. Leases and views stay valid.");
}

}  // namespace memlease::python
