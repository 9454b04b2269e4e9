"""What a thread does with its own writes: begins another one inside of one, and forgets one."""

import contextlib
import threading

import memlease
import pytest


@pytest.fixture
def field(memlease_client):
    return memlease_client.create("u", 4, "f8")


@pytest.mark.parametrize("call", ["write", "update", "put"])
def test_a_write_inside_of_a_write_is_busy_soon(field, memlease_client, call):
    begin = getattr(memlease_client.open("u"), call)
    arguments = [1] if call == "put" else []
    field.put(2)
    with field.write() as lease:
        lease[...] = 3
        with pytest.raises(memlease.Busy, match=r"this thread itself .*'u'.*Publish or drop"):
            begin(*arguments)
    assert (field.version, field.get().tolist()) == (2, [3] * 4)
    assert field.put(4) == 3


def test_a_try_to_write_inside_of_a_write_gives_nothing(field):
    with field.write() as lease:
        lease[...] = 1
        assert field.try_write() is None


def test_another_thread_waits_for_the_write(field):
    with field.write() as lease:
        other = threading.Thread(target=field.put, args=(2,))
        other.start()
        lease[...] = 1
    other.join()
    assert (field.version, field.get().tolist()) == (2, [2] * 4)


def test_a_thread_waits_for_what_it_has_handed_to_another_one(field):
    lease = field.write()

    def use():
        lease[...] = 1

    other = threading.Thread(target=use)
    other.start()
    other.join()
    with pytest.raises(memlease.Timeout, match="is under way in this process"):
        field.write(wait=0)
    lease.publish()


def test_an_array_that_was_closed_or_withdrawn_inside_of_its_write_says_so(memlease_client):
    array = memlease_client.create("a", 4)
    with array.write():
        array.close()
        with pytest.raises(memlease.Closed):
            array.write()
    array = memlease_client.create("b", 4)
    lease = array.write()
    array.withdraw()
    with pytest.raises(memlease.Busy):
        array.write()
    lease.drop()
    with pytest.raises(memlease.Withdrawn):
        array.write()


def write_into(field):
    lease = field.write()
    lease[...] = 1


def export(field):
    view = memoryview(field.write().array)
    assert view.nbytes == 32


@pytest.mark.parametrize("forget", [write_into, export])
def test_a_write_that_is_forgotten_with_what_was_written_warns(field, forget):
    with pytest.warns(RuntimeWarning, match="write lease of 'u' was dropped before") as caught:
        forget(field)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert field.version == 0


def test_other_leases_end_without_a_warning(field, recwarn):
    field.write()  # nobody has asked for its bytes
    with field.write() as lease:
        lease[...] = 1
    lease = field.write()
    lease[...] = 2
    lease.drop()
    with contextlib.suppress(KeyError), field.write() as lease:
        lease[...] = 3
        raise KeyError
    del lease
    assert field.read().array.sum() == 4
    assert not recwarn.list
