// The calls that copy: put() and get(). Where the elements can be copied as they are, in loops,
// they call nothing of Python's; all else is for Array._put and Array._get.
#include <algorithm>
#include <array>

#include "python/bindings/array_handle.h"
#include "python/bindings/endless_wait.h"
#include "python/bindings/fastcall.h"
#include "python/bindings/gpu_source.h"
#include "python/bindings/region.h"

namespace memlease::python {
namespace {

constexpr const char* kGetDoc =
    R"(get($self, /, out=None, *, timeout=None, region=None)
--

Copy the current version out, or a region of it, also from a GPU's memory.

Blocks as `read` does, and until the copy is complete.

Parameters
----------
out : numpy.ndarray, WriteLease or array in USM, optional
    Where to copy it, of the same shape; converts to its dtype as NumPy does. What has
    ``__sycl_usm_array_interface__``, as dpnp's arrays and memory of dpctl, is filled once
    the queue that it names has done its work, and complete when this returns.
timeout : float, optional
    Seconds to wait at most for the first version. Default: no end.
region : slice, int, ... or tuple of them, optional
    The part to copy, as in `read`, which then stands for the array. Default: all of it.

Returns
-------
numpy.ndarray or `out`
    `out`, or a new array of the array's shape and dtype.

Raises
------
InvalidArgument
    `out` has another shape, is read-only, or is in memory that its SYCL context does not
    know.
Unsupported
    `out` is in a device's USM and not in C order, or there is no dpctl.
)";

constexpr const char* kPutDoc =
    R"(put($self, /, source, *, casting='same_kind', wait=None, stream=None, ignore_stream=None,
    region=None)
--

Copy a whole array in, from or to the host or a GPU, and publish it as the next version.

Blocks as `write` does, and until the copy is complete; but not for that where both are on a
GPU and there is a `stream`.

What has ``__dlpack__`` is taken by `DLPack's Python protocol
<https://dmlc.github.io/dlpack/latest/python_spec.html>`_, and what has only
``__cuda_array_interface__``, of version 0 to 3, by the `CUDA array interface
<https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html>`_. A source on a GPU
is kept until the GPU has copied it, and a later call of memlease sees that. What has
``__sycl_usm_array_interface__``, version 1, is taken by the `SYCL USM array interface
<https://intelpython.github.io/dpctl/latest/api_reference/dpctl/sycl_usm_array_interface.html>`_,
with dpctl: once the queue that it names has done its work, and as a source on the host.

Parameters
----------
source : array_like
    Of the array's shape, or one element for all: a NumPy array, any buffer, a tensor of
    PyTorch, CuPy or JAX or another producer of DLPack or the CUDA array interface, an array
    of dpnp or memory of dpctl, a lease, a number or sequence of numbers of Python. What is
    on the host and of another dtype, or not in C order, is converted first, by a copy more.
    On a GPU it has the array's dtype and is on the array's own GPU, unless the array is on
    the host, and its elements are in the array's order, or in C order for an array on the
    host.
casting : {"same_kind", "safe", "unsafe", "equiv", "no"}
    What may become of the array's dtype, as in `numpy.copyto`: with "same_kind" a float64
    becomes a float32 and an integer a float, but no float an integer; with "unsafe" any
    number becomes what the dtype makes of it. Numbers of Python must fit into the dtype,
    unless with "unsafe".
wait : float, optional
    Seconds to wait at most for a free slot. Default: 10.
stream : stream, optional
    Of an array on a GPU: the one that copies (see `memlease.stream`), behind what it was
    given until now; the version is where the copy ends. A DLPack producer is asked to have
    the elements ready there. Default: one of the library's.
ignore_stream : bool, optional
    The elements of a source on a GPU are ready, and nobody changes them before the copy is
    done: no stream waits, and a DLPack producer is asked for no order (logged once).
    Default: what ``MEMLEASE_CUDA_IGNORE_STREAM`` says, else False.
region : slice, int, ... or tuple of them, optional
    The part of the array to copy into, as in `read`, whose shape the source has. What it
    leaves out is the current version's, by a copy as in `update`. On a GPU a source in C
    order is taken, too. Default: all of it.

Returns
-------
int
    The version's number.

Raises
------
InvalidArgument
    Another shape or GPU; a region that does not fit, or no version for the rest; a dtype
    that `casting` does not let become the array's; a number that does not fit; no numbers
    at all; a masked array; a stream that is capturing a graph; an interface that breaks its
    rules. As after all errors nothing is published, and the current version remains.
Unsupported
    A mask of a CUDA array interface, its version above 3, or a source on a GPU whose
    elements are in another order. A source in USM without dpctl, or of the other byte
    order.
BufferError
    The producer cannot hand it over.
)";

// The C-ordered bytes of a Python object, for as long as this lives.
class Bytes {
 public:
  Bytes(const py::object& object, int flags) {
    if (PyObject_GetBuffer(object.ptr(), &buffer_, flags) != 0) throw py::error_already_set();
  }
  ~Bytes() { PyBuffer_Release(&buffer_); }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;

  void* data() const { return buffer_.buf; }
  std::uint64_t size() const { return static_cast<std::uint64_t>(buffer_.len); }

 private:
  Py_buffer buffer_{};
};

PyObject* or_null(PyObject* value) { return value == Py_None ? nullptr : value; }

Stream optional_stream(const py::object& stream) { return to_stream(or_null(stream.ptr())); }

Region optional_region(const ArrayHandle& self, const py::object& region) {
  return to_region(region.is_none() ? nullptr : region.ptr(), self->name(), self->shape());
}

