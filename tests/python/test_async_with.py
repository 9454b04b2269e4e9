"""`async with`: what takes it, and what says why not."""

import asyncio
import gc
import inspect

import memlease
import numpy as np
import pytest
from event_loop import LONG_S, run


@pytest.fixture
def array(memlease_client):
    return memlease_client.create("a", shape=4, dtype="i8", fill=0)


def test_async_with_releases_what_it_has_read(array):
    async def main():
        async with array.read_async() as lease:
            assert lease.array.tolist() == [0, 0, 0, 0]
        assert lease.released
        with pytest.raises(KeyError, match="mine"):
            async with array.read_async() as lease:
                raise KeyError("mine")
        assert lease.released
        waiting = array.read_async(newer_than=1, timeout=LONG_S)
        array.put(np.ones(4, "i8"))
        async with waiting as lease:
            assert lease.version == 2
        with pytest.raises(memlease.Timeout):
            async with array.read_async(newer_than=2, timeout=0):
                pytest.fail("there is no such version")

    run(main())
    with array.write(wait=0):  # nothing is held
        pass


def test_a_read_is_a_coroutine_like_any_other(array):
    async def main():
        task = asyncio.create_task(array.read_async(newer_than=1), name="reader")
        await asyncio.sleep(0)
        assert "reader" in repr(task)
        array.put(np.ones(4, "i8"))
        (await task).release()
        late, now = await asyncio.gather(
            asyncio.wait_for(array.read_async(newer_than=2), 0.01),
            array.read_async(),
            return_exceptions=True,
        )
        assert isinstance(late, TimeoutError)
        now.release()
        begun = array.read_async()
        begun.close()
        with pytest.raises(RuntimeError, match="reuse"):
            await begun

    unused = array.read_async()
    assert inspect.isawaitable(unused)
    unused.close()
    asyncio.run(array.read_async()).release()
    run(main())


def test_one_that_is_forgotten_is_named(array):
    with pytest.warns(RuntimeWarning, match=r"'Array\.read_async' was never awaited"):
        array.read_async()


@pytest.mark.parametrize(
    ("begin", "hint"), [("read", r"async with array\.read_async\(\)"), ("write", r"wait=0")]
)
def test_a_lease_says_that_with_is_enough(array, begin, hint):
    lease = getattr(array, begin)()

    async def main():
        async with lease:
            pytest.fail("it has been entered")

    with pytest.raises(TypeError, match=f"takes `with`, not `async with`; .*{hint}"):
        run(main())
    with lease:  # nothing has happened to it
        assert not (lease.released if begin == "read" else lease.ended)


@pytest.mark.parametrize(
    ("make", "hint"),
    [
        (lambda array, _client: array.follow(), "in it async for lease in follower"),
        (lambda _array, client: client, r"async with array\.read_async\(\)"),
        (lambda array, _client: array, r"async with array\.read_async\(\)"),
    ],
    ids=["follower", "client", "array"],
)
def test_what_closes_says_that_with_is_enough(memlease_client, array, make, hint):
    made = make(array, memlease_client)

    async def main():
        async with made:
            pytest.fail("it has been entered")

    with pytest.raises(TypeError, match=f"takes `with`, not `async with`.*{hint}"):
        run(main())
    assert not made.closed


def test_a_read_that_is_not_awaited_says_so(array):
    reading = array.read_async()
    assert repr(reading) == "<read_async() of 'a' not awaited yet>"
    for name in ("array", "version", "release", "mean"):
        with pytest.raises(AttributeError, match=r"await it: lease = await array\.read_async\("):
            getattr(reading, name)
    with pytest.raises(AttributeError, match=r"no attribute 'nothing'$"):
        _ = reading.nothing
    run(reading).release()
    assert repr(reading) == "<read_async() of 'a' has ended>"


def test_async_for_over_a_read_names_follow_and_leaves_nothing(array, recwarn):
    async def main():
        async for _lease in array.read_async():
            pytest.fail("it gives one lease alone")

    with pytest.raises(TypeError, match=r"async for lease in array\.follow\(\)"):
        run(main())
    gc.collect()
    assert not recwarn.list


def test_with_names_async_with_and_leaves_nothing(array, recwarn):
    with pytest.raises(TypeError, match="takes `async with` or `await`"), array.read_async():
        pass
    gc.collect()
    assert not recwarn.list
