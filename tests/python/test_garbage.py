"""What is garbage in a cycle, which Python has not collected yet, holds nothing back."""

import asyncio
import gc

import memlease
import numpy as np
import pytest


@pytest.fixture
def field(memlease_client):
    return memlease_client.create("u", shape=4, dtype="i8", fill=0)


def keep_in_a_cycle(view):
    """Fail and keep the error, whose traceback has this frame, which has the error and the view."""
    try:
        raise ValueError(len(view))
    except ValueError as error:
        kept = error
    return str(kept)


def leave(lease):
    keep_in_a_cycle(lease.array)
    lease.release()


def read(field):
    leave(field.read())


def try_read(field):
    leave(field.try_read())


def follow(field):
    leave(next(field.follow()))


def follow_in_a_loop(field):
    async def step():
        async for lease in field.follow():
            keep_in_a_cycle(lease.array)
            break

    asyncio.run(step())


def read_many(field, way=read):
    for number in range(100):
        field.put(np.full(4, number))
        way(field)


@pytest.mark.parametrize("way", [read, try_read, follow, follow_in_a_loop])
def test_views_in_cycles_are_collected_before_a_reader_is_refused(field, way):
    read_many(field, way)


def test_a_copy_is_no_reader_that_is_refused(field):
    for number in range(100):
        field.put(np.full(4, number))
        read(field)
        assert field.get()[0] == number


def forget_a_write(field):
    def write(lease):
        try:
            raise ValueError
        except ValueError as error:
            kept = error
        return lease, kept

    write(field.write())


def test_a_write_lease_in_a_cycle_is_collected_before_a_write_is_refused(field):
    forget_a_write(field)
    field.put(np.full(4, 7))
    assert field.get()[0] == 7


def test_without_a_collector_the_error_says_what_is_held(field):
    gc.disable()
    try:
        with pytest.raises(memlease.TooManyHeld, match="as many versions of 'u' as it may"):
            read_many(field)
        forget_a_write(field)
        with pytest.raises(memlease.Busy, match="this thread itself has begun a write"):
            field.put(np.full(4, 7))
    finally:
        gc.enable()
        gc.collect()
