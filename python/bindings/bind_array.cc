#include <algorithm>
#include <array>

#include "python/bindings/array_handle.h"
#include "python/bindings/endless_wait.h"
#include "python/bindings/fastcall.h"
#include "python/bindings/lease.h"
#include "python/bindings/region.h"

namespace memlease::python {
namespace {

constexpr const char* kWithdrawDoc = R"(withdraw($self, /)
--

Remove the name at once; the bytes go with the last lease and view. Calls the daemon.)";

constexpr const char* kCloseDoc = R"(close($self, /)
--

Close this handle; ``with array:`` does so at its end.

With the process's last one of the array the subscription and writer ownership are given up.
Leases and views stay valid, and so does the array's name. It is closed also where Ctrl-C ends the
call to the daemon.)";

constexpr const char* kFollowDoc = R"(follow($self, /, *, timeout=None, after=0, stream=None,
       until_writer_gone=False, region=None)
--

Iterate over versions as they come: the newest each time.

Parameters
----------
timeout : float, optional
    Seconds that each step waits at most. Default: no end.
after : int
    Begin with a version above this one; 0 begins with the current one.
stream : stream, optional
    As in `read`, for each lease.
until_writer_gone : bool
    End the iteration once no process is the array's writer (see `has_writer`) and what it has
    published was given out; or once the array is withdrawn, as arrays of lifetime 'session' are
    when their creator ends. An array without a version is waited for: its writer is yet to come.
region : slice, int, ... or tuple of them, optional
    As in `read`, for each lease.

Returns
-------
Follower
)";

ArrayHandle on(const ArrayHandle& self, const std::string& device) {
  const Array& array = *self;
  return ArrayHandle(without_gil([&] { return array.on(device); }));
}

PyObject* follow(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
  return guarded([&] {
    static constexpr std::array kParameters{"timeout", "after", "stream", "until_writer_gone",
                                            "region"};
    std::array<PyObject*, 5> values{};
    FastCall{"follow", arguments, count, keywords}.bind(kParameters, 0, values);
    const Timeout each = to_timeout(values[0], "timeout");
    const std::uint64_t after = to_version(values[1], "after");
    const auto stream = values[2] == nullptr ? py::object(py::none())
                                             : py::reinterpret_borrow<py::object>(values[2]);
    const int until_writer_gone = values[3] == nullptr ? 0 : PyObject_IsTrue(values[3]);
    if (until_writer_gone < 0) throw py::error_already_set();
    const ArrayHandle& handle = handle_of(self);
    auto region = handle.region_views(values[4]);
    Follower follower = handle->follow({each, after, to_stream(values[2]), until_writer_gone != 0});
    auto made =
        std::make_unique<PyFollower>(std::move(follower), py::reinterpret_borrow<py::object>(self),
                                     each, stream, std::move(region));
    return py::cast(std::move(made)).release().ptr();
  });
}

PyObject* withdraw(PyObject* self, PyObject* /*nothing*/) {
  return guarded([&] {
    const Array& array = *handle_of(self);
    without_gil([&] { array.withdraw(); });
    return Py_NewRef(Py_None);
  });
}

PyObject* close(PyObject* self, PyObject* /*nothing*/) {
  return guarded([&] {
    handle_of(self).close();
    return Py_NewRef(Py_None);
  });
}

constexpr const char* kFilenoDoc = R"(fileno($self, /)
--

Return a descriptor for `select`, `selectors`, Qt's ``QSocketNotifier`` or asyncio's ``add_reader``.

It is readable while there is a version above the newest one that this handle has read since the
first call, at first while there is any version, and while a read would raise. It belongs to the
handle, also after `close`, as long as that lives: do not read or close it. The first call may call
the daemon; from then on publishing wakes this process, in which one thread waits for all such
arrays and followers, and each read waits again: a follower's `fileno` leaves the array's other reads
as they are. A forked child asks again.

Raises
------
OutOfMemory
    No descriptors are left.
Closed, DaemonLost
)";

PyObject* fileno(PyObject* self, PyObject* /*nothing*/) {
  return guarded([&] {
    const Array& array = *handle_of(self);
    return PyLong_FromLong(without_gil([&] { return array.event_fd(); }));
  });
}

PyMethodDef calls[] = {
    {"fileno", c_function(&fileno), METH_NOARGS, kFilenoDoc},
    {"follow", c_function(&follow), METH_FASTCALL | METH_KEYWORDS, kFollowDoc},
    {"withdraw", c_function(&withdraw), METH_NOARGS, kWithdrawDoc},
    {"close", c_function(&close), METH_NOARGS, kCloseDoc},
};

