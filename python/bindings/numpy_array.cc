#include "python/bindings/numpy_array.h"

#include <pybind11/numpy.h>

#include <cstring>
#include <string_view>

#include "python/bindings/package_parts.h"

namespace memlease::python {
namespace {

// Those that are needed of NumPy's C API, whose table has kept its order since NumPy 1.7.
struct NumpyApi {
  static constexpr std::size_t kArrayType = 2;
  static constexpr std::size_t kNewFromDescr = 94;
  static constexpr std::size_t kSetBaseObject = 282;

  PyObject* array_type;
  PyObject* (*new_from_descr)(PyObject* type, PyObject* dtype, int rank, const std::intptr_t* shape,
                              const std::intptr_t* strides, void* data, int flags,
                              PyObject* unused);
  int (*set_base_object)(PyObject* array, PyObject* base);
};

// Under the GIL, which imports may give up: several threads may look up the same.
const NumpyApi& numpy_api() {
  static NumpyApi* known = nullptr;
  if (known != nullptr) return *known;
  package_parts().require_numpy();
  const py::module_ multiarray = py::detail::import_numpy_core_submodule("multiarray");
  const py::object capsule = multiarray.attr("_ARRAY_API");
  void** const table = static_cast<void**>(PyCapsule_GetPointer(capsule.ptr(), nullptr));
  if (table == nullptr) throw py::error_already_set();
  known = new NumpyApi{
      static_cast<PyObject*>(table[NumpyApi::kArrayType]),
      reinterpret_cast<decltype(NumpyApi::new_from_descr)>(table[NumpyApi::kNewFromDescr]),
      reinterpret_cast<decltype(NumpyApi::set_base_object)>(table[NumpyApi::kSetBaseObject])};
  return *known;
}

}  // namespace

py::object numpy_array(const py::object& dtype, const std::vector<std::int64_t>& shape,
                       const std::vector<std::int64_t>& strides, const void* data,
                       const py::object& base) {
  static_assert(sizeof(std::intptr_t) == sizeof(std::int64_t));
  const NumpyApi& numpy = numpy_api();
  int flags = py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
  if (PyObject_TypeCheck(base.ptr(), reinterpret_cast<PyTypeObject*>(numpy.array_type)) != 0) {
    flags = py::detail::array_proxy(base.ptr())->flags & ~py::detail::npy_api::NPY_ARRAY_OWNDATA_;
  }
  auto array = py::reinterpret_steal<py::object>(numpy.new_from_descr(
      numpy.array_type, py::object(dtype).release().ptr(), static_cast<int>(shape.size()),
      shape.data(), strides.data(), const_cast<void*>(data), flags, nullptr));
  if (!array) throw py::error_already_set();
  if (numpy.set_base_object(array.ptr(), py::object(base).release().ptr()) != 0) {
    throw py::error_already_set();
  }
  return array;
}

bool is_numpy_array(PyObject* object) {
  using namespace std::string_view_literals;
  return Py_TYPE(object)->tp_name == "numpy.ndarray"sv &&
         reinterpret_cast<PyObject*>(Py_TYPE(object)) == numpy_api().array_type;
}

bool has_dtype_and_shape(PyObject* array, const py::object& dtype,
                         const std::vector<std::int64_t>& shape) {
  const auto* const header = py::detail::array_proxy(array);
  static_assert(sizeof(*header->dimensions) == sizeof(std::int64_t));
  return header->descr == dtype.ptr() && static_cast<std::size_t>(header->nd) == shape.size() &&
         (shape.empty() ||
          std::memcmp(header->dimensions, shape.data(), shape.size() * sizeof(std::int64_t)) == 0);
}

PackedElements packed_elements(PyObject* object, const py::object& dtype,
                               const std::vector<std::int64_t>& shape, std::uint64_t size_bytes) {
  using Numpy = py::detail::npy_api;
  const auto* const array = py::detail::array_proxy(object);
  if ((array->flags & Numpy::NPY_ARRAY_C_CONTIGUOUS_) == 0 ||
      !has_dtype_and_shape(object, dtype, shape)) {
    return {};
  }
  return {array->data, size_bytes, (array->flags & Numpy::NPY_ARRAY_WRITEABLE_) != 0};
}

}  // namespace memlease::python
