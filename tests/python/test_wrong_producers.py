"""Producers that are wrong about their own arrays: a clear error, and nothing of theirs is kept."""

import ctypes
from unittest import mock

import memlease
import numpy as np
import pytest
from dlpack_structs import DLTensor, Unversioned, new_capsule
from hypothesis import example, given
from hypothesis import strategies as st
from memlease.cuda_sources import from_interface
from properties import tried

WORDS = 64  # of a producer's memory
MANY = tried(examples=80)
SHAPES = st.lists(st.integers(0, 4), max_size=3)
HUGE = st.sampled_from([-(2**63), -(2**40), -1, 2**62, 2**63 - 1])


class Producer:
    """One of DLPack, with a tensor of the test's choosing, which counts what it gets back."""

    def __init__(self, ndim, shape, strides=None, no_data=False):
        self.data = (ctypes.c_int32 * WORDS)(*range(WORDS))
        self.numbers = [
            None if it is None else (ctypes.c_int64 * max(len(it), 1))(*it)
            for it in (shape, strides)
        ]
        self.deleted = []
        self.deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.deleted.append)
        address = None if no_data else ctypes.addressof(self.data)
        self.managed = Unversioned(
            tensor=DLTensor(address, 1, 0, ndim, 0, 32, 1, *self.numbers, 0),
            deleter=ctypes.cast(self.deleter, ctypes.c_void_p).value,
        )

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **keywords):
        return new_capsule(self.managed, b"dltensor")


def refused(client, producer, match):
    with pytest.raises(memlease.InvalidArgument, match=match):
        client.put("a", producer)
    assert producer.deleted == [ctypes.addressof(producer.managed)]
    assert client.list() == []


@given(shape=SHAPES, strides=st.none() | st.lists(st.integers(0, 4), min_size=3, max_size=3))
@MANY
def test_a_sound_tensor_is_copied(memlease_client, shape, strides):
    """R-DLP-3: whatever its strides are."""
    strides = None if strides is None else strides[: len(shape)]
    producer = Producer(len(shape), shape, strides)
    with memlease_client.put("a", producer, exist_ok=False).read() as lease:
        data = np.arange(WORDS, dtype="i4")
        wanted = (
            data[: int(np.prod(shape))].reshape(shape)
            if strides is None
            else np.lib.stride_tricks.as_strided(data, shape, [4 * it for it in strides])
        )
        assert np.array_equal(lease.array, wanted)
    assert producer.deleted == [ctypes.addressof(producer.managed)]
    memlease_client.withdraw("a")


@given(shape=st.lists(st.integers(1, 4), min_size=1, max_size=3))
@MANY
def test_a_tensor_without_a_shape_is_refused(memlease_client, shape):
    refused(memlease_client, Producer(len(shape), None), "no shape")


@given(shape=st.lists(st.integers(1, 4), min_size=1, max_size=3))
@MANY
def test_a_tensor_without_memory_is_refused(memlease_client, shape):
    refused(memlease_client, Producer(len(shape), shape, no_data=True), "no memory")


@given(ndim=st.integers(-(2**31), -1) | st.integers(65, 2**31 - 1))
@MANY
def test_a_tensor_of_no_possible_number_of_axes_is_refused(memlease_client, ndim):
    refused(memlease_client, Producer(ndim, [1]), f"{ndim} axes")


@given(shape=st.lists(st.integers(1, 4), max_size=2), extent=HUGE, at=st.integers(0, 2))
@MANY
def test_a_tensor_of_no_possible_size_is_refused(memlease_client, shape, extent, at):
    shape.insert(at, extent)
    refused(memlease_client, Producer(len(shape), shape), "shape")


@given(shape=st.lists(st.integers(2, 4), max_size=2), stride=HUGE, at=st.integers(0, 2))
@MANY
def test_a_tensor_beyond_all_memory_is_refused(memlease_client, shape, stride, at):
    strides = [1] * len(shape)
    strides.insert(at, 2**62 if stride > 0 else -(2**62))
    shape.insert(at, 2)
    refused(memlease_client, Producer(len(shape), shape, strides), "strides")


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=4,
)
INTERFACES = st.fixed_dictionaries(
    {},
    optional={
        "shape": st.lists(st.integers(-2, 9), max_size=3).map(tuple) | ANYTHING,
        "typestr": st.sampled_from(["<f4", "|b1", ">f8", "<V8"]) | ANYTHING,
        "data": st.tuples(st.integers(-1, 2**65), st.booleans()) | ANYTHING,
        "strides": st.none() | ANYTHING,
        "stream": st.integers(-2, 5) | ANYTHING,
        "mask": st.none() | ANYTHING,
        "version": st.integers(0, 4) | ANYTHING,
    },
)


@given(interface=INTERFACES | ANYTHING)
@example(interface=[("version", 3)])
@example(interface=lambda: {"version": 3})
@example(interface={"version": np.arange(3)})
@example(interface={"version": 3, "typestr": 4, "shape": (1,), "data": (8, False)})
@tried(examples=300)
def test_any_interface_is_taken_or_refused(interface):
    """R-CAI-14, 16: and a refusal is memlease's own."""
    try:
        dtype, source = from_interface(interface, mock.sentinel.producer, ignore_stream=False)
    except (memlease.InvalidArgument, memlease.Unsupported):
        return
    assert source.shape == tuple(interface["shape"])
    assert dtype
