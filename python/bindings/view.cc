#include "python/bindings/view.h"

#include <memlease/for_bindings.h>
#include <pybind11/numpy.h>

#include <cstring>
#include <utility>

#include "python/bindings/numpy_array.h"
#include "python/bindings/package_parts.h"

namespace memlease::python {
namespace {

// A pointer in a NumPy array, counted from the one to its weak references; null if it has none.
const void* pointer_of(py::handle array, std::size_t index) {
  const PyTypeObject* const type = Py_TYPE(array.ptr());
  const Py_ssize_t offset =
      type->tp_weaklistoffset + static_cast<Py_ssize_t>(index * sizeof(void*));
  if (type->tp_weaklistoffset <= 0 ||
      offset + static_cast<Py_ssize_t>(sizeof(void*)) > type->tp_basicsize)
    return nullptr;
  const char* const pointer = reinterpret_cast<const char*>(array.ptr()) + offset;
  return *reinterpret_cast<void* const*>(pointer);
}

bool has_weak_references(py::handle array) { return pointer_of(array, 0) != nullptr; }

// What NumPy has described to consumers of the buffer protocol; it keeps that as long as the array.
bool has_given_buffers(py::handle array) { return pointer_of(array, 1) != nullptr; }

py::handle base_of(py::handle array) { return py::detail::array_proxy(array.ptr())->base; }

int& numpy_flags(py::handle array) { return py::detail::array_proxy(array.ptr())->flags; }

std::int64_t size_of(const std::vector<std::int64_t>& shape) {
  std::int64_t size = 1;
  for (const std::int64_t extent : shape) size *= extent;
  return size;
}

// From the first element to the end of the last one.
std::uint64_t extent_bytes(const internal::ElementLayout& layout) {
  if (size_of(layout.shape) == 0) return 0;
  std::int64_t last = 0;
  for (std::size_t i = 0; i < layout.shape.size(); ++i) {
    last += (layout.shape[i] - 1) * layout.strides_bytes[i];
  }
  return static_cast<std::uint64_t>(last) + layout.itemsize;
}

constexpr int kWriteable = py::detail::npy_api::NPY_ARRAY_WRITEABLE_;

void add_to_list(std::string& list, int count, const char* what) {
  if (count <= 0) return;
  if (!list.empty()) list += ", ";
  list += std::to_string(count) + " " + what + (count > 1 ? "s" : "");
}

}  // namespace

bool NumpyView::is_sole() const {
  const py::handle base = base_of(array);
  if (array.ref_count() != 1 || base.ref_count() != 1) return false;
  return bytes->readonly || base_of(base).ref_count() == 1;
}

bool NumpyView::is_shared() const {
  const py::handle root = base_of(array);
  return root.ref_count() != 1 || base_of(root).ref_count() != 1 || has_given_buffers(array) ||
         has_given_buffers(root);
}

void NumpyView::end_writing() const {
  numpy_flags(array) &= ~kWriteable;
  numpy_flags(base_of(array)) &= ~kWriteable;
  bytes->readonly = true;
}

ArrayViews::ArrayViews(const Array& array, const Region& part)
    : ArrayViews(array, part, internal::ForBindings::layout_of(array, part)) {}

ArrayViews::ArrayViews(const Array& array, Region part, const internal::ElementLayout& layout)
    : name(array.name()),
      dtype(array.dtype()),
      region(std::move(part)),
      offset_bytes(layout.offset_bytes),
      shape(layout.shape),
      strides_bytes(layout.strides_bytes),
      size_bytes(extent_bytes(layout)),
      is_whole(size_of(shape) == size_of(array.shape())),
      device_ordinal(array.device_ordinal()),
      kept_(array.slots()) {}

NumpyView ArrayViews::take(void* data, std::uint32_t slot, bool readonly, Pin pin) {
  // Slots that were added to the array come later.
  if (slot >= kept_.size()) kept_.resize(slot + 1);
  NumpyView view = std::exchange(kept_[slot][readonly ? 1 : 0], {});
  if (view.array && view.bytes->data == data) {
    view.bytes->pin = std::move(pin);
    view.bytes->idle = false;
    return view;
  }
  return make(data, readonly, std::move(pin));
}

const py::object& ArrayViews::numpy_dtype() {
  if (!numpy_dtype_) numpy_dtype_ = package_parts().numpy_dtype(name_of(dtype));
  return numpy_dtype_;
}

PackedElements ArrayViews::elements_of(PyObject* object) {
  if (!is_numpy_array(object)) return {};
  const auto elements = static_cast<std::uint64_t>(size_of(shape));
  return packed_elements(object, numpy_dtype(), shape, elements * dtype.itemsize_bytes());
}

NumpyView ArrayViews::make(void* data, bool readonly, Pin pin) {
  auto bytes = std::make_unique<SlotBytes>(
      SlotBytes{data, static_cast<std::size_t>(size_bytes), readonly, false, std::move(pin)});
  NumpyView view;
  view.bytes = bytes.get();
  const py::object base = py::cast(std::move(bytes));
  const auto over = [&](const py::object& memory) {
    return numpy_array(numpy_dtype(), shape, strides_bytes, data, memory);
  };
  view.array = over(base);
  if (readonly) {
    numpy_flags(view.array) &= ~kWriteable;
  } else {
    view.array = over(view.array);
  }
  numpy_flags_[readonly ? 1 : 0] = numpy_flags(view.array);
  return view;
}

void ArrayViews::give_back(NumpyView view, std::uint32_t slot) {
  view.bytes->pin.reset();
  view.bytes->idle = true;
  if (is_pristine(view)) kept_.at(slot)[view.bytes->readonly ? 1 : 0] = std::move(view);
}

void ArrayViews::clear() {
  for (auto& views : kept_) views = {};
}

// False if somebody has assigned to its shape, dtype or flags, or could find it again.
bool ArrayViews::is_pristine(const NumpyView& view) const {
  const auto* const array = py::detail::array_proxy(view.array.ptr());
  return has_dtype_and_shape(view.array.ptr(), numpy_dtype_, shape) &&
         array->data == view.bytes->data &&
         array->flags == numpy_flags_[view.bytes->readonly ? 1 : 0] &&
         !has_weak_references(view.array) &&
         (shape.empty() || std::memcmp(array->strides, strides_bytes.data(),
                                       shape.size() * sizeof(std::int64_t)) == 0);
}

Pin LeaseViews::counted(Pin pin, std::atomic<int> ExportCounts::* kind) {
  if (!counts_) counts_ = std::make_shared<ExportCounts>();
  ((*counts_).*kind)++;
  const void* const bytes = pin.get();
  return {bytes, [pin = std::move(pin), counts = counts_, kind](const void*) mutable {
            pin.reset();  // before the count, which promises that the pin has gone
            ((*counts).*kind)--;
          }};
}

const py::object& LeaseViews::numpy(void* data, std::uint32_t slot, Pin pin) {
  view_ = array_.take(data, slot, readonly_, std::move(pin));
  return view_.array;
}

views::Block LeaseViews::block(void* data, Pin pin) {
  return {data,
          array_.on_device() ? DLDevice{kDLCUDA, array_.device_ordinal} : DLDevice{kDLCPU, 0},
          array_.dtype,
          array_.shape,
          array_.strides_bytes,
          readonly_,
          false,
          counted(std::move(pin), &ExportCounts::blocks)};
}

// "data" is a buffer, which the interface allows, because a bare address could not keep the slot
// pinned: the consumer holds what it got the bytes from.
py::dict LeaseViews::interface(void* data, Pin pin) {
  auto bytes = std::make_unique<SlotBytes>(
      SlotBytes{data, static_cast<std::size_t>(array_.size_bytes), readonly_, false,
                counted(std::move(pin), &ExportCounts::interfaces)});
  py::dict dict =
      package_parts().array_interface(name_of(array_.dtype), py::tuple(py::cast(array_.shape)),
                                      py::tuple(py::cast(array_.strides_bytes)));
  dict["data"] = py::cast(std::move(bytes));
  return dict;
}

bool LeaseViews::take_back(std::uint32_t slot) {
  if (!view_.array) return true;
  if (!view_.is_sole()) return false;
  array_.give_back(std::exchange(view_, {}), slot);
  return true;
}

bool LeaseViews::any_alive() const { return view_.array || may_write_late(); }

bool LeaseViews::may_write_late() const {
  if (view_.array && !readonly_ && view_.is_shared()) return true;
  return counts_ != nullptr &&
         (counts_->buffers > 0 || counts_->blocks > 0 || counts_->interfaces > 0);
}

void warn_of_views(const std::string& array, bool may_throw) {
  const py::error_scope pending;
  const std::string text =
      "views or leases of '" + array +
      "' that are alive in this process keep slots that a writer waits for: let them die before "
      "the next step, keep copies instead (lease.array.copy()), call "
      "memlease.release_views(array), or create the array with more slots";
  try {
    package_parts().warn_of_views(text);
  } catch (py::error_already_set&) {
    if (may_throw) throw;
  }
}

std::string LeaseViews::alive() const {
  std::string list;
  if (view_.array) list = "a NumPy array";
  if (counts_) {
    add_to_list(list, counts_->buffers, "buffer");
    add_to_list(list, counts_->blocks, "DLPack tensor");
    add_to_list(list, counts_->interfaces, "array interface");
  }
  return list;
}

}  // namespace memlease::python
