#include "python/bindings/lease.h"

#include <memlease/for_bindings.h>

#include "python/bindings/gpu_source.h"
#include "python/bindings/package_parts.h"

namespace memlease::python {
namespace {

constexpr const char* kWaysToGpus =
    "torch.from_dlpack(lease) and cupy.asarray(lease) take it where it is; array.get(), "
    "array.put() and np.from_dlpack(lease, device='cpu') copy";
constexpr const char* kWaysToFill =
    "fill a view, as by torch.from_dlpack(lease).fill_(1.5) or cupy.asarray(lease)[...] = 1.5; "
    "lease[...] takes a whole array that is on the GPU, and array.put() one of the host's";

// Of a source in USM, else null. Most have no such attribute, and to look costs little.
py::object usm_elements(py::handle source) {
  static PyObject* const interface = PyUnicode_InternFromString("__sycl_usm_array_interface__");
  if (!source || PyFloat_CheckExact(source.ptr()) || PyLong_CheckExact(source.ptr()) ||
      PyObject_HasAttr(source.ptr(), interface) == 0) {
    return {};
  }
  return package_parts().usm_elements(source);
}

void* or_anywhere(const void* data) {
  alignas(256) static char nothing;  // zero elements need an address all the same
  return data == nullptr ? &nothing : const_cast<void*>(data);
}

}  // namespace

template <typename Lease>
bool PyLease<Lease>::ended() const {
  if constexpr (kReadonly) {
    return lease_.released();
  } else {
    return lease_.ended();
  }
}

template <typename Lease>
void* PyLease<Lease>::data() const {
  const auto* const first = static_cast<const std::byte*>(lease_.data());
  return or_anywhere(first == nullptr ? nullptr : first + array().offset_bytes);
}

template <typename Lease>
PyLease<Lease>::~PyLease() {
  if constexpr (kReadonly) live_.remove(*this);
  if (views_.empty() && !on_device()) return;
  const py::error_scope pending;
  if constexpr (!kReadonly) warn_of_loss();
  keep_array_if_used();
  if (!kReadonly) views_.end_writing();
  if (on_device()) without_gil([this] { const Lease last = std::move(lease_); });
}

// What a call on a device's lease may wait for must not need the GIL to go on.
template <typename Lease>
template <typename Call>
decltype(auto) PyLease<Lease>::call(Call&& lease_call) {
  if (!on_device()) return lease_call();
  return without_gil(std::forward<Call>(lease_call));
}

// A read lease itself keeps the slot until keep_array_if_used() looks whether the array is needed
// any longer.
template <typename Lease>
const py::object& PyLease<Lease>::numpy() {
  if (on_device()) throw Unsupported(on_device_text(), kWaysToGpus);
  void* const first = data();
  if (views_.numpy()) return views_.numpy();
  return views_.numpy(first, slot(), kReadonly ? Pin() : lease_.pin());
}

template <typename Lease>
const py::object& PyLease<Lease>::elements() {
  // Under the GIL: other threads may fill other rows of the lease, or end it.
  if constexpr (!kReadonly) internal::ForBindings::begin_with_current(lease_);
  return numpy();
}

template <typename Lease>
const py::object& PyLease<Lease>::array_attribute() {
  if constexpr (!kReadonly) is_first_array_ = internal::ForBindings::is_unspecified(lease_);
  return numpy();
}

// `lease.array += x` comes here with the array that it has changed, and `lease.array = x` is wrong.
template <typename Lease>
void PyLease<Lease>::set_array_attribute(py::handle value) {
  if (!numpy().is(value)) {
    throw py::attribute_error(
        "the array of a lease cannot be another one: fill it, as by lease[...] = values");
  }
  if (!is_first_array_) return;
  throw InvalidArgument(
      "the bytes of a write lease of '" + array().name +
          "' are unspecified until they are written, and lease.array was computed with them",
      "begin with array.update(), or compute with the lease itself, as by lease[...] += 1");
}

template <typename Lease>
py::dict PyLease<Lease>::interface() {
  if (on_device()) {
    throw py::attribute_error("__array_interface__: " + on_device_text() + "; " + kWaysToGpus);
  }
  return views_.interface(data(), lease_.pin());
}

template <typename Lease>
void PyLease<Lease>::fill_buffer(py::handle exporter, Py_buffer* buffer, int flags) {
  if (on_device()) throw py::buffer_error("memlease: " + on_device_text() + "; " + kWaysToGpus);
  views_.fill_buffer(data(), lease_.pin(), exporter, buffer, flags);
}

template <typename Lease>
std::string PyLease<Lease>::on_device_text() const {
  return "'" + array().name +
         "' is in the memory of cuda:" + std::to_string(array().device_ordinal) +
         ", which the host cannot touch";
}

// A dict holds nothing: whoever uses the address must keep the lease.
template <typename Lease>
py::dict PyLease<Lease>::cuda_interface(const CudaInterfaceOptions& options) {
  if (!on_device()) {
    throw py::attribute_error("__cuda_array_interface__: '" + array().name +
                              "' is in host memory, which is not device-accessible; copy it to a "
                              "GPU with the framework, or create the array with device='cuda'");
  }
  check_live();
  py::dict dict = package_parts().cuda_array_interface(dtype(), shape(),
                                                       py::tuple(py::cast(array().strides_bytes)));
  const auto order = package_parts()
                         .export_order(options.version, options.host_wait, options.no_stream)
                         .template cast<std::pair<bool, bool>>();
  const bool host_waits = order.first;
  const bool names_stream = order.second;
  Stream stream;
  const void* first = nullptr;
  without_gil([&] {
    if (host_waits) {
      lease_.wait_on_host();
    } else if (names_stream) {
      stream = lease_.export_stream();
    } else {
      lease_.wait_for_view(Stream());
    }
    first = data();
  });
  const bool is_empty = array().size_bytes == 0;
  dict["version"] = options.version;
  dict["data"] = py::make_tuple(is_empty ? 0 : reinterpret_cast<std::uintptr_t>(first),
                                kReadonly && !options.readonly_ok);
  if (options.version >= 3) {
    dict["stream"] = stream ? py::object(py::int_(stream.handle())) : py::none();
  }
  return dict;
}

template <typename Lease>
py::object PyLease<Lease>::export_usm(py::handle self, py::handle syclobj, py::handle usm_type,
                                      py::handle copy) const {
  if (on_device() && (!kReadonly || copy.ptr() != Py_False)) {
    throw Unsupported(
        "'" + array().name +
            "' is in the memory of cuda:" + std::to_string(array().device_ordinal) +
            ", which is given to SYCL only for reading, and where copy=False asks for it",
        "read it on the host: array.on('host').read().sycl_usm(queue)");
  }
  check_live();
  return package_parts().export_usm(self, py::tuple(py::cast(array().strides_bytes)), syclobj,
                                    usm_type, copy);
}

template <typename Lease>
DLDevice PyLease<Lease>::dlpack_device() const {
  return on_device() ? DLDevice{kDLCUDA, array().device_ordinal} : DLDevice{kDLCPU, 0};
}

// A stream that cannot be made to wait is a request that cannot be met.
template <typename Lease>
views::Block PyLease<Lease>::block(const DLPackPlan& plan) {
  check_live();
  if (plan.to_host) return host_copy();
  Pin pin;
  void* first = nullptr;
  try {
    call([&] {
      lease_.wait_for_view(plan.stream);
      first = data();
      pin = lease_.pin();
    });
  } catch (const Error& error) {
    if (error.code() != ErrorCode::InvalidArgument) throw;
    throw py::buffer_error(error.what());
  }
  return views_.block(first, std::move(pin));
}

template <typename Lease>
views::Block PyLease<Lease>::host_copy() const {
  if constexpr (kReadonly) {
    views::Block block = views::make_block(array().dtype, array().shape);
    without_gil([&] { lease_.get(array().region, block.data, views::size_bytes_of(block)); });
    return block;
  } else {
    throw py::buffer_error(
        "__dlpack__: memlease copies versions to the host, and this one is not published yet; "
        "publish it and read it there");
  }
}

template <typename Lease>
void PyLease<Lease>::keep_array_if_used() {
  if (views_.empty() || views_.take_back(slot()) || views_.is_kept()) return;
  try {
    views_.keep(lease_.pin());
  } catch (const Error&) {
    return;  // in a forked child, which has no pages to keep
  }
}

template <typename Lease>
std::string PyLease<Lease>::repr() const {
  std::string extents;
  for (const std::int64_t extent : array().shape) {
    extents += (extents.empty() ? "" : ",") + std::to_string(extent);
  }
  return std::string("<memlease.") + (kReadonly ? "Read" : "Write") + "Lease '" + array().name +
         (array().is_whole ? "' " : "' region ") + dtype() + "[" + extents + "] v" +
         std::to_string(version()) + " slot=" + std::to_string(slot()) +
         (ended() ? " ended>" : ">");
}

template <>
bool PyLease<ReadLease>::release(Stream stream, bool may_throw) {
  if (views_.empty()) return call([&] { return lease_.release(stream); });
  keep_array_if_used();
  const bool warns = views_.any_alive() && internal::ForBindings::should_warn_of_views(lease_);
  views_.abandon();
  const bool is_free = call([&] { return lease_.release(stream); });
  if (warns) warn_of_views(array().name, may_throw);
  return is_free;
}

// One after the other: other threads may begin and end leases while a device's one ends.
template <>
void PyLease<ReadLease>::release_all(const Array& array) {
  const auto is_wanted = [&](const PyLease& lease) {
    return !lease.ended() && internal::ForBindings::is_of(lease.lease_, array);
  };
  for (PyLease* lease = live_.first(); lease != nullptr;) {
    if (!is_wanted(*lease)) {
      lease = lease->next_;
      continue;
    }
    lease->keep_array_if_used();
    lease->views_.abandon();
    ReadLease last = std::move(lease->lease_);
    if (lease->on_device()) {
      without_gil([&] { const ReadLease ended = std::move(last); });
    }
    lease = live_.first();
  }
}

template <>
void PyLease<ReadLease>::exit(bool failed) {
  if (!ended()) release(Stream(), !failed);
}

template <>
bool PyLease<WriteLease>::fill_from_gpu(py::handle key, py::handle source) {
  if (!source || !key.is(py::ellipsis())) return false;
  const py::object found = package_parts().gpu_source_of(source, array().name, dtype(), shape());
  if (found.is_none()) return false;
  const auto& elements = found.cast<const PyGpuSource&>();
  without_gil([&] { lease_.put(array().region, elements.source); });
  return true;
}

namespace {

// Is it an index of all elements: lease[...], lease[:] and lease[:, :]?
bool is_of_all(PyObject* key) {
  if (key == Py_Ellipsis) return true;
  if (PySlice_Check(key)) {
    const auto* const slice = reinterpret_cast<PySliceObject*>(key);
    return slice->start == Py_None && slice->stop == Py_None && slice->step == Py_None;
  }
  if (!PyTuple_Check(key)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) {
    PyObject* const index = PyTuple_GET_ITEM(key, i);
    if (PyTuple_Check(index) || !is_of_all(index)) return false;
  }
  return true;
}

}  // namespace

template <>
void PyLease<WriteLease>::assign(py::handle key, py::handle source) {
  if (on_device()) {
    check_live();
    if (fill_from_gpu(key, source)) return;
    throw Unsupported(on_device_text(), kWaysToFill);
  }
  PyObject* const elements = (is_of_all(key.ptr()) ? numpy() : this->elements()).ptr();
  // NumPy would not wait for a queue of SYCL's.
  const py::object in_usm = usm_elements(source);
  if (in_usm) source = in_usm;
  const int status = source ? PyObject_SetItem(elements, key.ptr(), source.ptr())
                            : PyObject_DelItem(elements, key.ptr());
  if (status == 0) return;
  const py::error_already_set refused;
  // NumPy cannot reach what is on a GPU.
  if (refused.matches(PyExc_TypeError) && fill_from_gpu(key, source)) return;
  throw py::error_already_set(refused);
}

// As Python warns of a coroutine that nobody has awaited.
template <>
void PyLease<WriteLease>::warn_of_loss() const {
  if (!internal::ForBindings::would_lose(lease_)) return;
  const std::string text =
      "a write lease of '" + array().name +
      "' was dropped before it was published, with what was written: use `with`, or publish()";
  if (PyErr_WarnEx(PyExc_RuntimeWarning, text.c_str(), 1) != 0) PyErr_WriteUnraisable(nullptr);
}

template <>
std::uint64_t PyLease<WriteLease>::publish(Stream stream) {
  check_live();
  keep_array_if_used();
  if (internal::ForBindings::is_strict(lease_) && views_.any_alive()) {
    throw Busy("version " + std::to_string(version()) + " of '" + array().name +
                   "' cannot be published while something made from its lease is alive, as this "
                   "connection is strict: " +
                   views_.alive(),
               "del it first, write with w[...] = instead of keeping w.array, or connect without "
               "strict=True and MEMLEASE_STRICT");
  }
  const bool is_empty = internal::ForBindings::is_empty(lease_);
  const bool late_writes = views_.may_write_late();
  views_.end_writing();
  const std::uint64_t version =
      call([&] { return internal::ForBindings::publish(lease_, stream, late_writes); });
  views_.abandon();
  if (is_empty) package_parts().log_empty_write(array().name);
  return version;
}

template <>
void PyLease<WriteLease>::drop(Stream stream) {
  if (ended()) return;
  keep_array_if_used();
  const bool is_empty = internal::ForBindings::is_empty(lease_);
  views_.end_writing();
  views_.abandon();
  call([&] { lease_.drop(stream); });
  if (is_empty) package_parts().log_empty_write(array().name);
}

// A version that nobody has filled would be one of unspecified bytes.
template <>
void PyLease<WriteLease>::exit(bool failed) {
  if (ended()) return;
  if (failed || internal::ForBindings::is_unspecified(lease_)) return drop(Stream());
  try {
    publish(Stream());
  } catch (...) {
    views_.end_writing();
    views_.abandon();
    call([&] { lease_.drop(); });
    throw;
  }
}

template class PyLease<ReadLease>;
template class PyLease<WriteLease>;

}  // namespace memlease::python
