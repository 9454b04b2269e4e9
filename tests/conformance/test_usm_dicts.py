"""Dicts of the SYCL USM array interface, which need no SYCL: what they say, and what is refused."""

import math
import sys

import fake_dpctl
import memlease
import numpy as np
import pytest
from dlpack_structs import look
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from memlease import _core
from memlease.interfaces import cuda_array_interface
from memlease.layouts import strides_of
from memlease.usm_sources import described

TYPES = ["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
WITHOUT_NAME = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
MANY = settings(max_examples=150, deadline=None)


def interface(**changes):
    """Return one of six float32 at an address, changed."""
    fields = {"version": 1, "typestr": "<f4", "shape": (2, 3), "strides": None}
    fields |= {"data": (4096, False), "offset": 0, "syclobj": "cpu"} | changes
    return {key: value for key, value in fields.items() if value is not ...}


# ---- Layouts. The elements are those of a NumPy array, cut and turned.


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


# ---- What is refused, and how.


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"version": 2}, "version 2"),
        ({"version": 0}, "version 0"),
        ({"version": ...}, "no 'version'"),
        ({"version": True}, "version=True"),
        ({"syclobj": None}, "syclobj=None"),
        ({"syclobj": ...}, "no 'syclobj'"),
        ({"shape": ...}, "no 'shape'"),
        ({"shape": (2, -3)}, "shape="),
        ({"shape": (2**40, 2**40)}, "impossible shape"),
        ({"typestr": ...}, "no 'typestr'"),
        ({"typestr": 4}, "typestr=4"),
        ({"typestr": ">f4"}, "other byte order"),
        ({"typestr": "|V2"}, "typestr '.V2'"),
        ({"typestr": "|O"}, "typestr '.O'"),
        ({"typestr": "<M8"}, "typestr '<M8'"),
        ({"typestr": "bfloat16"}, "typestr 'bfloat16'"),
        ({"typestr": "<f16"}, "f16"),
        ({"data": ...}, "no 'data'"),
        ({"data": 4096}, "data=4096"),
        ({"data": (0, False)}, "data="),
        ({"data": (2**64 - 8, False)}, "data="),
        ({"data": (4096, False), "offset": -(2**20)}, "data="),
        ({"strides": (3,)}, "1 strides for 2 axes"),
        ({"strides": (2**62, 1)}, "stride"),
        ({"strides": 3}, "strides=3"),
        ({"offset": 1.5}, "offset=1.5"),
        ({"offset": 2**62}, "reach further"),
    ],
    ids=repr,
)
def test_dicts_that_are_refused(memlease_client, changes, text):
    """R-SYCL-1, 2, 6: before any SYCL runtime is looked for."""
    with pytest.raises((memlease.InvalidArgument, memlease.Unsupported), match=text):
        memlease_client.put("a", fake_dpctl.Described(interface(**changes)))
    assert memlease_client.list() == []


def test_something_else_than_a_dict_is_refused(memlease_client):
    """R-SYCL-1: by its type."""
    with pytest.raises(memlease.InvalidArgument, match="type list"):
        memlease_client.put("a", fake_dpctl.Described([("version", 1)]))


@pytest.mark.parametrize("dtype", WITHOUT_NAME)
def test_types_without_a_name_are_not_exported(memlease_client, dtype):
    """R-SYCL-6: nor asked of SYCL; the error names DLPack."""
    with (
        memlease_client.create("a", shape=2, dtype=dtype, fill=0).read() as lease,
        pytest.raises(memlease.Unsupported, match="DLPack"),
    ):
        lease.sycl_usm("cpu")


def test_strides_that_no_element_count_can_say():
    """R-SYCL-2: no array of memlease has such."""
    with pytest.raises(memlease.Unsupported, match="not a multiple of the 4 bytes"):
        _core.describe_usm(dtype="float32", shape=(2,), strides_bytes=(6,))


def test_a_lease_has_no_interface_without_a_queue(memlease_client):
    """R-SYCL-5: so that libraries that look for one take its buffer."""
    with memlease_client.create("a", shape=2, dtype="f4", fill=0).read() as lease:
        assert not hasattr(lease, "__sycl_usm_array_interface__")


def test_no_elements_need_no_runtime(memlease_client):
    """R-SYCL-4: there is no memory that a context would have to know."""
    array = memlease_client.put("a", fake_dpctl.Described(interface(shape=(0, 3), data=(0, False))))
    assert (array.shape, array.dtype) == ((0, 3), np.dtype("f4"))


@pytest.mark.parametrize("call", ["put", "get", "assign", "export"])
def test_without_dpctl_the_error_says_so(memlease_client, monkeypatch, call):
    """R-SYCL-5: and how to do without."""
    for name in ("dpctl", "dpctl.memory"):
        monkeypatch.setitem(sys.modules, name, None)
    array = memlease_client.create("a", shape=(2, 3), dtype="f4", fill=0)
    source = fake_dpctl.Described(interface())
    calls = {
        "put": lambda: array.put(source),
        "get": lambda: array.get(out=source),
        "assign": lambda: array.write().__setitem__(..., source),
        "export": lambda: array.read().sycl_usm("cpu"),
    }
    with pytest.raises(memlease.Unsupported, match="pip install dpctl"):
        calls[call]()
    assert array.version == 1
