#include "python/bindings/array_handle.h"
#include "python/bindings/fastcall.h"
#include "python/bindings/lease.h"

namespace memlease::python {
namespace {

constexpr const char* kFollowerDoc =
    R"(Newest versions of an array, one after the other, as read leases.

An iterator and a context manager. What was published while the caller worked is skipped and
counted. The next step ends the lease of the step before. Any thread may `close` it, also while
another one waits in it; steps are for one thread at a time.
)";

constexpr const char* kNextDoc =
    R"(End the last lease, wait for a newer version, and return its lease.

Raises
------
StopIteration
    After `close`.
Timeout, Withdrawn, ProducerDied, DaemonLost
    As `Array.read`.
)";

PyObject* close(PyObject* self, PyObject* /*nothing*/) {
  return guarded([&] {
    py::handle(self).cast<PyFollower&>().close();
    return Py_NewRef(Py_None);
  });
}

PyMethodDef calls[] = {
    {"close", c_function(&close), METH_NOARGS,
     "close($self, /)\n--\n\nEnd the iteration and the last lease. A second call does nothing."},
};

}  // namespace

PyFollower::PyFollower(Follower follower, py::object array, py::object stream)
    : array_(std::move(array)), stream_(std::move(stream)), follower_(std::move(follower)) {}

py::object PyFollower::next() {
  if (closed_) throw py::stop_iteration();
  ArrayViews& views = handle_of(array_).views();
  const std::uint32_t here = fork_number();
  if (busy_in_.exchange(here) == here) {
    throw Error(ErrorCode::Busy, "another thread waits in this follower of '" + views.name + "'",
                "give each thread a follower of its own");
  }
  struct Done {
    std::atomic<std::uint32_t>& busy;
    ~Done() { busy = 0; }
  } const done{busy_in_};
  end_last();
  try {
    const auto begin = [this] {
      return without_gil([this] {
        const StopScope scope(closed_);
        return follower_.next();
      });
    };
    last_ = py::reinterpret_steal<py::object>(
        make_lease<ReadLease>(array_, views, stream_.ptr(), begin));
    return last_;
  } catch (const Stopped&) {
    follower_.close();
    throw py::stop_iteration();
  }
}

void PyFollower::close() {
  closed_ = true;
  if (busy_in_ == fork_number()) return;  // the thread that waits ends by itself
  follower_.close();
  end_last();
}

std::string PyFollower::repr() const {
  return "<memlease.Follower of '" + handle_of(array_).reference().name +
         "' seen=" + std::to_string(seen()) + " skipped=" + std::to_string(skipped()) +
         (closed_ ? " closed>" : ">");
}

void PyFollower::end_last() {
  const py::object last = std::exchange(last_, py::object());
  if (last) lease_of<ReadLease>(last).exit(false);
}

void bind_follower(py::module_& module) {
  py::class_<PyFollower> type(module, "Follower", kFollowerDoc);
  add_methods(type, calls);
  type.def("__repr__", &PyFollower::repr)
      .def("__iter__", [](py::object self) { return self; })
      .def("__next__", &PyFollower::next, kNextDoc)
      .def_property_readonly("array", &PyFollower::array, "What it follows.")
      .def_property_readonly(
          "last", &PyFollower::last,
          "The version handed out last; before that, the `after` it was made with.")
      .def_property_readonly("skipped", &PyFollower::skipped, "Versions never seen, in all.")
      .def_property_readonly("seen", &PyFollower::seen, "Versions handed out.")
      .def_property_readonly("closed", &PyFollower::closed, "True once `close` was called.")
      .def("__enter__", [](py::object self) { return self; })
      .def("__exit__", [](PyFollower& self, const py::args&) { self.close(); });
}

}  // namespace memlease::python