// Under the GIL and not waiting: properties.
template <auto Getter>
auto get(const ArrayHandle& self) {
  return ((*self).*Getter)();
}

// Each caller has values of its own, which are its to change.
py::object attributes_of(const ArrayHandle& self) {
  const py::object made = py::cast(self->attributes());
  return py::reinterpret_steal<py::object>(PyDictProxy_New(made.ptr()));
}

void bind_properties(py::class_<ArrayHandle>& type) {
  type.def_property_readonly(
      "name", [](const ArrayHandle& self) { return self.reference().name; },
      "Name in the catalog.");
  type.def_property_readonly(
      "dtype_name", [](const ArrayHandle& self) { return name_of(self->dtype()); },
      "Name of the element type, such as 'float32' or 'bfloat16'.");
  type.def_property_readonly(
      "shape", [](const ArrayHandle& self) { return to_tuple(self->shape()); },
      "Extents, slowest axis first as in NumPy.");
  type.def_property_readonly(
      "strides", [](const ArrayHandle& self) { return to_tuple(self->strides_bytes()); },
      "Bytes from one element to the next, per axis.");
  type.def_property_readonly(
      "device", [](const ArrayHandle& self) { return self.reference().device; },
      "Memory space: 'host', or the UUID of a GPU, which all processes know "
      "it by: 'GPU-6a9f...'.");
  type.def_property_readonly(
      "device_ordinal",
      [](const ArrayHandle& self) -> std::optional<int> {
        const int ordinal = self->device_ordinal();
        return ordinal < 0 ? std::nullopt : std::optional(ordinal);
      },
      "n of that GPU's cuda:n in this process; None for the host.");
  type.def_property_readonly("slots", &get<&Array::slots>,
                             "How many versions have room at least, 1 to 64.");
  type.def_property_readonly("max_slots", &get<&Array::max_slots>,
                             "How many versions may have room while readers hold all the others.");
  type.def_property_readonly(
      "lifetime",
      [](const ArrayHandle& self) { return self->persistent() ? "persistent" : "session"; },
      "'session' or 'persistent'.");
  type.def_property_readonly("mode", &get<&Array::mode>, "Access, as of a file: 0o600.");
  type.def_property_readonly(
      "writer",
      [](const ArrayHandle& self) { return self->exclusive_writer() ? "exclusive" : "any"; },
      "Which of the processes that may write becomes the writer: 'any', whichever writes next; or "
      "'exclusive', one, until it closes the array or ends.");
  type.def_property_readonly("attributes", &attributes_of,
                             "What its creator says of it, as of `Client.create`: a read-only "
                             "mapping in the order of names, the same for everyone.");
  type.def_property_readonly("owner_uid", &get<&Array::owner_uid>,
                             "Number of the user who created it, to whom the mode's first digit "
                             "applies.");
  type.def_property_readonly("owner_gid", &get<&Array::owner_gid>,
                             "Number of that user's group, to which the mode's second digit "
                             "applies.");
  type.def_property_readonly("size_bytes", &get<&Array::size_bytes>,
                             "Bytes of one version from its first to its last element.");
  type.def_property_readonly("may_write", &get<&Array::may_write>,
                             "Whether the mode allows `write`.");
  type.def_property_readonly("created", &get<&Array::created>,
                             "Whether the call that gave this handle made the array.");
  type.def_property_readonly("has_writer", &ArrayHandle::has_writer,
                             "Whether a live process is the array's writer: it has written the "
                             "array last, and not closed it. No call.");
  type.def_property_readonly("version", &ArrayHandle::version,
                             "Number of the current version; 0 = none, also after a write of an "
                             "only slot that was dropped. "
                             "Takes no lease. Raises `Withdrawn`.");
  type.def_property_readonly(
      "directory", [](const ArrayHandle& self) { return self.reference().directory; },
      "Of the daemon that owns the array.");
  type.def_property_readonly(
      "id", [](const ArrayHandle& self) { return self.reference().id; },
      "Unique in the daemon's run.");
  type.def_property_readonly("closed", &ArrayHandle::closed, "True once `close` was called.");
}

}  // namespace

Reference ArrayHandle::reference() const {
  if (!array_) return reference_;
  return {array_->directory(), array_->name(), array_->id(), array_->device()};
}

