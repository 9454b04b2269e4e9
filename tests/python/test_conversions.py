"""What put() makes of sources of another dtype or shape."""

import warnings

import memlease
import ml_dtypes
import numpy as np
import pytest


@pytest.mark.parametrize(
    ("dtype", "source"),
    [
        ("f4", np.array([1.5, 2])),
        ("f8", np.array([1.5, 2], "f4")),
        ("f4", np.array([1, 2])),
        ("i4", np.array([1, 2])),
        ("c8", np.array([1.5, 2])),
        ("u1", np.array([True, False])),
        ("bfloat16", np.array([1.5, 2], "f4")),
        ("f4", np.array([1.5, 2], ml_dtypes.bfloat16)),
        ("f4", np.array([1.5, 2], ">f8")),
        ("f4", np.arange(4.0)[::2]),
    ],
    ids=lambda value: value if isinstance(value, str) else str(value.dtype),
)
def test_put_converts_as_numpy_assigns(memlease_client, dtype, source):
    array = memlease_client.create("a", shape=2, dtype=dtype)
    array.put(source)
    assert array.get().tolist() == source.tolist()
    assert memlease_client.put("a", source).dtype == array.dtype
    with array.write() as lease:
        lease[...] = source
    assert array.get().tolist() == source.tolist()


def test_a_float_becomes_an_integer_only_if_asked(memlease_client):
    array = memlease_client.create("a", 2, "i4", fill=7)
    for source in (np.array([1.7, 2.2]), [1.7, 2.2]):
        with pytest.raises(memlease.InvalidArgument) as caught:
            array.put(source)
        assert caught.value.message == "the source is float64[2], and 'a' is int32[2]"
        assert "casting='unsafe'" in caught.value.hint
        assert array.get().tolist() == [7, 7]
        assert memlease_client.put("a", source, casting="unsafe").get().tolist() == [1, 2]
        array.put([7, 7])


def test_casting_is_numpys(memlease_client):
    array = memlease_client.create("a", 2, "f4")
    array.put(np.array([1, 2], "i2"), casting="safe")
    for casting in ("no", "equiv", "safe"):
        with pytest.raises(memlease.InvalidArgument, match="source is float64"):
            array.put(np.array([1.0, 2]), casting=casting)
        array.put(np.array([1, 2], "f4"), casting=casting)
    with pytest.raises(memlease.InvalidArgument, match="casting='same' is not known"):
        array.put([1, 2], casting="same")
    byte = memlease_client.create("b", 2, "u1")
    byte.put([-1, 300], casting="unsafe")
    assert byte.get().tolist() == [255, 44]


def test_one_element_is_taken_for_all(memlease_client):
    array = memlease_client.create("a", (2, 3), "f4", order="F")
    for number in (1, 2.5, np.float64(3), np.array(4)):
        array.put(number)
        assert array.get().tolist() == [[float(number)] * 3] * 2
    assert memlease_client.put("a", 5).get().tolist() == [[5] * 3] * 2
    with pytest.raises(memlease.InvalidArgument, match="source is"):
        array.put([1])


def test_client_put_takes_a_dtype(memlease_client):
    array = memlease_client.put("a", [1, 2], dtype="f4")
    assert (array.dtype, array.get().tolist()) == (np.float32, [1, 2])
    assert memlease_client.put("a", [3, 4], dtype=np.float32).version == 2
    with pytest.raises(memlease.AlreadyExists):
        memlease_client.put("a", [3, 4], dtype=float)
    with pytest.raises(memlease.InvalidArgument, match="source is float64"):
        memlease_client.put("b", [1.5], dtype=int)
    assert memlease_client.list() == ["a"]


@pytest.mark.parametrize(
    "dates", [np.zeros(2, "M8[s]"), np.zeros(2, "m8[ns]"), [np.datetime64(3, "D")]]
)
def test_dates_and_durations_are_refused(memlease_client, dates):
    with pytest.raises(
        memlease.InvalidArgument, match=r"neither dates nor durations .*view\('i8'\)"
    ):
        memlease_client.put("when", dates)
    assert memlease_client.put("when", np.asarray(dates).view("i8")).dtype == np.int64


def test_masks_are_refused(memlease_client):
    masked = np.ma.masked_values([1.0, -9999, 3], -9999)
    array = memlease_client.create("a", 3, "f8", fill=0)
    for call in (
        lambda: array.put(masked),
        lambda: memlease_client.put("b", masked),
        lambda: memlease_client.create("b", 3, "f8", fill=masked),
    ):
        with pytest.raises(memlease.InvalidArgument, match="a masked array") as caught:
            call()
        assert "filled" in caught.value.hint
    array.put(masked.filled(2))
    assert array.get().tolist() == [1, 2, 3]
    assert memlease_client.list() == ["a"]


def test_an_overflow_is_numpys_warning(memlease_client):
    array = memlease_client.create("a", 2, "f4")
    with pytest.warns(RuntimeWarning, match="overflow"):
        array.put(np.array([1e300, 1]))
    assert array.get().tolist() == [float("inf"), 1]


def test_what_numpy_warns_of_is_warned_of_at_the_line_of_the_caller(memlease_client):
    single = memlease_client.create("single", shape=2, dtype="f4", fill=0)
    double = memlease_client.create("double", shape=2, dtype="f8", fill=1e300)
    calls = [
        lambda: single.put(np.full(2, 1e300)),
        lambda: memlease_client.put("single", np.full(2, 1e300)),
        lambda: double.get(np.zeros(2, "f4")),
        lambda: memlease_client.get("double", np.zeros(2, "f4")),
    ]
    for call in calls:
        with pytest.warns(RuntimeWarning, match="^overflow encountered in cast$") as caught:
            call()
        assert [warning.filename for warning in caught] == [__file__]
        with np.errstate(over="ignore"), warnings.catch_warnings():
            warnings.simplefilter("error")
            call()
        with np.errstate(over="raise"), pytest.raises(FloatingPointError):
            call()


def test_what_numpy_gives_to_a_function_of_the_users_goes_there(memlease_client):
    single = memlease_client.create("single", shape=2, dtype="f4", fill=0)
    seen = []
    with np.errstate(over="call", call=lambda kind, flag: seen.append(kind)):
        single.put(np.full(2, 1e300))
    assert seen == ["overflow"]
