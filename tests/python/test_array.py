"""Clients and arrays: names, versions, handles, errors."""

import asyncio
import functools
import operator
import os
import pickle
import pwd
import re

import memlease
import numpy as np
import pytest
from memlease import references


def test_create_open_list_withdraw(memlease_client):
    created = memlease_client.create("sim/u", shape=(4, 5), dtype="f4")
    opened = memlease_client.open("sim/u")
    assert opened.id == created.id
    assert (opened.name, opened.dtype, opened.shape) == ("sim/u", "float32", (4, 5))
    assert (opened.strides, opened.device, opened.slots) == ((20, 4), "host", 3)
    assert (opened.ndim, opened.size, opened.itemsize, opened.nbytes) == (2, 20, 4, 80)
    assert (opened.lifetime, opened.mode, opened.version) == ("session", 0o600, 0)
    assert (opened.owner_uid, opened.owner_gid) == (os.geteuid(), os.getegid())
    assert opened.directory == memlease_client.directory
    memlease_client.create("sim/v", shape=3, dtype="f8", lifetime="persistent")
    assert sorted(memlease_client.list("sim/*")) == ["sim/u", "sim/v"]
    assert memlease_client.list("sim/?") == ["sim/u", "sim/v"]
    with pytest.raises(memlease.InvalidArgument, match="byte 0x5b at position 4"):
        memlease_client.list("sim/[v]")
    assert memlease_client.open("sim/v").lifetime == "persistent"
    assert memlease_client.exists("sim/v")
    memlease_client.withdraw("sim/v")
    assert not memlease_client.exists("sim/v")
    assert memlease_client.list() == ["sim/u"]


def test_an_owner_can_be_required(memlease_client):
    mine, someone = os.geteuid(), os.geteuid() + 1
    create = functools.partial(memlease_client.create, "a", 3)
    for owner in (mine, pwd.getpwuid(mine).pw_name, None):
        create(exist_ok=True, owner=owner)
        assert memlease_client.open("a", owner=owner).owner_uid == mine
        assert memlease_client.wait_for("a", 10, owner=owner).owner_uid == mine
        memlease_client.put("a", [1, 2, 3], owner=owner)
    for call in (
        lambda: memlease_client.open("a", owner=someone),
        lambda: memlease_client.wait_for("a", owner=someone),
        lambda: memlease_client.get("a", owner=someone),
        lambda: create(exist_ok=True, owner=someone),
    ):
        with pytest.raises(memlease.Denied, match=f"of uid {mine}, not of uid {someone}"):
            call()
    memlease_client.withdraw("a")
    with pytest.raises(memlease.Denied, match="cannot create one that belongs to"):
        create(exist_ok=True, owner=someone)
    with pytest.raises(memlease.InvalidArgument, match="owner goes with exist_ok"):
        create(owner=mine)
    with pytest.raises(memlease.InvalidArgument, match="'nobody-knows' is not a user"):
        memlease_client.open("a", owner="nobody-knows")
    with pytest.raises(memlease.InvalidArgument, match="owner=-1 is out of range"):
        memlease_client.open("a", owner=-1)
    assert memlease_client.list() == []


def test_a_handle_is_no_array_of_numpy(memlease_client):
    array = memlease_client.put("a", np.arange(3))
    assert array
    for call in (
        lambda: np.asarray(array),
        lambda: np.add(array, 1),
        lambda: memlease_client.put("b", array),
        lambda: array[0],
        lambda: list(array),
        lambda: array + 1,
        lambda: 2 * array,
        lambda: -array,
        lambda: array > 1,
        lambda: np.arange(3) + array,
        lambda: np.arange(3) == array,
        lambda: 1 in array,
    ):
        with pytest.raises(memlease.Unsupported, match="take a lease") as caught:
            call()
        assert "lease.array" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("mean", "with a.read() as lease: lease.array.mean"),
        ("array", "with a.read() as lease: lease.array"),
        ("publish", "with a.write() as lease: lease.publish"),
        ("sort", "with a.update() as w: w.array.sort"),
    ],
)
def test_a_handle_says_where_to_find_what_it_has_not(memlease_client, name, where):
    array = memlease_client.put("a", np.arange(3))
    with pytest.raises(
        AttributeError,
        match=re.escape(f"no attribute {name!r}; a ") + ".* has: " + re.escape(where) + "$",
    ):
        getattr(array, name)
    with pytest.raises(AttributeError, match=r"no attribute 'no_such'$"):
        array.no_such  # noqa: B018
    with pytest.raises(AttributeError, match=r"a client has: memlease.connect\(\).open$"):
        memlease.open  # noqa: B018


