"""MemArray on the host: the article's class, face of an array."""

import copy
import gc
import pickle

import memlease
import numpy as np
import pytest

SHAPES = [(7,), (2, 4, 7), ()]
DTYPES = ["float32", "float64", "int32", "int64", "bool", "complex64"]


@pytest.fixture
def client(memlease_client):
    return memlease_client


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_its_elements_go_in_and_out(client, shape, dtype):
    mem_array = memlease.MemArray(shape, dtype, client=client)
    with mem_array.get_dlpack() as dlpack:
        local_array = np.from_dlpack(dlpack)
        assert local_array.shape == shape
        assert local_array.dtype == dtype
        assert not local_array.any()
    init_array = np.arange(mem_array.size).reshape(shape).astype(dtype)
    mem_array.read_numpy_array(init_array)
    with mem_array.get_dlpack("host") as dlpack:
        assert np.allclose(np.from_dlpack(dlpack), init_array)
    assert mem_array.size == init_array.size
    assert (mem_array.device, mem_array.on_device) == ("host", False)


def test_one_element_is_a_number_and_methods_are_those_of_its_elements(client):
    one = memlease.MemArray((), "f4", client=client)
    one[()] = 2.5
    assert (float(one), int(one)) == (2.5, 2)
    more = memlease.MemArray(3, client=client)
    with pytest.raises(TypeError):
        float(more)
    with pytest.raises(AttributeError, match=r"m\[\.\.\.\]\.mean"):
        more.mean()
    assert copy.copy(more).size == 3
    assert pickle.loads(pickle.dumps(more)).size == 3


def test_what_is_no_array_name_or_device_is_refused(client):
    with pytest.raises(memlease.InvalidArgument, match="3 is not an array's handle"):
        memlease.MemArray.of(3)
    with pytest.raises(memlease.InvalidArgument, match="name"):
        memlease.MemArray(2, name="", client=client)
    with pytest.raises(memlease.InvalidArgument, match="device_id='0' is not a whole number"):
        memlease.MemArray(2, client=client).move_memory(2, "0")
    empty = memlease.MemArray.of(client.create("empty", shape=2, dtype="f4"))
    with pytest.raises(memlease.InvalidArgument, match="no version yet"):
        empty.get_dlpack()


def test_a_dtype_without_a_zero_begins_with_the_number_of_zero_bytes(client):
    assert not memlease.MemArray(3, "float8_e8m0fnu", client=client)[:].view("u1").any()


def test_a_lock_changes_it_at_its_end_and_an_exception_does_not(client):
    mem_array = memlease.MemArray((3,), "i4", client=client)
    with mem_array.lock() as lock:
        lock.array[:] = 1
        assert mem_array[0] == 0, "readers go on with the last version"
        with pytest.raises(memlease.Busy):
            mem_array.lock()
    with pytest.raises(ZeroDivisionError), mem_array.lock() as lock:
        lock.array[:] = 1 // 0
    assert list(mem_array[:]) == [1, 1, 1]


def test_elements_are_its_own_and_checked(client):
    mem_array = memlease.MemArray((2, 3), client=client)
    mem_array[1, 2] = 5
    assert mem_array[1, 2] == 5
    mem_array[0] = [1, 2, 3]
    assert mem_array[:].tolist() == [[1, 2, 3], [0, 0, 5]]
    for wrong in [(2, 0), (0, 3)]:
        with pytest.raises(IndexError, match="out of bounds"):
            mem_array[wrong]
        with pytest.raises(IndexError, match="out of bounds"):
            mem_array[wrong] = 1
    assert mem_array.array.version == 3, "a wrong index changes nothing"


