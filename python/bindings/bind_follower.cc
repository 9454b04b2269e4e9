#include <memlease/for_bindings.h>

#include "python/bindings/array_handle.h"
#include "python/bindings/endless_wait.h"
#include "python/bindings/fastcall.h"
#include "python/bindings/lease.h"
#include "python/bindings/package_parts.h"

namespace memlease::python {
namespace {

constexpr const char* kFollowerDoc =
    R"(Newest versions of an array, one after the other, as read leases.

An iterator, for ``async for`` too, and a context manager. What was published while the caller worked
is skipped and counted. The next step ends the lease of the step before. Any thread may `close` it,
also while another one waits in it; steps are for one thread or task at a time.
)";

constexpr const char* kNextDoc =
    R"(End the last lease, wait for a newer version, and return its lease.

Raises
------
StopIteration
    After `close`, and where the writer has gone, with `until_writer_gone`.
Timeout, Withdrawn, ProducerDied, DaemonLost
    As `Array.read`.
)";

PyObject* close_follower(PyObject* self, PyObject* /*nothing*/) {
  return guarded([&] {
    py::handle(self).cast<PyFollower&>().close();
    return Py_NewRef(Py_None);
  });
}

constexpr const char* kFollowerFilenoDoc = R"(fileno($self, /)
--

Return a descriptor for `select`, `selectors`, Qt's ``QSocketNotifier`` or asyncio's ``add_reader``.

It is readable while the next step would not wait: there is a version above `last`, or the step
would raise or end. It belongs to the follower, also after `close`, as long as that lives: do not
read or close it. The first call may call the daemon; from then on publishing wakes this process, in
which one thread waits for all such arrays and followers. A forked child asks again.

Raises
------
OutOfMemory
    No descriptors are left.
Closed, DaemonLost
)";

PyObject* follower_fileno(PyObject* self, PyObject* /*nothing*/) {
  return guarded([&] {
    PyFollower& follower = py::handle(self).cast<PyFollower&>();
    return PyLong_FromLong(follower.fileno());
  });
}

// What waits are its steps.
PyObject* refuse_async(PyObject* /*self*/, PyObject* /*arguments*/) {
  PyErr_SetString(PyExc_TypeError,
                  "a follower takes `with`, not `async with`: with array.follow() as follower, and "
                  "in it async for lease in follower");
  return nullptr;
}

PyMethodDef follower_calls[] = {
    {"__aenter__", &refuse_async, METH_NOARGS, "TypeError: `with` is enough."},
    {"__aexit__", &refuse_async, METH_VARARGS, "TypeError: `with` is enough."},
    {"fileno", c_function(&follower_fileno), METH_NOARGS, kFollowerFilenoDoc},
    {"close", c_function(&close_follower), METH_NOARGS,
     "close($self, /)\n--\n\nEnd the iteration and the last lease. A second call does nothing."},
};

}  // namespace

PyFollower::PyFollower(Follower follower, py::object array, const Timeout& timeout,
                       py::object stream, std::shared_ptr<ArrayViews> region)
    : array_(std::move(array)),
      stream_(std::move(stream)),
      region_(std::move(region)),
      timeout_(timeout),
      follower_(std::move(follower)) {}

std::optional<double> PyFollower::timeout() const {
  if (timeout_.value_or(kForever) == kForever) return std::nullopt;
  return std::chrono::duration<double>(*timeout_).count();
}

void PyFollower::begin_step() {
  const std::uint32_t here = fork_number();
  if (busy_in_.exchange(here) == here) {
    throw Busy("another thread or task waits in this follower of '" +
                   handle_of(array_).reference().name + "'",
               "give each one a follower of its own");
  }
  stop_.clear();
  end_last();
}

void PyFollower::end_step() { busy_in_ = 0; }

template <typename Begin>
py::object PyFollower::lease(Begin&& begin) {
  ArrayViews& views = handle_of(array_).views();
  return py::reinterpret_steal<py::object>(
      make_lease<ReadLease>(array_, views, region_, stream_.ptr(), std::forward<Begin>(begin)));
}

