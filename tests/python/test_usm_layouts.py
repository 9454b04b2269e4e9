"""Layouts by the SYCL USM and the CUDA array interface and by DLPack: properties."""

import math

import memlease
import numpy as np
from dlpack_structs import look
from fake_dpctl import interface
from hypothesis import assume, given
from hypothesis import strategies as st
from memlease import _core
from memlease.interfaces import cuda_array_interface
from memlease.layouts import strides_of
from memlease.usm_sources import described
from properties import tried

TYPES = ["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
MANY = tried(examples=150)


@st.composite
def layouts(draw):
    """Make an array with gaps, negative strides and axes in any order, over its own memory."""
    dtype = np.dtype(draw(st.sampled_from(TYPES)))
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=3)))
    steps = [draw(st.sampled_from([1, 2, 3, -1, -2])) for _ in shape]
    whole = np.zeros([extent * abs(step) for extent, step in zip(shape, steps, strict=True)], dtype)
    cut = whole[(..., *(slice(None, None, step) for step in steps))]
    return cut.transpose(draw(st.permutations(range(len(shape)))))


@given(layouts())
@MANY
def test_three_protocols_say_the_same(array):
    """R-SYCL-2; R-CAI-3; R-DLP-4: of any layout, in bytes and in elements."""
    typestr, strides = _core.describe_usm(
        dtype=array.dtype.name, shape=array.shape, strides_bytes=array.strides
    )
    cuda = cuda_array_interface(array.dtype.name, array.shape, array.strides)
    assert (typestr, array.shape) == (cuda["typestr"], cuda["shape"])
    capsule = array.__dlpack__(max_version=(1, 0))
    tensor = look(capsule).tensor
    if array.size == 0:
        assert strides is None
        assert cuda["strides"] is None
        return
    assert (strides is None) == (cuda["strides"] is None)
    compact = strides_of(array.shape, array.itemsize, "C")
    in_bytes = cuda["strides"] or compact
    in_elements = strides or tuple(stride // array.itemsize for stride in compact)
    assert tuple(stride * array.itemsize for stride in in_elements) == in_bytes
    for axis in range(array.ndim):
        if array.shape[axis] > 1:
            assert tensor.strides[axis] == in_elements[axis]


@given(layouts())
@MANY
def test_what_is_described_is_found_again(array):
    """R-SYCL-2, 6: with an offset in elements from the array's lowest byte."""
    typestr, strides = _core.describe_usm(
        dtype=array.dtype.name, shape=array.shape, strides_bytes=array.strides
    )
    low, high = np.lib.array_utils.byte_bounds(array)
    offset = (array.ctypes.data - low) // array.itemsize
    found = described(
        interface(
            typestr=typestr, shape=array.shape, strides=strides, data=(low, True), offset=offset
        )
    )
    assert (found.dtype, found.shape, found.readonly) == (array.dtype.name, array.shape, True)
    if array.size == 0:
        assert found.size_bytes == 0
        return
    assert (found.address, found.address + found.size_bytes) == (low, high)
    assert found.address + found.first == array.ctypes.data
    for axis in range(array.ndim):
        if array.shape[axis] > 1:
            assert found.strides[axis] == array.strides[axis]


@given(
    st.dictionaries(
        st.sampled_from(["version", "typestr", "shape", "strides", "data", "offset", "syclobj"]),
        st.none()
        | st.integers(-(2**65), 2**65)
        | st.text(max_size=4)
        | st.lists(st.integers(-(2**65), 2**65), max_size=3).map(tuple)
        | st.sampled_from([..., True, 1.5, (0, False), (2**64 - 4, False), "<f4", "|f4", ">f4"]),
    )
)
@MANY
def test_any_dict_is_taken_or_refused(changes):
    """R-SYCL-1, 2, 6: with an error of memlease's."""
    try:
        found = described(interface(**changes))
    except (memlease.InvalidArgument, memlease.Unsupported):
        assume(changes)
        return
    assert found.address > 0 or found.size_bytes == 0
    assert found.address + found.size_bytes <= 2**64
    assert found.size_bytes >= (math.prod(found.shape) > 0) * _core.itemsize(found.dtype)
