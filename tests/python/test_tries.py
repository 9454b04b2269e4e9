"""What skips rather than waits: try_write() and try_read()."""

import inspect

import memlease
import numpy as np
import pytest


@pytest.fixture
def field(memlease_client):
    return memlease_client.create("u", (2, 3), "f4", max_slots=3)


def test_a_write_that_is_tried_publishes_as_another(field):
    if lease := field.try_write():
        with lease:
            lease[...] = 7
    assert field.get().tolist() == [[7] * 3] * 2


def test_a_step_is_skipped_while_all_slots_are_held(field, memlease_client):
    held = []
    for step in range(3):
        field.put(np.full((2, 3), step))
        held.append(field.read())
    calls = memlease_client.calls
    assert field.try_write() is None
    assert field.try_write(0.01) is None
    assert field.try_write(wait=0) is None
    assert memlease_client.calls == calls
    assert field.version == 3
    held.pop(0).release()
    with field.try_write() as lease:
        lease[...] = 9
    assert field.version == 4
    for lease in held:
        lease.release()


def test_a_read_is_tried(field):
    assert field.try_read() is None
    field.put(1)
    with field.try_read() as lease:
        assert lease.array.tolist() == [[1] * 3] * 2
    assert field.try_read(newer_than=1) is None
    assert field.try_read(newer_than=1, timeout=0.01) is None
    field.put(2)
    with field.try_read(newer_than=1) as lease:
        assert lease.version == 2
    with field.try_read(version=1) as lease:
        assert lease.version == 1
    assert field.try_read(version=3) is None


def test_what_no_wait_would_cure_is_raised(field):
    with pytest.raises(TypeError):
        field.try_write(1, 2)
    with pytest.raises(memlease.InvalidArgument):
        field.try_read(timeout=-1)
    field.withdraw()
    for call in (field.try_write, field.try_read):
        with pytest.raises(memlease.Withdrawn):
            call()
    field.close()
    for call in (field.try_write, field.try_read):
        with pytest.raises(memlease.Closed):
            call()


def test_the_calls_have_signatures():
    assert str(inspect.signature(memlease.Array.try_write)) == "(self, /, wait=0, *, stream=None)"
    assert list(inspect.signature(memlease.Array.try_read).parameters) == [
        "self", "version", "newer_than", "timeout", "stream", "region",
    ]  # fmt: skip
