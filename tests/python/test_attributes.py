"""Attributes of arrays: what their creator says of them, for whoever opens them."""

import json
import pickle
import subprocess
import sys
from types import MappingProxyType

import memlease
import numpy as np
import pytest
from memlease.testing import Daemon

EVERY_KIND = {
    "axes": ["lat", "lon"],
    "empty": [],
    "long_name": "température",
    "origin": [0.0, -0.5],
    "periodic": True,
    "scale": 0.1,
    "step": -3,
    "tiles": [2, 2**62],
    "units": "K",
}


def created(client, attributes, name="u", **options):
    return client.create(name, 3, "f4", attributes=attributes, **options)


def typed(attributes):
    """With types, which == does not look at."""
    return [(name, repr(value)) for name, value in attributes.items()]


def test_what_is_given_at_creation_is_there(memlease_client):
    array = created(memlease_client, EVERY_KIND)
    assert array.attributes == EVERY_KIND
    assert typed(array.attributes) == typed(EVERY_KIND)
    assert memlease_client.open("u").attributes == EVERY_KIND


def test_without_any_there_are_none(memlease_client):
    assert memlease_client.create("u", 3, "f4").attributes == {}
    assert memlease_client.put("v", np.zeros(3), attributes={"units": "K"}).attributes == {
        "units": "K"
    }


def test_they_are_read_only_and_each_look_has_values_of_its_own(memlease_client):
    array = created(memlease_client, {"origin": [0.0]})
    assert isinstance(array.attributes, MappingProxyType)
    with pytest.raises(TypeError):
        array.attributes["units"] = "K"
    array.attributes["origin"].append(1.0)
    assert array.attributes == {"origin": [0.0]}


def test_another_process_sees_them(memlease_client):
    created(memlease_client, EVERY_KIND)
    code = """
import json, memlease, sys
print(json.dumps(dict(memlease.connect(sys.argv[1]).open("u").attributes)))
"""
    command = [sys.executable, "-c", code, memlease_client.directory]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert typed(json.loads(run.stdout)) == typed(EVERY_KIND)


def test_scalars_and_arrays_of_numpy_become_pythons(memlease_client):
    given = {
        "a": np.float32(0.5),
        "b": np.int16(-3),
        "c": np.bool_(True),
        "d": np.str_("K"),
        "e": np.array([1, 2], "u1"),
        "f": np.array([0.5, 1], "f2"),
        "g": np.array(7),
        "h": [np.float64(1), np.int32(2)],
        "i": (1, 2.5),
        "j": np.array(["lat", "lon"]),
    }
    plain = {
        "a": 0.5,
        "b": -3,
        "c": True,
        "d": "K",
        "e": [1, 2],
        "f": [0.5, 1.0],
        "g": 7,
        "h": [1.0, 2.0],
        "i": [1.0, 2.5],
        "j": ["lat", "lon"],
    }
    assert typed(created(memlease_client, given).attributes) == typed(plain)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"x": None}, "'x' has a NoneType"),
        ({"x": b"K"}, "'x' has a bytes"),
        ({"x": {"y": 1}}, "'x' has a dict"),
        ({"x": 1j}, "'x' has a complex"),
        ({"x": [[1]]}, "'x' has a list"),
        ({"x": np.zeros((2, 2))}, "'x' has a list"),
        ({"x": np.datetime64("2026-01-01")}, "'x' has a date"),
        ({"x": ["a", 1]}, "'x' is a list of int and str"),
        ({"x": [True, False]}, "'x' is a list of bool"),
        ({"x": 2**63}, "'x' is 9223372036854775808, which is beyond 64 bits"),
        ({"x": "\ud800"}, "'x' is not text in UTF-8"),
        ({"": 1}, "the name of an attribute is empty"),
        ({"a\n": 1}, "the name of an attribute has a control character"),
        ({"\udc80": 1}, "is not text in UTF-8"),
        ({3: 1}, "the name of an attribute is 3, not a string"),
        ({"x" * 256: 1}, "256 bytes, at most 255"),
        ({"x": "t" * 2**15}, "the attributes take 32793 bytes, at most 32768"),
        ([("x", 1)], "is not a mapping"),
    ],
)
def test_what_cannot_be_an_attribute_is_refused(memlease_client, attributes, message):
    with pytest.raises(memlease.InvalidArgument, match=message):
        created(memlease_client, attributes)
    assert memlease_client.list() == []


def test_an_array_that_exists_keeps_its_own(memlease_client):
    created(memlease_client, {"units": "K"})
    for others in ({"units": "degree"}, None):
        array = created(memlease_client, others, exist_ok=True)
        assert (array.created, array.attributes) == (False, {"units": "K"})


def test_a_pickled_handle_has_them(memlease_client):
    array = created(memlease_client, EVERY_KIND)
    assert pickle.loads(pickle.dumps(array)).attributes == EVERY_KIND
    array.close()
    assert memlease_client.open("u").attributes == EVERY_KIND


def test_a_forked_child_has_them(memlease_client):
    created(memlease_client, EVERY_KIND)
    code = """
import json, memlease, os, sys
array = memlease.connect(sys.argv[1]).open("u")
if (pid := os.fork()) == 0:
    array.version  # opens it again
    print(json.dumps(dict(array.attributes)), flush=True)
    os._exit(0)
os.waitpid(pid, 0)
"""
    command = [sys.executable, "-c", code, memlease_client.directory]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert typed(json.loads(run.stdout)) == typed(EVERY_KIND)


def test_a_restarted_daemon_has_those_of_its_own_arrays(memlease_daemon, tmp_path):
    """The old handle shows what it had: that needs no daemon."""
    with memlease_daemon.connect() as client:
        lost = created(client, {"units": "K"}, lifetime="persistent", exist_ok=True)
        memlease_daemon.kill()
        again = Daemon(memlease_daemon.directory, tmp_path / "log")
        try:
            with again.connect() as other:
                assert other.list() == []
                array = created(other, {"units": "degree"}, exist_ok=True)
                assert array.attributes == {"units": "degree"}
                assert lost.attributes == {"units": "K"}
        finally:
            again.stop()