@pytest.mark.parametrize(
    ("name", "arguments", "made"),
    [("sort", (), [1, 2, 3]), ("fill", (7,), [7, 7, 7]), ("partition", (1,), [1, 2, 3])],
)
def test_what_writes_in_place_works_where_a_handle_says(memlease_client, name, arguments, made):
    array = memlease_client.put("a", np.array([2, 3, 1]))
    with pytest.raises(AttributeError, match=rf"with a.update\(\) as w: w.array.{name}$"):
        getattr(array, name)
    with array.update() as w:
        getattr(w.array, name)(*arguments)
    assert array.get().tolist() == made
    with pytest.raises(AttributeError, match="keeps the shape and layout"):
        array.resize(4)


def test_a_handle_has_the_length_of_its_first_axis(memlease_client):
    assert len(memlease_client.create("a", (3, 4), "f4")) == 3
    with pytest.raises(TypeError, match="no length"):
        len(memlease_client.create("b", (), "f4"))


def test_a_name_that_is_taken_by_this_process_itself_is_said_to_be(memlease_client):
    with memlease.connect(memlease_client.directory) as client:
        client.create("a", 3)
    with pytest.raises(memlease.AlreadyExists, match="this process itself") as caught:
        memlease_client.create("a", 3)
    assert "until this process ends" in caught.value.hint


def test_an_assignment_to_a_handle_says_how_to_write(memlease_client):
    array = memlease_client.put("a", np.arange(3))
    for call in (
        lambda: array.__setitem__(..., 3),
        lambda: array.__setitem__(0, 1),
        lambda: array.__delitem__(0),
        lambda: operator.iadd(array, 1),
        lambda: np.add([1, 2, 3], 1, out=array),
    ):
        with pytest.raises(memlease.Unsupported, match="publish a version") as caught:
            call()
        assert caught.value.hint == "array.put(x), or with array.write() as w: w[...] = x"
    assert array.get().tolist() == [0, 1, 2]


def test_not_found_is_a_readable_key_error(memlease_client):
    with pytest.raises(KeyError) as caught:
        memlease_client.open("nothing")
    assert isinstance(caught.value, memlease.NotFound)
    assert caught.value.code == "ML002"
    assert str(caught.value).endswith("[ML002]")
    assert "'nothing'" in str(caught.value)
    with pytest.raises(memlease.NotFound):
        memlease_client.withdraw("nothing")


def test_repr(memlease_client):
    array = memlease_client.create("run42/u", shape=(512, 512), dtype="f4")
    assert repr(array) == "<memlease.Array 'run42/u' float32[512,512] host v0 slots=3>"
    with array.write() as w:
        assert repr(w) == f"<memlease.WriteLease 'run42/u' float32[512,512] v1 slot={w.slot}>"
        w[...] = 0
    assert repr(w).endswith("ended>")
    assert "run42/u' float32[512,512] host v1" in repr(array)
    assert memlease_client.directory in repr(memlease_client)


def test_a_format_is_for_the_text_of_a_handle(memlease_client):
    array = memlease_client.create("a", 2, "f4")
    assert f"{array:>90}" == str(array).rjust(90)
    assert f"{array}" == str(array)


