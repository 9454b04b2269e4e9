"""Clients and arrays: names, specs, versions, errors."""

import os
import pickle

import memlease
import ml_dtypes
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


def test_device_cpu_is_host(memlease_client):
    assert memlease_client.create("a", shape=1, dtype="u1", device="cpu").device == "host"


def test_exist_ok_opens_an_equal_array_only(memlease_client):
    first = memlease_client.create("a", shape=(2, 3), dtype="i4")
    assert memlease_client.create("a", shape=(2, 3), dtype="int32", exist_ok=True).id == first.id
    with pytest.raises(memlease.AlreadyExists) as caught:
        memlease_client.create("a", shape=(3, 2), dtype="i4", exist_ok=True)
    assert isinstance(caught.value, FileExistsError)
    with pytest.raises(memlease.AlreadyExists):
        memlease_client.create("a", shape=(2, 3), dtype="i4")


def test_fill_publishes_version_1_once(memlease_client):
    a = memlease_client.create("a", shape=3, dtype="f8", fill=2.5)
    assert a.version == 1
    assert memlease_client.get("a").tolist() == [2.5] * 3
    memlease_client.create("a", shape=3, dtype="f8", fill=7, exist_ok=True)
    assert memlease_client.get("a").tolist() == [2.5] * 3


def test_fill_is_broadcast_and_becomes_the_dtype(memlease_client):
    rows = memlease_client.create("rows", shape=(2, 3), dtype="u1", fill=np.arange(3))
    assert rows.get().tolist() == [[0, 1, 2]] * 2
    column = memlease_client.create("column", shape=(2, 3), dtype="f4", order="F", fill=[[1], [2]])
    assert column.get().tolist() == [[1] * 3, [2] * 3]
    assert memlease_client.create("one", shape=(), dtype="f8", fill=np.float32(0.5)).get() == 0.5
    assert memlease_client.create("flags", shape=2, dtype="bool", fill=[0, 1]).get()[1]
    assert memlease_client.create("none", shape=(0, 3), dtype="f4", fill=1).get().shape == (0, 3)


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [
        ("f4", [1, 2]),
        ("f4", np.zeros((1, 2, 3))),
        ("f4", [[1, 2, 3], [4]]),
        ("f4", 1j),
        ("f4", "1"),
        ("f4", 1e300),
        ("f4", np.float64(1e300)),
        ("f4", {}),
        ("u1", -1),
        ("u1", np.int64(-1)),
        ("u1", 256),
        ("bool", 2),
        ("i4", 0.5),
        ("i4", np.full((2, 3), np.nan)),
    ],
)
@pytest.mark.parametrize("exist_ok", [False, True])
def test_what_cannot_fill_leaves_no_array_behind(memlease_client, dtype, fill, exist_ok):
    with pytest.raises(memlease.InvalidArgument) as caught:
        memlease_client.create("a", shape=(2, 3), dtype=dtype, fill=fill, exist_ok=exist_ok)
    assert caught.value.hint
    assert not memlease_client.exists("a")


def test_an_array_whose_first_version_fails_is_withdrawn_by_who_made_it(
    memlease_client, monkeypatch
):
    def fail(*_arguments):
        raise KeyboardInterrupt

    stands = memlease_client.create("stands", shape=3, dtype="f4")
    monkeypatch.setattr(memlease.Array, "write", fail)
    with pytest.raises(KeyboardInterrupt):
        memlease_client.create("a", shape=3, dtype="f4", fill=1, exist_ok=True)
    assert not memlease_client.exists("a")
    with pytest.raises(KeyboardInterrupt):
        memlease_client.create("stands", shape=3, dtype="f4", fill=1, exist_ok=True)
    assert memlease_client.open("stands").id == stands.id


