// What leases hand out to Python: NumPy arrays, buffers and DLPack blocks of one slot, each of
// which keeps the slot pinned for as long as it lives.
#pragma once

#include <pybind11/numpy.h>

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/views/dlpack_view.h"
#include "python/bindings/bindings.h"

namespace memlease::python {

// The bytes of a slot as a flat Python buffer: the base of NumPy arrays. Without a pin it is idle.
struct SlotBytes {
  void* data = nullptr;
  std::size_t size_bytes = 0;
  bool readonly = true;
  Pin pin;
};

// A NumPy array over a slot, with its SlotBytes as base; or none.
struct NumpyView {
  py::object array;
  SlotBytes* bytes = nullptr;

  // True if nobody but this object holds the array, its memory, or a slice of it.
  bool is_sole() const;
};

// As bf_releasebuffer, for what fill_buffer() filled.
void release_buffer(PyObject* exporter, Py_buffer* buffer);

// What all leases of one array handle share. A NumPy array that came back from its lease unused is
// kept here without a pin and handed out again for the same slot, so that a steady loop sees the
// same array objects and pays nothing for them.
class ArrayViews {
 public:
  explicit ArrayViews(const Array& array);

  const std::string name;
  const DType dtype;
  const std::vector<std::int64_t> shape;
  const std::vector<std::int64_t> strides_bytes;
  const std::uint64_t size_bytes;

  NumpyView take(void* data, std::uint32_t slot, bool readonly, Pin pin);
  // `view` is sole and its lease is about to end: keeps it, or lets it die.
  void give_back(NumpyView view, std::uint32_t slot);
  // Forgets all kept arrays: their memory goes.
  void clear();

 private:
  NumpyView make(void* data, bool readonly, Pin pin);
  bool is_pristine(const NumpyView& view) const;

  py::object numpy_dtype_;
  int numpy_flags_[2] = {0, 0};                 // of a fresh array; index: readonly
  std::vector<std::array<NumpyView, 2>> kept_;  // by slot and readonly
};

// Live exports of a lease, by kind. Counted down on any thread.
struct ExportCounts {
  std::atomic<int> buffers{0};
  std::atomic<int> blocks{0};
  std::atomic<int> interfaces{0};
};

// The views of one lease.
class LeaseViews {
 public:
  LeaseViews(std::shared_ptr<ArrayViews> array, std::uint32_t slot, bool readonly);

  const ArrayViews& array() const { return *array_; }
  bool readonly() const { return readonly_; }

  // The NumPy array handed out before, or null.
  const py::object& numpy() const { return view_.array; }
  // Here and below, `data` and `pin` are those of the lease, which has not ended.
  py::object numpy(void* data, Pin pin);
  py::dict interface(void* data, Pin pin);      // __array_interface__
  views::HostBlock block(void* data, Pin pin);  // for DLPack
  // As bf_getbuffer; throws. `exporter` is the lease's Python object.
  void fill_buffer(void* data, Pin pin, py::handle exporter, Py_buffer* buffer, int flags);

  // Takes the NumPy array back if nobody else uses it. What is still alive then is described
  // ("1 NumPy array, 2 DLPack tensors"), or nothing.
  std::string settle();
  // The lease has ended: what is alive keeps the pin by itself.
  void abandon() { view_ = {}; }

 private:
  std::shared_ptr<ArrayViews> array_;
  std::shared_ptr<ExportCounts> counts_;  // made with the first export
  NumpyView view_;
  std::uint32_t slot_;
  bool readonly_;

  // A pin that counts itself while it lives.
  Pin counted(Pin pin, std::atomic<int> ExportCounts::* kind);
};

}  // namespace memlease::python