py::object PyFollower::next() {
  if (closed()) throw py::stop_iteration();
  begin_step();
  struct Done {
    PyFollower& follower;
    ~Done() { follower.end_step(); }
  } const done{*this};
  try {
    const EndlessWait wait(handle_of(array_)->name(), timeout_);
    auto taken = without_gil_or_garbage([this] { return follower_.next_or_end(); });
    if (!taken) throw py::stop_iteration();
    last_ = lease([&] { return std::move(*taken); });
    return last_;
  } catch (const Error&) {
    if (closed()) throw py::stop_iteration();
    throw;
  }
}

template <typename Take>
py::object PyFollower::taken(bool keep, Take&& take) {
  try {
    auto lease_taken = without_gil_or_garbage(take);
    if (!lease_taken) return py::none();
    auto made = lease([&] { return std::move(*lease_taken); });
    if (keep) last_ = made;
    return made;
  } catch (const Error& error) {
    const bool stopped = stop_.requested() && error.code() == ErrorCode::Interrupted;
    if (stopped || closed()) return py::none();
    throw;
  }
}

py::object PyFollower::try_next(bool keep) {
  return taken(keep, [this] { return follower_.try_next(); });
}

py::object PyFollower::next_within(bool keep, double timeout_s) {
  const auto timeout = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(timeout_s));
  return taken(keep, [&] { return internal::ForBindings::next_within(follower_, timeout, stop_); });
}

int PyFollower::fileno() {
  return without_gil([this] { return follower_.event_fd(); });
}

void PyFollower::close() {
  follower_.close();
  if (busy_in_ != fork_number()) end_last();  // else who waits has done so
}

void PyFollower::dispose() {
  without_gil([this] { const Follower ended(std::move(follower_)); });
}

std::string PyFollower::repr() const {
  return "<memlease.Follower of '" + handle_of(array_).reference().name +
         "' seen=" + std::to_string(seen()) + " skipped=" + std::to_string(skipped()) +
         (closed() ? " closed>" : ">");
}

void PyFollower::end_last() {
  const py::object last = std::exchange(last_, py::object());
  if (last) lease_of<ReadLease>(last).exit(false);
}

void bind_follower(py::module_& module) {
  py::class_<PyFollower> type(module, "Follower", kFollowerDoc);
  add_methods(type, follower_calls);
  type.def("__repr__", &PyFollower::repr)
      .def("__iter__", [](py::object self) { return self; })
      .def("__next__", &PyFollower::next, kNextDoc)
      .def("__aiter__", [](py::object self) { return self; })
      .def(
          "__anext__", [](const py::object& self) { return package_parts().next_lease(self); },
          "As `__next__`, for asyncio: a coroutine.")
      .def("_begin_step", &PyFollower::begin_step)
      .def("_try_next", &PyFollower::try_next, py::arg("keep"))
      .def("_next_within", &PyFollower::next_within, py::arg("keep"), py::arg("timeout"))
      .def("_stop_waiting", &PyFollower::stop_waiting)
      .def("_end_step", &PyFollower::end_step)
      .def("_dispose", &PyFollower::dispose)
      .def_property_readonly("_timeout", &PyFollower::timeout)
      .def_property_readonly("array", &PyFollower::array, "What it follows.")
      .def_property_readonly(
          "last", &PyFollower::last,
          "The version handed out last; before that, the `after` it was made with.")
      .def_property_readonly("skipped", &PyFollower::skipped, "Versions never seen, in all.")
      .def_property_readonly("seen", &PyFollower::seen, "Versions handed out.")
      .def_property_readonly("closed", &PyFollower::closed,
                             "True once `close` was called, or the end was reached.")
      .def("__enter__", [](py::object self) { return self; })
      .def("__exit__", [](PyFollower& self, const py::args&) { self.close(); });
}

}  // namespace memlease::python