def test_orders_and_strides(memlease_client):
    f = memlease_client.create("f", shape=(2, 3), dtype="f4", order="F", fill=0)
    assert f.strides == (4, 8)
    with f.read() as r:
        assert r.array.flags.f_contiguous
    gaps = memlease_client.create("gaps", shape=(2, 3), dtype="f4", strides=(64, 8))
    assert gaps.strides == (64, 8)
    assert gaps.size_bytes == 64 + 2 * 8 + 4
    values = np.arange(6, dtype="f4").reshape(2, 3)
    gaps.put(values)
    assert np.array_equal(gaps.get(), values)
    with gaps.read() as r:
        assert r.array.strides == (64, 8)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"dtype": "floaty"}, memlease.InvalidArgument),
        ({"dtype": object}, memlease.InvalidArgument),
        ({"dtype": np.dtype(">f4")}, memlease.InvalidArgument),
        ({"dtype": np.dtype([("x", "f4")])}, memlease.InvalidArgument),
        ({"shape": (-1, 2)}, memlease.InvalidArgument),
        ({"shape": (2**40, 2**40)}, memlease.InvalidArgument),
        ({"shape": (1.5,)}, memlease.InvalidArgument),
        ({"shape": 4.0}, memlease.InvalidArgument),
        ({"shape": None}, memlease.InvalidArgument),
        ({"shape": 2**70}, memlease.InvalidArgument),
        ({"name": 3}, memlease.InvalidArgument),
        ({"name": ""}, memlease.InvalidArgument),
        ({"name": "a/../b"}, memlease.InvalidArgument),
        ({"slots": 0}, memlease.InvalidArgument),
        ({"slots": 65}, memlease.InvalidArgument),
        ({"slots": -1}, memlease.InvalidArgument),
        ({"slots": 2.5}, memlease.InvalidArgument),
        ({"mode": "0660"}, memlease.InvalidArgument),
        ({"mode": -1}, memlease.InvalidArgument),
        ({"strides": 4.0}, memlease.InvalidArgument),
        ({"strides": (4.0, 8)}, memlease.InvalidArgument),
        ({"device": 0}, memlease.InvalidArgument),
        ({"strides": (4, 4)}, memlease.InvalidArgument),
        ({"strides": (4,)}, memlease.InvalidArgument),
        ({"order": "K"}, memlease.InvalidArgument),
        ({"lifetime": "forever"}, memlease.InvalidArgument),
        ({"device": "abacus"}, (memlease.InvalidArgument, memlease.Unsupported)),
    ],
    ids=str,
)
def test_bad_specs_are_refused_with_reason_and_remedy(memlease_client, arguments, error):
    good = {"name": "a", "shape": (2, 3), "dtype": "f4"}
    with pytest.raises(error) as caught:
        memlease_client.create(**(good | arguments))
    assert caught.value.message
    assert caught.value.hint
    assert caught.value.code in str(caught.value)
    assert memlease_client.list() == []


def test_arguments_of_wrong_types_are_named(memlease_client):
    for call, text in (
        (lambda: memlease_client.create(3, shape=1, dtype="f4"), "name=3"),
        (lambda: memlease_client.open(b"a"), "name=b'a'"),
        (lambda: memlease_client.get(None), "name=None"),
        (lambda: memlease_client.put([1.0], "a"), r"name=\[1.0\]"),
        (lambda: memlease_client.exists(3), "name=3"),
        (lambda: memlease_client.withdraw(3), "name=3"),
        (lambda: memlease_client.list(3), "pattern=3"),
        (lambda: memlease_client.wait_for(3), "name=3"),
        (
            lambda: memlease_client.wait_for("a", timeout="1"),
            "seconds, 0 or more, got '1'",
        ),
    ):
        with pytest.raises(memlease.InvalidArgument, match=text) as caught:
            call()
        assert caught.value.hint


def test_whole_numbers_of_numpy_are_taken(memlease_client):
    assert memlease_client.create("a", shape=np.int64(4), dtype="f4").shape == (4,)
    assert memlease_client.create("b", shape=np.array([2, 3]), dtype="f4").shape == (2, 3)
    assert memlease_client.create("c", shape=1, dtype="f4", slots=np.uint8(5)).slots == 5


def test_a_handle_is_no_array_of_numpy(memlease_client):
    array = memlease_client.put("a", np.arange(3))
    assert array
    for call in (
        lambda: np.asarray(array),
        lambda: np.add(array, 1),
        lambda: memlease_client.put("b", array),
        lambda: array[0],
        lambda: array.__setitem__(0, 1),
        lambda: len(array),
        lambda: list(array),
    ):
        with pytest.raises(memlease.Unsupported, match="take a lease") as caught:
            call()
        assert "lease.array" in caught.value.hint


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 3, 4, 5)])
def test_all_shapes_make_the_round_trip(memlease_client, shape):
    values = np.arange(np.prod(shape), dtype="i8").reshape(shape)
    array = memlease_client.put("a", values)
    assert (array.shape, array.nbytes) == (shape, values.nbytes)
    assert np.array_equal(array.get(), values)
    with array.read() as r:
        assert r.array.shape == shape


