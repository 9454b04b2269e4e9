"""put and get: what is taken, and what comes out again."""

import pickle
import subprocess
import sys
import textwrap
import tracemalloc

import memlease
import numpy as np
import pytest


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


def test_what_can_be_copied_as_it_is_is_looked_at_as_closely(memlease_client):
    values = np.arange(6.0).reshape(2, 3)
    array = memlease_client.put("a", values)
    assert array.put(values, casting="no") == 2
    assert array.put(pickle.loads(pickle.dumps(values + 1))) == 3
    assert np.array_equal(array.get(), values + 1)
    for wrong in (
        {"source": values, "casting": "as it is"},
        {"source": values, "wait": -1},
        {"source": values.T},
        {"source": np.ma.masked_less(values, 2)},
        {"source": values.astype("c16")},
    ):
        with pytest.raises(memlease.InvalidArgument):
            array.put(**wrong)
    with pytest.raises(memlease.InvalidArgument, match="timeout"):
        array.get(values, timeout=-1)
    kept = values.copy()
    kept.flags.writeable = False
    with pytest.raises(memlease.InvalidArgument, match="read-only"):
        array.get(kept)
    assert array.version == 3
    big_endian = np.zeros((2, 3), ">f8")
    assert np.array_equal(array.get(big_endian), values + 1)
    assert array.put(big_endian) == 4
    assert np.array_equal(array.get(), values + 1)


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


def test_one_element_fills_a_region_that_is_a_whole_array_without_a_version(
    memlease_client,
):
    array = memlease_client.create("large", 1 << 18)
    array.put(2.5, region=slice(None))
    with array.read() as lease:
        assert lease.array.min() == lease.array.max() == 2.5


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["f8", "bfloat16"])
def test_one_element_fills_a_large_array_in_place(memlease_client, dtype, order):
    array = memlease_client.create("a", (2048, 1024), dtype, order=order, fill=1)
    tracemalloc.start()
    try:
        assert array.put(2.5) == 2
        assert array.put(np.float32(1.5), region=np.s_[1:]) == 3
        assert tracemalloc.get_traced_memory()[1] < array.nbytes // 8
    finally:
        tracemalloc.stop()
    values = array.get()
    assert (values[0] == 2.5).all()
    assert (values[1:] == 1.5).all()
    with pytest.raises(memlease.InvalidArgument):
        array.put(1j)
    assert array.version == 3


def test_put_says_which_arguments_it_has(memlease_client):
    with pytest.raises(TypeError, match="no argument 'timeout'; it has name, source, dtype, cast"):
        memlease_client.put("a", np.zeros(3), timeout=1)
    assert not memlease_client.exists("a")


# Python first sets each entry of sys.modules to None, then takes the modules' globals away.
@pytest.mark.parametrize("kept_by", ["an_entry", "a_global"])
def test_what_needs_numpy_while_the_interpreter_ends_says_that_it_does(memlease_client, kept_by):
    memlease_client.create("late", 3, "f4", fill=1)
    code = f"""
        import memlease, numpy, os, sys, types

        class Last:
            def __init__(self, array):
                self.report = os.write
                values = numpy.arange(3)
                self.calls = {{
                    "put of an array": lambda: array.put(values),
                    "put": lambda: array.put([1, 2, 3]),
                    "get": lambda: array.get(),
                    "view": lambda: array.read().array,
                }}

            def __del__(self):
                for name, call in self.calls.items():
                    try:
                        call()
                    except NotImplementedError as error:
                        self.report(1, f"{{name}}: {{error}}\\n".encode())

        last = types.ModuleType("last")
        last.kept = Last(memlease.connect(start=False).open("late"))
        sys.modules["last"] = last
        if {kept_by == "an_entry"}:
            del last
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    said = dict(line.split(": ", 1) for line in ended.stdout.splitlines())
    assert list(said) == ["put of an array", "put", "get", "view"], ended.stderr
    assert all("Python is likely shutting down" in text for text in said.values()), said