std::shared_ptr<ArrayViews> ArrayHandle::region_views(PyObject* region) const {
  if (region == nullptr) return nullptr;
  const Array& array = opened();
  return std::make_shared<ArrayViews>(array, to_region(region, array.name(), array.shape()));
}

// Other threads may have opened or closed it while this one was without the GIL.
void ArrayHandle::open_now() const {
  const py::object open = open_;
  const py::object made = open ? open() : py::object();
  if (array_) return;
  if (!open_) {
    throw Closed("this handle of '" + reference_.name + "' has been closed",
                 "open the array again");
  }
  const ArrayHandle& other = handle_of(made);
  array_ = *other;
  views_ = other.views_;
  open_ = py::object();
}

void ArrayHandle::close() {
  if (!array_) {
    open_ = py::object();
    return;
  }
  views_->clear();
  without_gil([this] { array_->close(); });
}

namespace {

// newer_than: a version's number, or None for what is known already.
Awaited awaited(const py::object& source, const py::object& newer_than) {
  std::optional<std::uint64_t> known;
  if (!newer_than.is_none()) known = to_version(newer_than.ptr(), "newer_than");
  if (py::isinstance<PyFollower>(source)) {
    const Follower& follower = source.cast<PyFollower&>().follower();
    return known ? Awaited(follower, *known) : follower;
  }
  const ArrayHandle& array = handle_of(source);
  if (!known && array.last_read() != 0) known = array.last_read();
  return known ? Awaited(*array, *known) : internal::ForBindings::newer_than_current(*array);
}

std::string name_of_source(const py::object& source) {
  const bool follows = py::isinstance<PyFollower>(source);
  return handle_of(follows ? source.cast<PyFollower&>().array() : source).reference().name;
}

std::vector<std::size_t> wait(const std::vector<py::object>& sources,
                              const std::vector<py::object>& newer_than, const Timeout& timeout) {
  std::vector<Awaited> all;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    all.push_back(awaited(sources[i], newer_than.at(i)));
  }
  const std::string name = name_of_source(sources.front());
  const EndlessWait wait(name, timeout);
  // The last use of an array may wait for other threads, which may wait for the GIL.
  return without_gil([&] {
    auto ready = memlease::wait(all, timeout);
    all.clear();
    return ready;
  });
}

std::uint32_t release_views(const py::object& array) {
  if (!py::isinstance<ArrayHandle>(array)) {
    throw py::type_error("release_views() takes an array, not " +
                         std::string(Py_TYPE(array.ptr())->tp_name));
  }
  const ArrayHandle& handle = handle_of(array);
  const std::uint32_t before = internal::ForBindings::held_slots(*handle);
  PyLease<ReadLease>::release_all(*handle);
  return without_gil([&] {
    internal::ForBindings::release_views(*handle);
    return before - std::min(before, internal::ForBindings::held_slots(*handle));
  });
}

}  // namespace

void bind_arrays(py::module_& module) {
  module.def("release_views", &release_views, py::arg("array"),
             "How many slots it has freed; see memlease.release_views.");
  module.def(
      "wait",
      [](const std::vector<py::object>& sources, const std::vector<py::object>& newer_than,
         const py::object& timeout) {
        return wait(sources, newer_than, to_timeout(timeout.ptr(), "timeout"));
      },
      py::arg("sources"), py::arg("newer_than"), py::arg("timeout"),
      "The places of those that are ready; see memlease.wait.");
  py::class_<ArrayHandle> type(module, "Array");
  type.def(py::init<const ArrayHandle&>(), py::arg("handle"));
  type.def_property_readonly("_is_subscribed", [](const ArrayHandle& self) {
    return internal::ForBindings::is_subscribed(*self);
  });
  type.def(
      "_subscribe",
      [](const ArrayHandle& self, const py::object& timeout) {
        const Array& array = *self;
        const Timeout limit = to_timeout(timeout.ptr(), "timeout");
        without_gil([&] { internal::ForBindings::subscribe(array, limit); });
      },
      py::arg("timeout"), "Ask for what a first read asks the daemon for.");
  type.def(py::init([](std::string directory, std::string name, std::uint64_t id,
                       std::string device, py::object open) {
             return ArrayHandle({std::move(directory), std::move(name), id, std::move(device)},
                                std::move(open));
           }),
           py::kw_only(), py::arg("directory"), py::arg("name"), py::arg("id"), py::arg("device"),
           py::arg("open"));
  bind_properties(type);
  bind_lease_calls(type);
  bind_copies(type);
  add_methods(type, calls);
  type.def("_on", &on, py::arg("device"));
}

}  // namespace memlease::python
