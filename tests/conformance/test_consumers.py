"""The doubles of libraries refuse what these refuse, so that a test with them shows something.

What they take, and how they wait, is what all the other tests use them for.
"""

import ctypes

import consumers
import pytest
from dlpack_structs import READ_ONLY, DLTensor, Unversioned, Versioned, get_name, new_capsule

PLAIN = {"version": 3, "shape": (4, 2), "typestr": "<f4", "data": (4096, False), "strides": None}
CPU, CUDA, CUDA_HOST, MANAGED = (1, 0), (2, 0), (3, 0), (13, 0)


class Dict(dict):
    pass


class Interface:
    def __init__(self, changes=(), kind=dict):
        self.__cuda_array_interface__ = kind({**PLAIN, "stream": None, **dict(changes)})


INTERFACE_CONSUMERS = [
    consumers.cupy_asarray,
    consumers.torch_as_tensor,
    consumers.numba_as_cuda_array,
    consumers.numba_kernel_argument,
    consumers.cuda_core_view,
    consumers.jax_array_of_interface,
    consumers.arrow_buffer_from_object,
    consumers.mpi4py_buffer_of_interface,
]


@pytest.mark.parametrize("consumer", INTERFACE_CONSUMERS, ids=lambda it: it.__name__)
def test_plain_interfaces_are_taken(consumer, monkeypatch):
    monkeypatch.setattr(consumers.Here, "synchronize", lambda *_: None)
    here = object.__new__(consumers.Here)
    view = consumer(here, Interface(), 77)
    assert (view.address, view.count, view.stream) == (4096, 8, 77)


@pytest.mark.parametrize(
    ("consumer", "changes", "error"),
    [
        (consumers.cupy_asarray, {"shape": [4, 2]}, TypeError),
        (consumers.cupy_asarray, {"data": [4096, False]}, TypeError),
        (consumers.cupy_asarray, {"strides": [8, 4]}, TypeError),
        (consumers.cupy_asarray, {"mask": object()}, ValueError),
        (consumers.torch_as_tensor, {"data": (4096, True)}, TypeError),
        (consumers.torch_as_tensor, {"strides": (9, 4)}, ValueError),
        (consumers.torch_as_tensor, {"shape": [4, 2]}, TypeError),
        (consumers.numba_as_cuda_array, {"mask": object()}, NotImplementedError),
        (consumers.cuda_core_view, {"mask": object()}, BufferError),
        (consumers.cuda_core_view, {"version": 2}, BufferError),
        (consumers.numba_kernel_argument, {"version": 2}, BufferError),
        (consumers.jax_array_of_interface, {"stream": 0}, ValueError),
        (consumers.jax_array_of_interface, {"strides": (16, 4)}, ValueError),
        (consumers.rmm_copy_from_device, {}, ValueError),
        (consumers.rmm_copy_from_device, {"shape": (4,), "strides": (8,)}, ValueError),
        (consumers.arrow_buffer_from_object, {"strides": (4, 16)}, ValueError),
        (consumers.mpi4py_buffer_of_interface, {"mask": object()}, BufferError),
        (consumers.mpi4py_buffer_of_interface, {"strides": (4, 16)}, BufferError),
        (consumers.mpi4py_buffer_of_interface, {"strides": [8, 4]}, TypeError),
    ],
)
def test_interfaces_are_refused(consumer, changes, error):
    with pytest.raises(error):
        consumer(None, Interface(changes), 77)


@pytest.mark.parametrize("consumer", [consumers.cupy_asarray, consumers.torch_as_tensor])
def test_only_a_dict_is_a_dict(consumer):
    with pytest.raises(TypeError):
        consumer(None, Interface(kind=Dict), 77)


def test_jax_looks_for_a_stream_that_old_versions_have_not():
    old = {name: value for name, value in PLAIN.items() if name != "version"}
    producer = Interface()
    producer.__cuda_array_interface__ = {**old, "version": 1}
    with pytest.raises(KeyError), pytest.warns(UserWarning, match="untested"):
        consumers.jax_array_of_interface(None, producer, 77)


def test_mpi4py_warns_of_a_second_description():
    producer = Interface({"descr": [("x", "<f4")]})
    with pytest.warns(RuntimeWarning, match="descr"):
        consumers.mpi4py_buffer_of_interface(None, producer, 77)


@pytest.mark.parametrize(
    ("consumer", "readonly"),
    [
        (consumers.cupy_asarray, False),
        (consumers.cuda_core_view, True),
        (consumers.mpi4py_buffer_of_interface, True),
    ],
)
def test_some_keep_the_flag(consumer, readonly):
    view = consumer(None, Interface({"data": (4096, True)}), 77)
    assert view.readonly is readonly
    if readonly:
        with pytest.raises(ValueError, match="read-only"):
            view.fill(1)


# ---- DLPack.