def test_a_handle_that_is_taken_for_numpys_array_says_what_to_do(memlease_client):
    array = memlease_client.create("a", (4,), "f4")
    with pytest.raises(AttributeError, match=r"no attribute 'mean'; .*lease.array.mean$"):
        array.mean()
    with pytest.raises(AttributeError, match=r"no attribute 'meen'$"):
        array.meen()
    assert not hasattr(array, "__array_interface__")


def test_wait_for_times_out(memlease_client):
    with pytest.raises(memlease.Timeout) as caught:
        memlease_client.wait_for("later", timeout=0.05)
    assert isinstance(caught.value, TimeoutError)


@pytest.mark.parametrize("wrong", [-1, float("nan"), "1", [1], 10**400], ids=str)
def test_wrong_times_are_refused(memlease_client, wrong):
    array = memlease_client.create("a", shape=1, dtype="f4")
    for argument, call in (
        ("wait", lambda: array.write(wrong)),
        ("wait", lambda: array.update(wait=wrong)),
        ("wait", lambda: array.put([1], wait=wrong)),
        ("timeout", lambda: array.get(timeout=wrong)),
        ("timeout", lambda: array.read(timeout=wrong)),
        ("timeout", lambda: array.follow(timeout=wrong)),
        ("timeout", lambda: memlease_client.wait_for("b", timeout=wrong)),
    ):
        with pytest.raises(memlease.InvalidArgument) as caught:
            call()
        text = f"{argument} must be a number of seconds, 0 or more, got {wrong!r}"
        assert caught.value.message == text


def test_wrong_calls_say_what_is_wrong(memlease_client):
    array = memlease_client.create("a", 1, "f4")
    for call, error, text in (
        (lambda: array.follow(1), TypeError, r"follow\(\) takes keyword arguments only"),
        (lambda: array.follow(after=-1), memlease.InvalidArgument, "after=-1 is not a version"),
        (lambda: array.follow(after="1"), TypeError, "after='1' is not a version number"),
        (lambda: array.read(newer_than="1"), TypeError, "newer_than='1' is not a version number"),
        (lambda: array.try_read(version=1.0), TypeError, r"version=1\.0 .* give an int, such as"),
        (lambda: array.get(out=[1.0]), memlease.InvalidArgument, "out is of type list"),
        (lambda: array.get(np.zeros(2)), memlease.InvalidArgument, r"out has shape \(2,\)"),
        (lambda: memlease_client.put("b", [1], shape=1), TypeError, "no argument 'shape'"),
        (lambda: memlease_client.put("b", [1], timeout=1), TypeError, "no argument 'timeout'"),
        (lambda: array.write(np.zeros(1)), memlease.InvalidArgument, r"array\.put\(x\) publishes"),
        (lambda: memlease.Array("a"), TypeError, "Client.create, open"),
    ):
        with pytest.raises(error, match=text):
            call()
    assert memlease_client.list() == ["a"]


def test_a_client_is_no_mapping_and_says_what_it_has(memlease_client):
    memlease_client.create("a", 1, "f4")
    for use in (
        lambda: memlease_client["a"],
        lambda: "a" in memlease_client,
        lambda: list(memlease_client),
        lambda: memlease_client.__setitem__("b", [1]),
        lambda: memlease_client.__delitem__("a"),
    ):
        with pytest.raises(memlease.Unsupported, match=r"a mapping .*client\.open\(name\) opens"):
            use()
    assert memlease_client.list() == ["a"]


def test_a_call_with_an_argument_that_it_has_not_names_those_that_it_has(memlease_client):
    array = memlease_client.create("a", 1, "f4")
    for call, text in (
        (lambda: array.put([1], timeout=1), "put() has no argument 'timeout'; it has source, cast"),
        (lambda: array.put(), "put() needs what to put"),
        (lambda: array.get(version=1), "get() has no argument 'version'; it has out, timeout, re"),
        (lambda: array.read(newer=1), "read() has no argument 'newer'; it has version, newer_tha"),
        (
            lambda: asyncio.run(array.read_async(version=1)),
            "read_async() has no argument 'version'",
        ),
        (lambda: memlease_client.create("b", 1, copy=1), "create() has no argument 'copy'; it has"),
        (
            lambda: memlease_client.open("a", mode="r"),
            "open() has no argument 'mode'; it has name,",
        ),
        (
            lambda: memlease_client.wait_for("a", wait=1),
            "wait_for() has no argument 'wait'; it has",
        ),
        (lambda: memlease_client.get("a", region=1), "get() has no argument 'region'; it has name"),
        (lambda: memlease.connect(path="."), "connect() has no argument 'path'; it has directory,"),
    ):
        with pytest.raises(TypeError, match=re.escape(text)):
            call()
    assert memlease_client.list() == ["a"]


