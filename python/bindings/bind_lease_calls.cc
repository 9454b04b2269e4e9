// The calls that begin a lease.
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "python/bindings/array_handle.h"
#include "python/bindings/endless_wait.h"
#include "python/bindings/fastcall.h"
#include "python/bindings/lease.h"
#include "python/bindings/package_parts.h"

namespace memlease::python {

using internal::ForBindings;

namespace {

constexpr const char* kReadDoc =
    R"(read($self, /, *, version=None, newer_than=None, timeout=None, stream=None, region=None)
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
region : slice, int, ... or tuple of them, optional
    The part of the array that the lease shows, by NumPy's basic indexing, as ``np.s_[1:-1, :, 0]``:
    all its views have the region's shape and strides, without a copy. An integer drops its axis; a
    slice that goes beyond its axis is cut. Default: all of it.

Returns
-------
ReadLease

Raises
------
Timeout
    No such version within `timeout`.
Busy
    With ``slots=1``: this thread itself is writing the array.
VersionGone
    The version has been overwritten.
ProducerDied, WriteAborted
    The version was never completed.
InvalidArgument
    A region that does not fit: too many indices, one outside of its axis, a negative step, a new
    axis, a mask or a list of indices.
Withdrawn, Denied, Closed, DaemonLost, ForkedClient
)";

constexpr const char* kWriteDoc = R"(write($self, /, wait=None, *, stream=None, region=None)
--

Lease the next version, to be filled.

Blocks, without the GIL, while readers hold every slot or another process is the writer;
Ctrl-C ends the wait. Calls the daemon only where this process has to get writer ownership.

Parameters
----------
wait : float, optional
    Seconds to wait at most; 0 does not wait. Default: 10.
stream : stream, optional
    Of an array on a GPU: what this stream is given from now on runs behind all earlier work on the
    slot, and what it was given until the end of the lease is the version.
region : slice, int, ... or tuple of them, optional
    The part of the array that the lease shows and the caller fills, as in `read`. The version is a
    whole one all the same: what the region leaves out is the current version's, by a copy as in
    `update`. Default: all of it.

Returns
-------
WriteLease

Raises
------
NoFreeSlot
    Every slot was being read until the deadline; the message names the readers.
Busy
    This process itself has held the only slot for a tenth of a second, or until the deadline; or
    this thread has a write lease of the array.
Denied
    The caller may only read.
InvalidArgument
    A region that does not fit, as in `read`; or there is no version yet that could be the rest.
Withdrawn, Closed, DaemonLost, ForkedClient
)";

constexpr const char* kTryReadDoc =
    R"(try_read($self, /, *, version=None, newer_than=None, timeout=0, stream=None, region=None)
--

As `read`, but None where that would raise `Timeout`. By default it does not wait.

Parameters
----------
version, newer_than, stream, region
    As in `read`.
timeout : float
    Seconds to wait at most.

Returns
-------
ReadLease or None
    Ask ``is not None`` where the array has one element.
)";

constexpr const char* kTryWriteDoc = R"(try_write($self, /, wait=0, *, stream=None)
--

As `write`, but None where that would raise `NoFreeSlot` or `Timeout`: to skip a version.

By default it does not wait. Blocks for a call to the daemon where this process has to get writer
ownership, and where readers hold all slots of an array that may grow; a daemon that has refused
a slot is not asked again for a tenth of a second.

Parameters
----------
wait : float
    Seconds to wait at most.
stream : stream, optional
    As in `write`.

Returns
-------
WriteLease or None
    Use it as a context manager. Ask ``is not None`` where the array has one element.
)";

constexpr const char* kUpdateDoc = R"(update($self, /, wait=None, *, stream=None, region=None)
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
region : slice, int, ... or tuple of them, optional
    The part of the array that the lease shows, as in `read`. All of it is copied.

Returns
-------
WriteLease
)";

// What a call has said of a lease, beside its options.
struct LeaseWishes {
  PyObject* stream = nullptr;
  std::shared_ptr<ArrayViews> region;  // null: all of the array
};

// The arguments of read() and try_read().
ReadOptions read_options(const ArrayHandle& handle, const FastCall& call, LeaseWishes& wishes) {
  static constexpr std::array kParameters{"version", "newer_than", "timeout", "stream", "region"};
  std::array<PyObject*, 5> values{};
  call.bind(kParameters, 0, values);
  wishes.stream = values[3];
  wishes.region = handle.region_views(values[4]);
  ReadOptions options{to_version(values[0], "version"), to_version(values[1], "newer_than"),
                      to_timeout(values[2], "timeout"), to_stream(values[3])};
  if (values[0] != nullptr && options.version == 0) {
    throw InvalidArgument("version=0 of '" + handle->name() + "' cannot be read",
                          "versions count from 1; leave `version` out for the current one");
  }
  return options;
}

// A new object; None for nothing.
template <typename Lease>
PyObject* make_optional(PyObject* self, const ArrayHandle& handle, LeaseWishes wishes,
                        std::optional<Lease> lease) {
  if (!lease) return Py_NewRef(Py_None);
  return make_lease<Lease>(self, handle.views(), std::move(wishes.region), wishes.stream,
                           [&] { return *std::move(lease); });
}