NUMPY_DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_all_numpy_dtypes_make_the_round_trip(memlease_client, dtype):
    values = (np.arange(24).reshape(4, 6) % 5).astype(dtype)[:, ::2]
    array = memlease_client.put("a", values)
    copy = array.get()
    assert copy.dtype == values.dtype
    assert np.array_equal(copy, values)


def test_get_into_out(memlease_client):
    array = memlease_client.put("a", np.arange(6.0).reshape(2, 3))
    out = np.zeros((3, 2), dtype="f8").T
    assert array.get(out) is out
    assert np.array_equal(out, [[0, 1, 2], [3, 4, 5]])
    with pytest.raises(memlease.InvalidArgument, match="shape"):
        array.get(np.zeros(6))
    with pytest.raises(TypeError):
        array.get(np.zeros((2, 3), dtype="i4"))


@pytest.mark.parametrize(
    "source",
    [
        [[1, 2], [3, 4]],
        bytearray(b"abcd"),
        b"abcd",
        memoryview(b"abcdefgh").cast("i"),
        np.arange(6).reshape(2, 3).T,
        np.arange(3, dtype=">i4"),
        np.float32(3.5),
    ],
    ids=lambda source: type(source).__name__,
)
def test_put_takes_anything_array_like(memlease_client, source):
    expected = np.frombuffer(source, "u1") if isinstance(source, bytes) else np.asarray(source)
    assert np.array_equal(memlease_client.put("a", source).get(), expected)


@pytest.mark.parametrize(
    ("dtype", "source"),
    [
        ("f4", [1.5, 2]),
        ("f4", (1, 2)),
        ("f2", range(2)),
        ("bfloat16", [1.5, 2]),
        ("i1", [-128, 127]),
        ("u8", [2**64 - 1, 0]),
        ("f8", [2**70, 1]),
        ("c8", [1.5, True]),
        ("f2", [float("inf"), 65504.0]),
        ("bfloat16", [float("-inf"), 2.0**70]),
        ("c8", [float("inf"), 2.0**70]),
        ("bool", [True, False]),
    ],
    ids=str,
)
def test_plain_numbers_become_the_arrays_dtype(memlease_client, dtype, source):
    array = memlease_client.create("a", shape=2, dtype=dtype)
    array.put(source)
    assert array.get().tolist() == list(source)
    assert memlease_client.put("a", source).version == 2
    memlease_client.create("one", shape=(), dtype=dtype).put(source[1])
    assert memlease_client.get("one").tolist() == source[1]
    memlease_client.create("none", shape=0, dtype=dtype).put([])


