"""What a lease answers that is asked for what an array has, or for what it cannot do."""

import copy
import io
import pickle

import memlease
import numpy as np
import pytest


@pytest.fixture
def field(memlease_client):
    return memlease_client.create("u", shape=(3, 4), dtype="f8", fill=np.arange(12).reshape(3, 4))


ASKED = {
    "mean": lambda a: a.mean(),
    "sum over an axis": lambda a: a.sum(axis=0),
    "min and max": lambda a: (a.min(), a.max()),
    "T": lambda a: a.T,
    "tolist": lambda a: a.tolist(),
    "copy": lambda a: a.copy(),
    "astype": lambda a: a.astype("f4"),
    "reshape": lambda a: a.reshape(-1),
    "ravel": lambda a: a.ravel(),
    "flat": lambda a: list(a.flat),
    "item": lambda a: a.item(5),
    "strides": lambda a: a.strides,
    "itemsize": lambda a: a.itemsize,
    "std": lambda a: a.std(ddof=1),
    "argmax": lambda a: a.argmax(),
    "clip": lambda a: a.clip(2, 5),
    "round": lambda a: a.round(1),
    "dot": lambda a: a.dot(np.ones(4)),
    "real": lambda a: a.real,
    "argsort": lambda a: a.argsort(axis=0),
    "take": lambda a: a.take([1, 5]),
    "view": lambda a: a.view("i8"),
    "flags": lambda a: a.flags.c_contiguous,
    "diagonal": lambda a: a.diagonal(),
    "in": lambda a: (5 in a, 99 in a),
    "bytes": bytes,
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
@pytest.mark.parametrize("call", ["read", "update"])
def test_a_lease_answers_as_its_array(field, call, ask):
    with getattr(field, call)() as lease:
        given, expected = ask(lease), ask(np.arange(12.0).reshape(3, 4))
        assert type(given) is type(expected)
        np.testing.assert_array_equal(given, expected)


def test_fill_fills_a_write_lease_alone(field):
    with field.write() as w:
        w.fill(7)
    assert (field.get() == 7).all()
    with field.read() as lease:
        assert not hasattr(lease, "fill")
        assert not hasattr(lease, "no_such_thing")
        with pytest.raises(AttributeError, match="mena"):
            lease.mena()
        assert {"mean", "T", "tolist"} <= set(dir(lease))


def test_what_changes_all_of_a_write_lease_changes_it(field, memlease_client):
    with field.update() as w:
        w.flat = 12 - np.arange(12)
        w.sort(axis=0)
    assert (field.get()[:, 0] == [4, 8, 12]).all()
    numbers = memlease_client.create("z", 2, "c16", fill=1 + 2j)
    with numbers.update() as w:
        w.real = 5
        w.imag += 1
    assert numbers.get().tolist() == [5 + 3j] * 2


def test_a_read_lease_says_that_it_cannot_be_written(field):
    with field.read() as lease:
        for change in (lambda: lease.__setitem__(0, 1), lambda: lease.__delitem__(0)):
            with pytest.raises(ValueError, match=r"read-only: .* with array.update\(\) as lease"):
                change()
        with pytest.raises(AttributeError, match="not writable"):
            lease.flat = 1


X = np.arange(12.0).reshape(3, 4)
INTO = {
    "copyto": lambda w: np.copyto(w, X),
    "copyto by name": lambda w: np.copyto(dst=w, src=X),
    "copyto where": lambda w: np.copyto(w, X + 1, where=X > 5),
    "copyto where, by position": lambda w: np.copyto(w, X + 1, "same_kind", X > 5),
    "put": lambda w: np.put(w, [0, 5], [9, 8]),
    "place": lambda w: np.place(w, X > 5, [0]),
    "putmask": lambda w: np.putmask(w, X > 5, 0),
    "fill_diagonal": lambda w: np.fill_diagonal(w, 9),
    "dot": lambda w: np.dot(np.ones((3, 3)), X, out=w),
    "take": lambda w: np.take(X, [2, 1, 0], axis=0, out=w),
    "concatenate": lambda w: np.concatenate([X[:1], X[1:]], out=w),
    "stack of itself": lambda w: np.concatenate([w[1:], w[:1]]),
    "stack": lambda w: np.stack([X[2], X[1], X[0]], out=w),
    "cumsum": lambda w: np.cumsum(X, axis=0, out=w),
    "round": lambda w: np.round(X / 3, out=w),
    "einsum": lambda w: np.einsum("ij->ij", X, out=w),
    "clip": lambda w: np.clip(w, 2, 5, out=w),
    "of two": lambda w: np.vstack([w, X]).sum(),
}


@pytest.mark.parametrize("call", ["write", "update"])
@pytest.mark.parametrize("change", INTO.values(), ids=INTO)
def test_numpys_functions_take_a_write_lease_as_an_array(field, change, call):
    """Where they leave elements as they are, and where they read them, these are the current."""
    expected = field.get()
    result = change(expected)
    field.put(np.full((3, 4), 77))  # what the slots have had, but the one of the current version
    field.put(X)
    with getattr(field, call)() as w:
        np.testing.assert_array_equal(change(w), result)
        w[0, 0] += 0  # it has been changed, whatever that was
    np.testing.assert_array_equal(field.get(), expected)


def test_numpys_functions_write_into_a_write_lease(field):
    ones = np.ones((3, 4))
    with field.write() as w:
        np.add(ones, 1, out=w)
        np.multiply(w, ones, out=w, where=[[True]])
        np.negative.at(w, (0, 0))
        assert np.maximum.reduce(w, axis=None) == 2
    with field.read() as lease:
        assert (lease[0, 0], lease[2, 3]) == (-2, 2)
        assert type(ones + lease) is type(np.sqrt(lease * lease)) is np.ndarray
        assert np.divmod(lease, lease)[0][1, 1] == 1
        with pytest.raises(ValueError, match="read-only"):
            np.add(ones, 1, out=lease)


def test_copies_outlive_the_lease(memlease_client, field):
    with field.read() as lease:
        kept = lease.copy()
    field.put(0)
    assert kept[2, 3] == 11
    with pytest.raises(memlease.Closed):
        lease.mean()


@pytest.mark.parametrize("call", ["read", "update"])
def test_a_format_is_for_the_element_of_a_lease(field, memlease_client, call):
    one = memlease_client.create("one", shape=(), dtype="f4", fill=2.5)
    with getattr(one, call)() as lease:
        assert (f"{lease:.2f}", f"{lease:>6}", f"{lease}") == ("2.50", "   2.5", str(lease))
    with getattr(field, call)() as lease:
        assert f"{lease}" == repr(lease)
        with pytest.raises(TypeError, match=r"numpy\.ndarray\.__format__"):
            format(lease, ".2f")
    with pytest.raises(memlease.Closed):
        format(lease, ".2f")


def test_a_bytes_object_of_one_integer_is_its_bytes(memlease_client):
    one = memlease_client.create("one", shape=(), dtype="i4", fill=3)
    with one.read() as lease:
        assert bytes(lease) == b"\3\0\0\0"


def test_a_write_lease_says_how_to_get_a_buffer(field):
    with field.update() as w:
        for taker in (memoryview, np.frombuffer, io.BytesIO().write):
            with pytest.raises(BufferError, match=r"take lease.memoryview\(\)"):
                taker(w)
        assert memoryview(w.array).shape == (3, 4)
        assert np.asarray(w) is w.array
        assert (np.add(w, 1) == np.arange(1, 13).reshape(3, 4)).all()


@pytest.mark.parametrize("call", ["read", "update"])
def test_a_lease_that_is_pickled_says_what_to_pickle(field, call):
    with getattr(field, call)() as lease, pytest.raises(TypeError, match="pickle the array handle"):
        pickle.dumps(lease)


@pytest.mark.parametrize("call", ["read", "update"])
@pytest.mark.parametrize("copier", [copy.copy, copy.deepcopy])
def test_a_copy_of_a_lease_is_an_array_of_numpy(field, memlease_client, call, copier):
    with getattr(field, call)() as lease:
        kept = copier(lease)
    field.put(0)
    assert type(kept) is np.ndarray
    assert kept.flags.writeable
    assert (kept.dtype, kept.tolist()) == (np.float64, np.arange(12).reshape(3, 4).tolist())
    with pytest.raises(memlease.Closed):
        copier(lease)
    with getattr(memlease_client.create("one", (), "f4", fill=3), call)() as lease:
        assert (copier(lease), copier(lease).shape) == (3, ())