def test_it_is_array_like(client):
    a = memlease.MemArray((2, 3), "f4", client=client)
    a[...] = [[1, 2, 3], [4, 5, 6]]
    assert np.asarray(a).tolist() == [[1, 2, 3], [4, 5, 6]]
    assert np.asarray(a, "i8").dtype == "i8"
    assert np.sum(a) == 21
    assert np.all(a == np.asarray(a))
    assert len(a) == 2
    assert [row.tolist() for row in a] == [[1, 2, 3], [4, 5, 6]]
    np.asarray(a)[0] = 0
    assert a[0, 0] == 1
    if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
        with pytest.raises(ValueError, match="a copy of its newest version"):
            np.asarray(a, copy=False)


def test_others_take_it_and_what_they_took_stays(client):
    mem_array = memlease.MemArray((3,), "f4", client=client)
    taken = np.from_dlpack(mem_array)
    mem_array[0] = 1
    assert taken[0] == 0
    assert np.from_dlpack(mem_array)[0] == 1
    del taken
    gc.collect()
    assert mem_array.__dlpack_device__() == (1, 0)


def test_it_is_opened_by_its_name_and_by_pickle(client):
    mem_array = memlease.MemArray((3,), "f4", name="sim/m", client=client)
    mem_array[1] = 2
    face = memlease.MemArray.of(client.open("sim/m"))
    assert (face[1], face.shape, face.dtype) == (2, (3,), np.float32)
    assert pickle.loads(pickle.dumps(mem_array))[1] == 2
    assert repr(face) == "<memlease.MemArray 'sim/m' float32[3] on host>"
    with face:
        pass
    assert face.array.closed
    assert not mem_array.array.closed


def test_wrong_devices_are_refused_and_it_stays(client):
    mem_array = memlease.MemArray((3,), client=client)
    mem_array.move_memory("host")
    mem_array.move_memory(1)
    for device, device_id in [("gpu", None), (7, None), ("cuda:0", 1)]:
        with pytest.raises(memlease.InvalidArgument):
            mem_array.move_memory(device, device_id)
    assert mem_array.device == "host"
    with pytest.raises(memlease.AlreadyExists):
        memlease.MemArray((3,), name=mem_array.array.name, client=client)


def test_it_converts_as_put_does(client):
    a = memlease.MemArray(3, "uint8", client=client)
    for wrong in ([1, 2, 300], 1.5, np.array([1j, 2, 3])):
        with pytest.raises(memlease.InvalidArgument):
            a.read_numpy_array(wrong)
    assert a.array.version == 1
    a.read_numpy_array(np.array([1.5, 2, 3]), casting="unsafe")
    assert a[:].tolist() == [1, 2, 3]


def test_a_deep_copy_is_an_array_of_its_own(client):
    array = client.create("f", (2, 3), "i4", order="F", fill=1)
    a = memlease.MemArray.of(array)
    b = copy.deepcopy(a)
    b[0, 0] = 7
    assert (a[0, 0], b[0, 0]) == (1, 7)
    assert b.array.strides == array.strides
    empty = copy.deepcopy(memlease.MemArray((0, 3), client=client))
    assert empty.shape == (0, 3)


def test_an_array_without_a_version_says_so(client):
    a = memlease.MemArray.of(client.create("a", 3, "i4"))
    for look in (lambda: a[0], lambda: np.from_dlpack(a), lambda: copy.deepcopy(a)):
        with pytest.raises(memlease.InvalidArgument, match="'a' has no version yet"):
            look()
    a.move_memory("host")
    a.read_numpy_array([1, 2, 3])
    assert a[0] == 1


def test_its_truth_is_numpys(client):
    assert not memlease.MemArray((1,), client=client)
    assert not memlease.MemArray((), client=client)
    a = memlease.MemArray((3,), client=client)
    with pytest.raises(ValueError, match="ambiguous"):
        bool(a)
    assert 0 in a
    assert 1 not in a


@pytest.mark.parametrize("device", [(1, 3), (True,), (2.0,), (3,)])
def test_a_device_that_there_is_not_is_refused(client, device):
    a = memlease.MemArray((3,), client=client)
    with pytest.raises(memlease.InvalidArgument):
        a.move_memory(*device)