PyObject* try_read(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                   PyObject* keywords) {
  return guarded([&] {
    ArrayHandle& handle = handle_of(self);
    LeaseWishes wishes;
    const ReadOptions options =
        read_options(handle, {"try_read", arguments, count, keywords}, wishes);
    return make_optional(self, handle, std::move(wishes), handle.try_read(options));
  });
}

PyObject* read(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
  return guarded([&] {
    ArrayHandle& handle = handle_of(self);
    ReadOptions options;
    LeaseWishes wishes;
    if (count != 0 || keywords != nullptr) {
      options = read_options(handle, {"read", arguments, count, keywords}, wishes);
    }
    return make_lease<ReadLease>(self, handle.views(), std::move(wishes.region), wishes.stream,
                                 [&] { return handle.read(options); });
  });
}

// What has a length and bytes is meant to be written.
void refuse_elements(const char* function, PyObject* wait) {
  if (wait == nullptr || PyObject_CheckBuffer(wait) == 0) return;
  if (PyObject_Size(wait) < 0) return PyErr_Clear();  // a number of NumPy's
  throw InvalidArgument(std::string(function) + "() takes a time to wait, not elements",
                        "array.put(x) publishes elements; a write lease is filled by "
                        "lease[...] = x");
}

// The arguments of write() and update(), and of try_write(), which has no region.
template <std::size_t N>
WriteOptions write_options(const ArrayHandle& handle, const FastCall& call,
                           const std::array<const char*, N>& parameters, LeaseWishes& wishes) {
  std::array<PyObject*, N> values{};
  if (call.positional != 0 || call.keywords != nullptr) call.bind(parameters, 1, values);
  refuse_elements(call.function, values[0]);
  wishes.stream = values[1];
  if constexpr (N > 2) wishes.region = handle.region_views(values[2]);
  return {to_timeout(values[0], "wait"), to_stream(values[1])};
}

// Always without the GIL: whether writer ownership has to be asked for, nobody knows before. What a
// region leaves out is the current version's.
template <const char* Name, WriteLease (*Begin)(const Array&, const WriteOptions&)>
PyObject* begin(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
  return guarded([&] {
    static constexpr std::array kParameters{"wait", "stream", "region"};
    const ArrayHandle& handle = handle_of(self);
    const Array& array = *handle;
    LeaseWishes wishes;
    const WriteOptions options =
        write_options(handle, {Name, arguments, count, keywords}, kParameters, wishes);
    const bool is_part = wishes.region != nullptr && !wishes.region->is_whole;
    return make_lease<WriteLease>(
        self, handle.views(), std::move(wishes.region), wishes.stream, [&] {
          return writing(array, [&] {
            return is_part ? ForBindings::update(array, options) : Begin(array, options);
          });
        });
  });
}

PyObject* try_write(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                    PyObject* keywords) {
  return guarded([&] {
    static constexpr std::array kParameters{"wait", "stream"};
    const ArrayHandle& handle = handle_of(self);
    const Array& array = *handle;
    LeaseWishes wishes;
    const WriteOptions options =
        write_options(handle, {"try_write", arguments, count, keywords}, kParameters, wishes);
    return make_optional(self, handle, std::move(wishes),
                         writing(array, [&] { return ForBindings::try_write(array, options); }));
  });
}

constexpr char kWrite[] = "write";
constexpr char kUpdate[] = "update";
constexpr int kFast = METH_FASTCALL | METH_KEYWORDS;

PyMethodDef lease_calls[] = {
    {"read", c_function(&read), kFast, kReadDoc},
    {"try_read", c_function(&try_read), kFast, kTryReadDoc},
    {"try_write", c_function(&try_write), kFast, kTryWriteDoc},
    {kWrite, c_function(&begin<kWrite, &ForBindings::write>), kFast, kWriteDoc},
    {kUpdate, c_function(&begin<kUpdate, &ForBindings::update>), kFast, kUpdateDoc},
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
  // On a device also a read that need not wait for its version may wait.
  const Array& array = opened();
  if (std::optional<ReadLease> lease;
      !views_->on_device() && options.version == 0 && options.newer_than == 0 &&
      ForBindings::try_read_at_once(array, options, lease) && lease) {
    note_read(lease->version());
    return *std::move(lease);
  }
  const EndlessWait wait(array.name(), options.timeout);
  ReadLease lease = without_gil_or_garbage([&] { return array.read(options); });
  note_read(lease.version());
  return lease;
}

std::optional<ReadLease> ArrayHandle::try_read(const ReadOptions& options) {
  const Array& array = opened();
  std::optional<ReadLease> lease;
  if (views_->on_device() || options.timeout || options.stream ||
      !ForBindings::try_read_at_once(array, options, lease)) {
    lease = without_gil_or_garbage([&] { return array.try_read(options); });
  }
  if (lease) note_read(lease->version());
  return lease;
}

std::uint64_t ArrayHandle::version() const {
  const Array& array = opened();
  if (const auto version = ForBindings::version_at_once(array)) return *version;
  return without_gil([&] { return array.version(); });
}

bool ArrayHandle::has_writer() const {
  const Array& array = opened();
  return without_gil([&] { return array.has_writer(); });
}

void bind_lease_calls(py::class_<ArrayHandle>& type) { add_methods(type, lease_calls); }

}  // namespace memlease::python
