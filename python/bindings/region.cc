#include "python/bindings/region.h"

#include <algorithm>

namespace memlease::python {
namespace {

[[noreturn]] void refuse(const std::string& name, const std::string& what,
                         const std::string& hint) {
  throw InvalidArgument("the region of '" + name + "' " + what, hint);
}

// By Python's own rules, which cut a range to its axis.
Range range_of(PyObject* slice, std::int64_t extent, const std::string& name) {
  Py_ssize_t begin = 0;
  Py_ssize_t end = 0;
  Py_ssize_t step = 0;
  if (PySlice_Unpack(slice, &begin, &end, &step) != 0) throw py::error_already_set();
  if (step < 0) {
    refuse(name, "has the step " + std::to_string(step),
           "give a step of 1 or more, and turn the view round, as by lease.array[::-1]");
  }
  PySlice_AdjustIndices(extent, &begin, &end, step);
  return {begin, std::max(begin, end), step};
}

// What is too large for any axis stays so.
std::int64_t index_of(py::handle item, const std::string& name) {
  if (item.is_none()) {
    refuse(name, "has a new axis", "give ranges and integers, and reshape the view");
  }
  const bool is_list = py::getattr(item, "ndim", py::int_(0)).not_equal(py::int_(0));
  if (PyBool_Check(item.ptr()) == 0 && PyIndex_Check(item.ptr()) != 0 && !is_list) {
    const Py_ssize_t index = PyNumber_AsSsize_t(item.ptr(), nullptr);
    if (index != -1 || PyErr_Occurred() == nullptr) return index;
    if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw py::error_already_set();
    PyErr_Clear();  // NumPy's numbers that are none
  }
  refuse(name, std::string("has an index of type ") + Py_TYPE(item.ptr())->tp_name,
         "give ranges, integers and ...; masks and lists of indices select what no view can show: "
         "use them on the view, as by lease.array[mask]");
}

}  // namespace

Region to_region(PyObject* key, const std::string& name, const std::vector<std::int64_t>& shape) {
  if (key == nullptr) return {};
  const py::handle one(key);
  const py::tuple items =
      py::isinstance<py::tuple>(one) ? py::reinterpret_borrow<py::tuple>(one) : py::make_tuple(one);
  const auto is_ellipsis = [](py::handle item) { return item.is(py::ellipsis()); };
  const auto ellipses = std::count_if(items.begin(), items.end(), is_ellipsis);
  if (ellipses > 1) refuse(name, "has " + std::to_string(ellipses) + " ...", "give one at most");
  const auto given = static_cast<std::int64_t>(items.size()) - ellipses;
  const auto rank = static_cast<std::int64_t>(shape.size());
  std::vector<Region::Axis> axes;
  for (const py::handle item : items) {
    if (is_ellipsis(item)) {
      for (std::int64_t i = given; i < rank; ++i) axes.emplace_back(Range());
    } else if (PySlice_Check(item.ptr())) {
      const std::int64_t extent = axes.size() < shape.size() ? shape[axes.size()] : 0;
      axes.emplace_back(range_of(item.ptr(), extent, name));
    } else {
      axes.emplace_back(index_of(item, name));
    }
  }
  if (given > rank) {
    refuse(name,
           "has " + std::to_string(given) + " indices, and the array " + std::to_string(rank) +
               " axes",
           "give one for each axis at most");
  }
  return Region(std::move(axes));
}

}  // namespace memlease::python
