// What leases hand out to Python: NumPy arrays, buffers and DLPack blocks of one slot, each of
// which keeps the slot pinned for as long as it lives.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/views/dlpack_view.h"
#include "python/bindings/bindings.h"
#include "python/bindings/numpy_array.h"

namespace memlease::python {

// The bytes of a slot as a flat Python buffer: the base of NumPy arrays.
struct SlotBytes {
  void* data = nullptr;
  std::size_t size_bytes = 0;
  bool readonly = true;
  bool idle = false;  // of a kept array, which no lease uses
  Pin pin;            // may be missing while idle, and while a read lease keeps the slot
};

// A NumPy array over a slot; or none. To read, it has its SlotBytes as base. To write, an array of
// its own is between the two, the root, which is the base of all slices, too, as NumPy takes no
// slice's array for a base that has an array for one: so slices are told from names.
struct NumpyView {
  py::object array;
  SlotBytes* bytes = nullptr;

  // True if nobody but this object holds the array, its memory, or a slice of it.
  bool is_sole() const;
  // To write: may something else than the array itself write into the memory? A slice, or what has
  // asked it for a buffer at any time.
  bool is_shared() const;
  // To write: nobody writes by the array from now on, nor makes it writable again.
  void end_writing() const;
};

// Takes a lease's place where a consumer wants a buffer of it: a write lease has none of its own,
// since NumPy would take that in place of `array`.
struct LeaseBuffer {
  std::function<void(py::handle exporter, Py_buffer* buffer, int flags)> fill;
};

// As bf_releasebuffer, for what fill_buffer() filled.
void release_buffer(PyObject* exporter, Py_buffer* buffer);

// What all leases of one array handle share, or those of one region. A NumPy array that came back
// from its lease unused is kept here, idle, and handed out again for the same slot, so that a
// steady loop sees the same array objects and pays nothing for them.
class ArrayViews {
 public:
  // Of all of the array, or of a region; InvalidArgument if that does not fit.
  explicit ArrayViews(const Array& array, const Region& part = {});

  const std::string name;
  const DType dtype;
  const Region region;
  const std::int64_t offset_bytes;  // from the array's first element to that of the views
  const std::vector<std::int64_t> shape;
  const std::vector<std::int64_t> strides_bytes;
  const std::uint64_t size_bytes;  // from the first to the last element
  const bool is_whole;             // every element is in the region
  const int device_ordinal;        // -1: the host's memory
  bool on_device() const { return device_ordinal >= 0; }

  // Of a NumPy array whose elements are as those of the view, and no others.
  PackedElements elements_of(PyObject* object);
  NumpyView take(void* data, std::uint32_t slot, bool readonly, Pin pin);
  // `view` is sole and its lease is about to end: keeps it, or lets it die.
  void give_back(NumpyView view, std::uint32_t slot);
  // Forgets all kept arrays: their memory goes.
  void clear();

 private:
  ArrayViews(const Array& array, Region part, const internal::ElementLayout& layout);
  NumpyView make(void* data, bool readonly, Pin pin);
  bool is_pristine(const NumpyView& view) const;
  const py::object& numpy_dtype();

  py::object numpy_dtype_;                      // null: not asked for yet
  int numpy_flags_[2] = {0, 0};                 // of a fresh array; index: readonly
  std::vector<std::array<NumpyView, 2>> kept_;  // by slot and readonly
};

// Says once an array, as a ViewAlive warning, that this process's views keep a writer waiting.
// Where warnings are errors it throws, or, without `may_throw`, says nothing.
void warn_of_views(const std::string& array, bool may_throw);

// Live exports of a lease, by kind. Counted down on any thread.
struct ExportCounts {
  std::atomic<int> buffers{0};
  std::atomic<int> blocks{0};
  std::atomic<int> interfaces{0};
};

// The views of one lease.
class LeaseViews {
 public:
  LeaseViews(ArrayViews& array, bool readonly) : array_(array), readonly_(readonly) {}

  const ArrayViews& array() const { return array_; }
  // True if nothing has been exported that could be alive.
  bool empty() const { return !view_.array && counts_ == nullptr; }

  // The NumPy array handed out before, or null.
  const py::object& numpy() const { return view_.array; }
  // Here and below, `data`, `slot` and `pin` are those of the lease, which has not ended. The pin
  // of a NumPy array may come later, by keep().
  const py::object& numpy(void* data, std::uint32_t slot, Pin pin);
  py::dict interface(void* data, Pin pin);  // __array_interface__
  views::Block block(void* data, Pin pin);  // for DLPack
  // As bf_getbuffer; throws. `exporter` is the lease's Python object.
  void fill_buffer(void* data, Pin pin, py::handle exporter, Py_buffer* buffer, int flags);

  // Takes the NumPy array back. False if somebody else uses it.
  bool take_back(std::uint32_t slot);
  // Lets the NumPy array keep the slot by itself.
  void keep(Pin pin) { view_.bytes->pin = std::move(pin); }
  bool is_kept() const { return view_.bytes->pin != nullptr; }
  // After take_back(): is something alive?
  bool any_alive() const;
  // Likewise: something that end_writing() does not reach could write?
  bool may_write_late() const;
  // The lease ends: the NumPy array is read-only from now on.
  void end_writing() const {
    if (view_.array) view_.end_writing();
  }
  // What is alive: "a NumPy array, 2 DLPack tensors"; or nothing.
  std::string alive() const;
  // The lease has ended: what is alive keeps the pin by itself.
  void abandon() { view_ = {}; }

 private:
  ArrayViews& array_;
  std::shared_ptr<ExportCounts> counts_;  // made with the first export
  NumpyView view_;
  bool readonly_;

  // A pin that counts itself while it lives.
  Pin counted(Pin pin, std::atomic<int> ExportCounts::* kind);
};

}  // namespace memlease::python