def test_handles_after_close_and_withdraw(memlease_client):
    array = memlease_client.put("a", np.zeros(3))
    array.close()
    assert array.closed
    with pytest.raises(memlease.Closed):
        array.read()
    with pytest.raises(ValueError, match="ML014"):
        array.write()
    assert "closed" in repr(array)
    array = memlease_client.open("a")
    array.withdraw()
    for call in (array.read, array.write, array.update, lambda: array.version):
        with pytest.raises(memlease.Withdrawn):
            call()
    assert "Withdrawn" in repr(array)
    assert memlease.wait([array], 0) == [array]
    with pytest.raises(memlease.NotFound):
        memlease_client.open("a")


def test_a_lease_outlives_withdraw_and_close(memlease_client):
    array = memlease_client.put("a", np.arange(3))
    with array.read() as r:
        array.withdraw()
        array.close()
        assert r.array.tolist() == [0, 1, 2]


def test_a_closed_client_raises_closed(memlease_daemon):
    with memlease_daemon.connect() as client:
        pass
    with pytest.raises(memlease.Closed):
        client.list()
    with pytest.raises(memlease.Closed, match="connect again"), client:
        pytest.fail("it has been entered")


def test_a_pickled_array_is_a_reference(memlease_client):
    array = memlease_client.put("a", np.arange(3))
    data = pickle.dumps(array)
    assert len(data) < 300
    assert np.array_equal(pickle.loads(data).get(), [0, 1, 2])
    array.withdraw()
    unpickled = pickle.loads(data)
    assert pickle.dumps(unpickled) == data
    for use in (unpickled.get, unpickled.write, unpickled.follow, lambda: unpickled.shape):
        with pytest.raises(memlease.NotFound, match="'a'"):
            use()
    assert repr(unpickled) == "<memlease.Array 'a' NotFound>"
    memlease_client.put("a", np.arange(3))
    with pytest.raises(memlease.Withdrawn, match="another"):
        pickle.loads(data).get()


def test_a_pickled_array_that_cannot_be_opened_is_tried_again(memlease_daemon, tmp_path):
    client = memlease_daemon.connect()
    array = client.put("a", np.arange(3))
    link = tmp_path / "run"
    unpickled = references.open_reference(str(link), "a", array.id, "host")
    with pytest.raises(memlease.DaemonUnavailable):
        unpickled.get()
    assert not unpickled.closed
    link.symlink_to(memlease_daemon.directory)
    assert unpickled.get().tolist() == [0, 1, 2]
    unpickled.close()
    assert unpickled.closed
    unopened = references.open_reference(str(tmp_path / "nowhere"), "a", 1, "host")
    unopened.close()
    assert unopened.closed
    with pytest.raises(memlease.Closed):
        unopened.get()
    references.forget_clients(str(link))


def test_a_handle_closes_at_the_end_of_with(memlease_client):
    with memlease_client.put("a", np.arange(3)) as array:
        assert array.get().tolist() == [0, 1, 2]
    assert array.closed
    assert memlease_client.exists("a")


def test_a_pickled_client_connects_again(memlease_client):
    memlease_client.put("a", np.arange(3))
    with pickle.loads(pickle.dumps(memlease_client)) as other:
        assert other.list() == ["a"]


def test_clients_are_made_by_connect():
    with pytest.raises(TypeError, match=r"made by memlease.connect\(\)"):
        memlease.Client()
