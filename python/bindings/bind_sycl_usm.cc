// The arithmetic of __sycl_usm_array_interface__, for the package, which reads and makes its dicts.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/views/sycl_usm_view.h"
#include "python/bindings/bindings.h"

namespace memlease::python {
namespace {

using Numbers = std::vector<std::int64_t>;

py::tuple describe_usm(const std::string& dtype, const Numbers& shape,
                       const Numbers& strides_bytes) {
  const views::UsmArray array = views::describe_usm(parse_dtype(dtype), shape, strides_bytes);
  return py::make_tuple(array.typestr,
                        array.strides ? py::object(to_tuple(*array.strides)) : py::none());
}

py::tuple locate_usm(std::string typestr, Numbers shape, std::optional<Numbers> strides,
                     std::int64_t offset) {
  const views::UsmBytes bytes =
      views::locate_usm({std::move(typestr), std::move(shape), std::move(strides), offset});
  return py::make_tuple(name_of(bytes.dtype), to_tuple(bytes.strides_bytes), bytes.begin,
                        bytes.first, bytes.size_bytes);
}

}  // namespace

void bind_sycl_usm(py::module_& module) {
  module.def("describe_usm", &describe_usm, py::kw_only(), py::arg("dtype"), py::arg("shape"),
             py::arg("strides_bytes"),
             "(typestr, strides in elements or None for C order) of an array. Unsupported where "
             "the interface cannot say it.");
  module.def("locate_usm", &locate_usm, py::kw_only(), py::arg("typestr"), py::arg("shape"),
             py::arg("strides"), py::arg("offset"),
             "(dtype's name, strides in bytes, lowest byte from `data`, first element from there, "
             "bytes from there to the end) of what an interface says. InvalidArgument or "
             "Unsupported where that cannot be.");
}

}  // namespace memlease::python
