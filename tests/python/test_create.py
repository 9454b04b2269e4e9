"""create: specs, dtypes, fill, and what is refused."""

import memlease
import ml_dtypes
import numpy as np
import pytest
from memlease.testing import Daemon


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


def test_an_array_that_the_daemon_lets_nobody_fill_is_withdrawn(tmp_path):
    daemon = Daemon(str(tmp_path / "run"), tmp_path / "log", "--quota-file-numbers=2")
    with daemon.connect() as client:
        with pytest.raises(memlease.QuotaExceeded, match="quota_file_numbers"):
            client.create("a", shape=3, dtype="f4", fill=1, lifetime="persistent")
        assert not client.exists("a")
    daemon.stop()


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


@pytest.mark.parametrize(("decimal", "meant"), [(640, "0o640"), (600, "0o600"), (666, "0o666")])
def test_a_mode_in_decimal_digits_is_asked_about(memlease_client, decimal, meant):
    with pytest.raises(memlease.InvalidArgument) as caught:
        memlease_client.create("a", 3, "f4", mode=decimal)
    assert caught.value.message == f"mode={decimal} is {oct(decimal)}"
    assert caught.value.hint == f"did you mean {meant}?"
    for mode in (0o777, 777, 0o1600):
        with pytest.raises(memlease.InvalidArgument, match="bits beside read and write"):
            memlease_client.create("a", 3, "f4", mode=mode)
    assert memlease_client.create("a", 3, "f4", mode=int(meant, 0)).mode == int(meant, 0)


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
        ({"name": "\udcff"}, memlease.InvalidArgument),
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


def test_created_tells_whose_call_made_the_array(memlease_client):
    options = {"shape": 3, "dtype": "f8", "exist_ok": True}
    assert memlease_client.create("a", **options).created
    assert not memlease_client.create("a", **options).created
    assert not memlease_client.open("a").created
    assert memlease_client.put("b", np.zeros(3)).created
    assert not memlease_client.put("b", np.zeros(3)).created


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
    assert "void" not in str(caught.value)  # which nobody gave


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"names": ["p"], "formats": [">i2"]}, "each field an array of its own"),
        ("i4,>f4", "each field an array of its own"),
        ("M8[D]", r"'int64', x\.view\('i8'\), and keep the unit in attributes"),
        (np.dtype("m8[ns]"), "keep the unit in attributes"),
        (">f4", r"array\.astype\('<f4'\)"),
    ],
    ids=str,
)
def test_a_dtype_that_is_refused_says_what_to_give(memlease_client, given, hint):
    with pytest.raises(memlease.InvalidArgument, match=hint):
        memlease_client.create("a", 2, given)


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="came with NumPy 2")
def test_strings_of_any_length_are_refused_by_their_own_name(memlease_client):
    dtype = np.dtypes.StringDType()
    for call in (
        lambda: memlease_client.create("a", 2, dtype),
        lambda: memlease_client.put("a", np.array(["x"], dtype)),
    ):
        with pytest.raises(memlease.InvalidArgument, match=r"StringDType\(\)"):
            call()


def test_a_truth_is_no_extent(memlease_client):
    for shape in (True, (2, False)):
        with pytest.raises(memlease.InvalidArgument, match="whole numbers"):
            memlease_client.create("a", shape, "f4")


def test_a_dtype_of_ml_dtypes_is_one_of_numpy(memlease_client):
    array = memlease_client.create("a", 2, "bfloat16")
    assert array.dtype == ml_dtypes.bfloat16
    assert array.dtype_name == "bfloat16"


def test_the_dtype_is_float64_unless_one_is_given(memlease_client):
    assert memlease_client.create("a", 3).dtype == np.zeros(3).dtype
    with pytest.raises(memlease.InvalidArgument, match="dtype=None"):
        memlease_client.create("b", 3, None)


def test_devices_of_torch_are_taken(memlease_client):
    torch = pytest.importorskip("torch")
    array = memlease_client.create("a", 3, device=torch.device("cpu"))
    assert array.device == "host"
    assert array.on(torch.device("cpu", 0)) is array
    assert memlease.MemArray(3, device=torch.device("cpu"), client=memlease_client).device == "host"
    for device in (torch.device("meta"), torch.float32):
        with pytest.raises(memlease.InvalidArgument, match="device"):
            memlease_client.create("b", 3, device=device)