class Producer:
    """Says that it is on `device`, and counts how often its tensors are deleted."""

    def __init__(self, device=CUDA, *, knows=("stream", "max_version", "copy"), **options):
        self.device, self.knows, self.options = device, knows, options
        self.asked, self.deleted, self.alive = [], 0, []

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **keywords):
        self.asked.append(keywords)
        if not set(keywords) <= set(self.knows):
            raise TypeError("unexpected keyword")
        strides = self.options.get("strides", (2, 1))
        shape = (ctypes.c_int64 * 2)(4, 2)
        tensor = DLTensor(4096, *self.device, 2, 2, 32, 1, shape, (ctypes.c_int64 * 2)(*strides), 8)
        deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.delete)
        address = ctypes.cast(deleter, ctypes.c_void_p).value
        if "max_version" in keywords:
            flags = READ_ONLY if self.options.get("readonly") else 0
            managed = Versioned(1, 0, None, address, flags, tensor)
            managed.major = self.options.get("major", 1)
            name = b"dltensor_versioned"
        else:
            if self.options.get("readonly"):
                raise BufferError("read-only")
            managed, name = Unversioned(tensor, None, address), b"dltensor"
        self.alive.append((managed, deleter, shape))
        return new_capsule(managed, name)

    def delete(self, _address):
        self.deleted += 1


TENSOR_CONSUMERS = {
    consumers.torch_from_dlpack: [{"stream": 77, "max_version": (1, 0)}],
    consumers.cupy_from_dlpack: [{"stream": 77, "max_version": (1, 0), "copy": None}],
    consumers.jax_from_dlpack: [{"stream": 77}],
    consumers.cuda_core_dlpack: [{"stream": 77, "max_version": (1, 0)}],
    consumers.numba_kernel_argument: [
        {"stream": -1, "max_version": (1, 0)},
        {"stream": 77, "max_version": (1, 0)},
    ],
    consumers.nanobind_reads: [{}],
    consumers.nanobind_writes: [{"max_version": (1, 1)}],
    consumers.mpi4py_buffer: [{"stream": -1, "max_version": (1, 0), "copy": False}],
    consumers.tvm_ffi_from_dlpack: [{}],
}


@pytest.mark.parametrize("consumer", TENSOR_CONSUMERS, ids=lambda it: it.__name__)
def test_each_asks_as_it_does(consumer):
    producer = Producer()
    view = consumer(None, producer, 77)
    assert producer.asked == TENSOR_CONSUMERS[consumer]
    core = consumer in (consumers.cuda_core_dlpack, consumers.numba_kernel_argument)
    assert view.address == 4096 + (0 if core else 8)  # cuda.core ignores the offset
    del view
    # A capsule of this producer's does not free what nobody took over.
    assert producer.deleted == (0 if consumer is consumers.mpi4py_buffer else 1)


@pytest.mark.parametrize(
    ("consumer", "device", "error"),
    [
        (consumers.torch_from_dlpack, CUDA_HOST, BufferError),
        (consumers.torch_from_dlpack, MANAGED, BufferError),
        (consumers.cupy_from_dlpack, CPU, TypeError),
        (consumers.cupy_from_dlpack, CUDA_HOST, TypeError),
        (consumers.jax_from_dlpack, MANAGED, ValueError),
        (consumers.cuda_core_dlpack, (10, 0), BufferError),
    ],
)
def test_devices_are_refused(consumer, device, error):
    producer = Producer(device)
    with pytest.raises(error):
        consumer(None, producer, 77)
    assert producer.asked == []


@pytest.mark.parametrize(
    ("consumer", "options", "error"),
    [
        (consumers.torch_from_dlpack, {"major": 2}, BufferError),
        (consumers.cupy_from_dlpack, {"major": 2}, BufferError),
        (consumers.jax_from_dlpack, {"strides": (4, 1)}, ValueError),
        (consumers.jax_from_dlpack, {"readonly": True}, BufferError),
        (consumers.mpi4py_buffer, {"strides": (1, 4)}, BufferError),
        (consumers.nanobind_writes, {"readonly": True}, TypeError),
        (consumers.tvm_ffi_from_dlpack, {"readonly": True}, BufferError),
    ],
)
def test_tensors_are_refused(consumer, options, error):
    with pytest.raises(error):
        consumer(None, Producer(**options), 77)


@pytest.mark.parametrize(
    ("consumer", "calls"),
    [
        (consumers.torch_from_dlpack, 2),
        (consumers.cupy_from_dlpack, 2),
        (consumers.cuda_core_dlpack, 2),
        (consumers.nanobind_writes, 2),
    ],
)
def test_who_is_not_understood_asks_for_less(consumer, calls):
    producer = Producer(knows=("stream",))
    consumer(None, producer, 77)
    assert len(producer.asked) == calls


def test_who_may_not_write_asks_for_a_version():
    producer = Producer(readonly=True)
    assert consumers.nanobind_reads(None, producer, 77).readonly
    assert producer.asked == [{}, {"max_version": (1, 1)}]
    assert consumers.cuda_core_dlpack(None, producer, 77).readonly
    assert not consumers.torch_from_dlpack(None, producer, 77).readonly


def test_mpi4py_leaves_the_capsule_its_name():
    view = consumers.mpi4py_buffer(None, Producer(), 77)
    assert get_name(view.owner) == b"dltensor_versioned"