@pytest.mark.parametrize(
    ("dtype", "source", "text"),
    [
        ("i4", [1.5, 2], "source is float64"),
        ("i4", [1.0, 2.0], "source is float64"),
        ("f4", [1j, 0], "source is complex128"),
        ("bool", [0, 1], "source is int64"),
        ("i4", np.zeros(2), "source is float64"),
        ("u1", np.zeros(2, "i8"), "source is int64"),
        ("f4", np.zeros(2, "c8"), "source is complex64"),
        ("bfloat16", np.zeros(2, "c8"), "source is complex64"),
        ("i1", [0, 128], "has 128, which does not fit into int8 .*from -128 to 127"),
        ("u1", [0, -1], "has -1, which does not fit"),
        ("i8", [0, 2**70], f"has {2**70}, which does not fit"),
        ("f2", [0, 70000], "has 70000, which does not fit into float16 .*smaller numbers"),
        ("f2", [0, 65520.0], "has 65520.0, which does not fit"),
        ("f2", [0, -(2**70)], f"has -{2**70}, which does not fit"),
        ("f4", [0, 1e39], r"has 1e\+39, which does not fit into float32"),
        ("f4", [float("nan"), -1e39], r"has -1e\+39, which does not fit"),
        ("bfloat16", [0, 1e39], r"has 1e\+39, which does not fit into bfloat16"),
        ("bfloat16", [1, 2**200], "has an integer of 201 bits, which does not fit"),
        ("float8_e4m3fn", [0, 500], "has 500, which does not fit"),
        ("float8_e4m3fn", [0, float("inf")], "has inf, which does not fit"),
        ("c8", [0, 1e39j], r"has 1e\+39j, which does not fit into complex64"),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("error")
def test_numbers_that_the_arrays_dtype_cannot_hold_are_refused(
    memlease_client, dtype, source, text
):
    array = memlease_client.create("a", shape=2, dtype=dtype, fill=1)
    with pytest.raises(memlease.InvalidArgument, match=text):
        array.put(source)
    assert array.version == 1


@pytest.mark.parametrize("dtype", ["i8", "f2", "f8", "bfloat16", "c16"])
def test_an_integer_that_python_would_not_write_out_is_refused(memlease_client, dtype):
    array = memlease_client.create("a", shape=2, dtype=dtype)
    with pytest.raises(memlease.InvalidArgument, match="has an integer of 20001 bits, which does"):
        array.put([1, -(2**20000)])
    assert array.version == 0


def test_nan_is_taken_by_every_float(memlease_client):
    for dtype in ("f2", "f4", "f8", "bfloat16", "float8_e4m3fn", "c8"):
        array = memlease_client.create(dtype, shape=2, dtype=dtype)
        array.put([float("nan"), 1])
        assert np.isnan(array.get()).tolist() == [True, False]


@pytest.mark.parametrize(
    ("source", "way"),
    [
        ([1, 2, 3], ", as by np.broadcast_to"),
        ([[1], [2]], ", as by np.broadcast_to"),
        (range(6), ", as by np.reshape"),
        ([1, 2], ""),
        ([[[1]]], ""),
    ],
)
def test_the_hint_for_another_shape_is_one_that_helps(memlease_client, source, way):
    array = memlease_client.create("a", shape=(2, 3), dtype="f4")
    with pytest.raises(memlease.InvalidArgument) as caught:
        array.put(source)
    assert caught.value.hint == f"give one of shape (2, 3){way}"


class Object:
    def __repr__(self):
        return "Object()"


@pytest.mark.parametrize(
    ("source", "what"),
    [
        (None, "None"),
        ("hello", "of type str"),
        (["1", "2"], "of type list"),
        ([None, 1.0], "of type list"),
        ([1, [2]], "of type list"),
        ({1: 2}, "of type dict"),
        (Object(), "of type Object"),
        (np.zeros(2, dtype=[("x", "f4")]), "of type ndarray"),
        (np.zeros(2, dtype="M8[s]"), "of type ndarray"),
    ],
    ids=str,
)
def test_what_is_no_array_of_numbers_is_refused_with_what_is_taken(memlease_client, source, what):
    array = memlease_client.create("a", shape=2, dtype="f4")
    for put in (array.put, lambda source: memlease_client.put("b", source)):
        with pytest.raises(memlease.InvalidArgument, match=f"source is {what}") as caught:
            put(source)
        assert "a sequence of numbers" in caught.value.hint
    assert memlease_client.list() == ["a"]


def test_put_again_needs_no_call(memlease_client):
    array = memlease_client.put("a", np.zeros(3), slots=2)
    calls = memlease_client.calls
    assert memlease_client.put("a", np.ones(3)).version == 2
    assert memlease_client.calls == calls
    assert array.get().tolist() == [1, 1, 1]


def test_options_that_are_given_to_put_must_be_the_arrays(memlease_client):
    memlease_client.put("a", np.zeros(3), slots=2)
    assert memlease_client.put("a", np.ones(3), slots=2).version == 2
    with pytest.raises(memlease.AlreadyExists):
        memlease_client.put("a", np.zeros(3), slots=4)
    with pytest.raises(memlease.AlreadyExists):
        memlease_client.put("a", np.zeros(3), exist_ok=False)
    assert memlease_client.get("a").tolist() == [1, 1, 1]


def test_a_put_that_fails_withdraws_what_was_made_for_it(memlease_client):
    with pytest.raises(memlease.InvalidArgument, match="seconds, 0 or more, got -1"):
        memlease_client.put("a", np.zeros(3), wait=-1)
    assert memlease_client.list() == []
    array = memlease_client.create("a", shape=3, dtype="f8")
    with pytest.raises(memlease.InvalidArgument, match="seconds, 0 or more, got -1"):
        memlease_client.put("a", np.zeros(3), wait=-1, slots=3)
    assert array.put(np.ones(3)) == 1
    assert memlease_client.list() == ["a"]


def test_created_tells_whose_call_made_the_array(memlease_client):
    options = {"shape": 3, "dtype": "f8", "exist_ok": True}
    assert memlease_client.create("a", **options).created
    assert not memlease_client.create("a", **options).created
    assert not memlease_client.open("a").created
    assert memlease_client.put("b", np.zeros(3)).created
    assert not memlease_client.put("b", np.zeros(3)).created


def test_put_again_publishes_the_next_version(memlease_client):
    assert memlease_client.put("a", np.zeros(3)).version == 1
    assert memlease_client.put("a", np.ones(3)).version == 2
    assert memlease_client.get("a").tolist() == [1, 1, 1]
    array = memlease_client.open("a")
    assert array.put(np.full(3, 2.0)) == 3
    for wrong, hint in (
        (np.zeros(4), "shape (3,)"),
        (np.zeros(3, dtype="c8"), "np.asarray(source, 'float64')"),
    ):
        with pytest.raises(memlease.InvalidArgument, match="source is") as caught:
            array.put(wrong)
        assert hint in caught.value.hint
    assert array.version == 3


def test_a_write_that_comes_to_nothing_has_used_its_number(memlease_client):
    array = memlease_client.put("a", np.zeros(3))
    with array.follow(timeout=5) as versions:
        next(versions)
        array.write().drop()
        with pytest.raises(memlease.InvalidArgument):
            array.put(np.zeros(4))  # refused before it is a write
        assert array.put(np.ones(3)) == 3
        assert next(versions).version == 3
        assert versions.skipped == 1


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
        assert repr(w) == f"<memlease.WriteLease 'run42/u' v1 slot={w.slot}>"
        w[...] = 0
    assert repr(w).endswith("ended>")
    assert "run42/u' float32[512,512] host v1" in repr(array)
    assert memlease_client.directory in repr(memlease_client)


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
        (lambda: array.get(out=[1.0]), memlease.InvalidArgument, "out is of type list"),
        (lambda: array.get(np.zeros(2)), memlease.InvalidArgument, r"out has shape \(2,\)"),
        (lambda: memlease_client.put("b", [1], shape=1), TypeError, "no argument 'shape'"),
        (lambda: memlease_client.put("b", [1], timeout=1), TypeError, "no argument 'timeout'"),
        (lambda: memlease.Array("a"), TypeError, "Client.create, open"),
    ):
        with pytest.raises(error, match=text):
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
    for call in (array.read, array.write, array.update):
        with pytest.raises(memlease.Withdrawn):
            call()
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
    unpickled = references.open_reference(str(link), "a", array.id)
    with pytest.raises(memlease.DaemonUnavailable):
        unpickled.get()
    assert not unpickled.closed
    link.symlink_to(memlease_daemon.directory)
    assert unpickled.get().tolist() == [0, 1, 2]
    unpickled.close()
    assert unpickled.closed
    unopened = references.open_reference(str(tmp_path / "nowhere"), "a", 1)
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


def test_name_shape_and_dtype_go_by_position(memlease_client):
    array = memlease_client.create("a", (4, 4), "f4", slots=2)
    assert (array.shape, array.dtype, array.slots) == ((4, 4), np.float32, 2)
    with pytest.raises(TypeError):
        memlease_client.create("b", (4, 4), "f4", "host")


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("double", "float64"),
        ("single", "float32"),
        (float, "float64"),
        (int, "int64"),
        (bool, "bool"),
        (complex, "complex128"),
        (np.float32, "float32"),
        ("=f4", "float32"),
    ],
    ids=str,
)
def test_dtypes_are_understood_as_numpy_does(memlease_client, given, name):
    array = memlease_client.create("a", 2, given)
    assert array.dtype_name == name
    assert array.dtype == np.dtype(given)
    assert isinstance(array.dtype, np.dtype)


@pytest.mark.parametrize("given", [None, "U5", "i4,f4", ">f4", "M8[s]", str, object, 4, "nothing"])
def test_other_dtypes_are_refused(memlease_client, given):
    with pytest.raises(memlease.InvalidArgument) as caught:
        memlease_client.create("a", 2, given)
    assert caught.value.hint


def test_a_truth_is_no_extent(memlease_client):
    for shape in (True, (2, False)):
        with pytest.raises(memlease.InvalidArgument, match="whole numbers"):
            memlease_client.create("a", shape, "f4")


def test_a_dtype_of_ml_dtypes_is_one_of_numpy(memlease_client):
    array = memlease_client.create("a", 2, "bfloat16")
    assert array.dtype == ml_dtypes.bfloat16
    assert array.dtype_name == "bfloat16"


def test_a_pickled_client_connects_again(memlease_client):
    memlease_client.put("a", np.arange(3))
    with pickle.loads(pickle.dumps(memlease_client)) as other:
        assert other.list() == ["a"]