py::tuple shape_of(const ArrayHandle& self, const py::object& region) {
  return py::tuple(
      py::cast(internal::ForBindings::layout_of(*self, optional_region(self, region)).shape));
}

std::uint64_t get(ArrayHandle& self, const Region& part, void* destination,
                  std::uint64_t size_bytes, const ReadOptions& options) {
  const Array& array = *self;
  const EndlessWait wait(array.name(), options.timeout);
  const std::uint64_t version =
      without_gil_or_garbage([&] { return array.get(part, destination, size_bytes, options); });
  self.note_read(version);
  return version;
}

std::uint64_t get_bytes(ArrayHandle& self, const py::object& destination, const py::object& timeout,
                        const py::object& region) {
  const Region part = optional_region(self, region);
  const ReadOptions options{0, 0, to_timeout(timeout.ptr(), "timeout")};
  const Bytes bytes(destination, PyBUF_WRITABLE);
  return get(self, part, bytes.data(), bytes.size(), options);
}

std::uint64_t put_bytes(const ArrayHandle& self, const py::object& source, const py::object& wait,
                        const py::object& stream, const py::object& region) {
  const Region part = optional_region(self, region);
  const WriteOptions options{to_timeout(wait.ptr(), "wait"), optional_stream(stream)};
  const Bytes bytes(source, PyBUF_SIMPLE);
  const Array& array = *self;
  return writing(array, [&] { return array.put(part, bytes.data(), bytes.size(), options); });
}

std::uint64_t put_gpu(const ArrayHandle& self, const PyGpuSource& source, const py::object& wait,
                      const py::object& stream, const py::object& region) {
  const Region part = optional_region(self, region);
  const WriteOptions options{to_timeout(wait.ptr(), "wait"), optional_stream(stream)};
  const Array& array = *self;
  return writing(array, [&] { return array.put(part, source.source, options); });
}

// Array._get or Array._put, with None for what was left out. Holds no reference: where the
// interpreter's end overtakes the thread in there, it could not be given back.
template <std::size_t N>
PyObject* call_array(PyObject* self, PyObject* method, const std::array<PyObject*, N>& values) {
  std::array<PyObject*, N + 1> all{self};
  std::transform(values.begin(), values.end(), all.begin() + 1,
                 [](PyObject* value) { return value == nullptr ? Py_None : value; });
  return PyObject_VectorcallMethod(method, all.data(), all.size(), nullptr);
}

PyObject* get_elements(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                       PyObject* keywords) {
  return guarded([&] {
    static constexpr std::array kParameters{"out", "timeout", "region"};
    static PyObject* const method = PyUnicode_InternFromString("_get");
    std::array<PyObject*, 3> values{};
    FastCall{"get", arguments, count, keywords}.bind(kParameters, 1, values);
    const auto [out, timeout, region] = values;
    ArrayHandle& handle = handle_of(self);
    PackedElements elements;
    if (out != nullptr && region == nullptr) elements = handle.views().elements_of(out);
    if (elements.data == nullptr || !elements.writable) return call_array(self, method, values);
    const ReadOptions options{0, 0, to_timeout(timeout, "timeout"), {}};
    get(handle, Region(), elements.data, elements.size_bytes, options);
    return Py_NewRef(out);
  });
}

// What is copied as it is does not need to be cast; but a name that is none is refused.
bool is_casting(PyObject* casting) {
  static constexpr std::array kCastings{"same_kind", "safe", "unsafe", "equiv", "no"};
  return casting == nullptr ||
         (PyUnicode_Check(casting) != 0 &&
          std::any_of(kCastings.begin(), kCastings.end(), [&](const char* name) {
            return PyUnicode_CompareWithASCIIString(casting, name) == 0;
          }));
}

PyObject* put_elements(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                       PyObject* keywords) {
  return guarded([&] {
    static constexpr std::array kParameters{"source", "casting",       "wait",
                                            "stream", "ignore_stream", "region"};
    static PyObject* const method = PyUnicode_InternFromString("_put");
    std::array<PyObject*, 6> values{};
    FastCall{"put", arguments, count, keywords}.bind(kParameters, 1, values);
    const auto [source, casting, wait, stream, ignore_stream, region] = values;
    if (source == nullptr && count == 0) {
      throw py::type_error("put() needs what to put, as array.put(x)");
    }
    const ArrayHandle& handle = handle_of(self);
    PackedElements elements;
    if (source != nullptr && region == nullptr && is_casting(casting)) {
      elements = handle.views().elements_of(source);
    }
    if (elements.data == nullptr) return call_array(self, method, values);
    const WriteOptions options{to_timeout(wait, "wait"), to_stream(stream)};
    const Array& array = *handle;
    return PyLong_FromUnsignedLongLong(
        writing(array, [&] { return array.put(elements.data, elements.size_bytes, options); }));
  });
}

PyMethodDef copy_calls[] = {
    {"get", c_function(&get_elements), METH_FASTCALL | METH_KEYWORDS, kGetDoc},
    {"put", c_function(&put_elements), METH_FASTCALL | METH_KEYWORDS, kPutDoc},
};

}  // namespace

void bind_copies(py::class_<ArrayHandle>& type) {
  add_methods(type, copy_calls);
  type.def("_shape_of", &shape_of, py::arg("region"));
  type.def("_get_bytes", &get_bytes, py::arg("destination"), py::arg("timeout"), py::arg("region"));
  type.def("_put_bytes", &put_bytes, py::arg("source"), py::arg("wait"), py::arg("stream"),
           py::arg("region"));
  type.def("_put_gpu", &put_gpu, py::arg("source"), py::arg("wait"), py::arg("stream"),
           py::arg("region"));
}

}  // namespace memlease::python
