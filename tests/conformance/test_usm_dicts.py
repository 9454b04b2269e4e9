"""Dicts of the SYCL USM array interface, which need no SYCL: what they say, and what is refused."""

import sys

import fake_dpctl
import memlease
import numpy as np
import pytest
from fake_dpctl import interface
from memlease import _core

WITHOUT_NAME = ("bfloat16", "float8_e4m3fn", "float8_e5m2")


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
    array = memlease_client.create("a", shape=2, dtype=dtype)
    array.write().publish()
    with array.read() as lease, pytest.raises(memlease.Unsupported, match="DLPack"):
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
