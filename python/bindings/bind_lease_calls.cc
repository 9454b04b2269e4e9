// The calls that begin a lease.
#include <array>
#include <string>

#include "python/bindings/array_handle.h"
#include "python/bindings/fastcall.h"
#include "python/bindings/lease.h"

namespace memlease::python {
namespace {

constexpr const char* kReadDoc =
    R"(read($self, /, *, version=None, newer_than=None, timeout=None, stream=None)
--

Lease the current version, or the one asked for, for reading.

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
stream : stream, optional
    Of an array on a GPU: what this stream is given from now on runs behind the version, and nothing
    blocks for that (see `memlease.stream` for what is taken). Host arrays have no use for it.

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

constexpr const char* kWriteDoc = R"(write($self, /, wait=None, *, stream=None)
--

Lease the next version, to be filled.

Blocks, without the GIL, while readers hold every slot or another process has the writer's right;
Ctrl-C ends the wait. Calls the daemon only where this process has to get the writer's right.

Parameters
----------
wait : float, optional
    Seconds to wait at most; 0 does not wait. Default: 10.
stream : stream, optional
    Of an array on a GPU: what this stream is given from now on runs behind all earlier work on the
    slot, and what it was given until the end of the lease is the version.

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

constexpr const char* kUpdateDoc = R"(update($self, /, wait=None, *, stream=None)
--

As `write`, beginning with the bytes of the current version.

They are copied from its slot; with ``slots=1`` it is the same slot. On a GPU they are copied on
`stream`; without one this blocks, without the GIL, until they are.

Parameters
----------
wait : float, optional
    As in `write`.
stream : stream, optional
    As in `write`.

Returns
-------
WriteLease
)";

ReadOptions read_options(const ArrayHandle& handle, const FastCall& call, PyObject*& stream) {
  static constexpr std::array kParameters{"version", "newer_than", "timeout", "stream"};
  std::array<PyObject*, 4> values{};
  call.bind(kParameters, 0, values);
  stream = values[3];
  ReadOptions options{to_version(values[0], "version"), to_version(values[1], "newer_than"),
                      to_timeout(values[2], "timeout"), to_stream(values[3])};
  if (values[0] != nullptr && options.version == 0) {
    throw Error(ErrorCode::InvalidArgument, "version=0 of '" + handle->name() + "' cannot be read",
                "versions count from 1; leave `version` out for the current one");
  }
  return options;
}

PyObject* read(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
  return guarded([&] {
    ArrayHandle& handle = handle_of(self);
    ReadOptions options;
    PyObject* stream = nullptr;
    if (count != 0 || keywords != nullptr) {
      options = read_options(handle, {"read", arguments, count, keywords}, stream);
    }
    return make_lease<ReadLease>(self, handle.views(), stream,
                                 [&] { return handle.read(options); });
  });
}

// Always without the GIL: whether the writer's right has to be asked for, nobody knows before.
template <const char* Name, WriteLease (Array::*Begin)(const WriteOptions&) const>
PyObject* begin(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
  return guarded([&] {
    ArrayHandle& handle = handle_of(self);
    const Array& array = *handle;
    WriteOptions options;
    std::array<PyObject*, 2> values{};
    if (count != 0 || keywords != nullptr) {
      static constexpr std::array kParameters{"wait", "stream"};
      FastCall{Name, arguments, count, keywords}.bind(kParameters, 1, values);
      options.wait = to_timeout(values[0], "wait");
      options.stream = to_stream(values[1]);
    }
    return make_lease<WriteLease>(self, handle.views(), values[1], [&] {
      return writing(array, [&] { return (array.*Begin)(options); });
    });
  });
}

constexpr char kWrite[] = "write";
constexpr char kUpdate[] = "update";
constexpr int kFast = METH_FASTCALL | METH_KEYWORDS;

PyMethodDef calls[] = {
    {"read", c_function(&read), kFast, kReadDoc},
    {kWrite, c_function(&begin<kWrite, &Array::write>), kFast, kWriteDoc},
    {kUpdate, c_function(&begin<kUpdate, &Array::update>), kFast, kUpdateDoc},
};

}  // namespace

ArrayHandle& handle_of(py::handle array) {
  auto* const instance = reinterpret_cast<py::detail::instance*>(array.ptr());
  // A Python class may have other pybind11 classes beside Array as its bases.
  if (!instance->simple_layout) return array.cast<ArrayHandle&>();
  void* const handle = instance->simple_value_holder[0];
  if (handle == nullptr) throw py::type_error("Array.__init__() has not been called");
  return *static_cast<ArrayHandle*>(handle);
}

ReadLease ArrayHandle::read(const ReadOptions& options) {
  // Giving the GIL up costs as much as the lease, and where other threads run, their time slices.
  // Once this process has subscribed to the array, the current version is normally there, and all
  // that the daemon may be asked for is the page of a new writer.
  const Array& array = opened();
  if (has_read_in_ == fork_number() && options.version == 0 && options.newer_than == 0) {
    try {
      return array.read({0, 0, std::chrono::nanoseconds::zero()});
    } catch (const Error& error) {
      if (error.code() != ErrorCode::Timeout) throw;
    }
  }
  ReadLease lease = without_gil([&] { return array.read(options); });
  // On a device a read may wait for it.
  if (!views_->on_device()) has_read_in_ = fork_number();
  return lease;
}

// A forked child may have to open the array first.
std::uint64_t ArrayHandle::version() const {
  const Array& array = opened();
  if (has_read_in_ == fork_number()) return array.version();
  return without_gil([&] { return array.version(); });
}

bool ArrayHandle::has_writer() const {
  const Array& array = opened();
  return without_gil([&] { return array.has_writer(); });
}

void bind_lease_calls(py::class_<ArrayHandle>& type) { add_methods(type, calls); }

}  // namespace memlease::python
