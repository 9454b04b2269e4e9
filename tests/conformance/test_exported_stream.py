"""Where the work of a lease ends whose views were given a stream of the library's."""

import pytest
from fakecuda_build import IS_STAND_IN, require_stand_in
from gpu_arrays import COUNT, create, opened, publish

require_stand_in()
pytest_plugins = ["fakecuda_fixture", "gpu_fixture"]

LEASE_STREAMS = [None, 1, 2, "own"]
each_stream = pytest.mark.parametrize("stream", LEASE_STREAMS, ids=str)
# Where the consumer works: as the array interface says, where the lease was told, or elsewhere,
# having waited for the exported stream as the interface demands.
each_place = pytest.mark.parametrize("place", ["exported", "lease", "third"])


def stream_of(here, stream):
    return here.stream(stream) if isinstance(stream, str) else stream


def place_of(here, place, on, exported):
    """Return the stream where the consumer works."""
    if place == "exported":
        return exported
    if place == "lease" and on is not None:
        return on
    third = here.stream("third")
    here.order(exported, third)
    return third


def late(here, stream):
    """On hardware, keep the stream busy, so that who does not wait comes too early."""
    if not IS_STAND_IN:  # whose checker needs no chance
        here.spin(stream, 100_000)


def use(here, lease, stream, place, told, work):
    """Let a consumer work on a lease; return the stream to name at its end, None for the lease's.

    Without a stream, or on that of the lease or the one that was exported, nothing has to be named;
    else it is, if it is `told`.
    """
    on = stream_of(here, stream)
    interface = lease.__cuda_array_interface__
    works_on = place_of(here, place, on, interface["stream"])
    late(here, works_on)
    work(interface["data"][0], works_on)
    here.kept["works_on"] = works_on
    if place != "third" or on is None:
        return None
    if not told:  # nothing may be at work once the memory is closed
        here.drain(works_on)
        return None
    return works_on


# ---- The four kinds of leases.


def write(here, stream, place, value, told=True):
    lease = opened(here).write(stream=stream_of(here, stream))
    end = use(here, lease, stream, place, told, lambda at, on: here.fill(at, COUNT, value, on))
    lease.publish(stream=end)


def update(here, stream, place, value, told=True):
    lease = opened(here).update(stream=stream_of(here, stream))
    end = use(here, lease, stream, place, told, lambda at, on: here.add(at, COUNT, value, on))
    lease.publish(stream=end)


def read(here, stream, place, value, told=True):
    lease = opened(here).read(stream=stream_of(here, stream))
    look(here, lease, stream, place, value, told)


def follow(here, stream, place, value, told=True):
    follower = opened(here).follow(stream=stream_of(here, stream))
    look(here, next(follower), stream, place, value, told)
    follower.close()


def look(here, lease, stream, place, value, told):
    end = use(here, lease, stream, place, told, lambda at, on: here.look(at, COUNT, value, on))
    lease.release(end)


def mismatches(here):
    return here.mismatches(here.kept["works_on"])


def expect(here, value):
    """Read on a stream of the process's; return how many elements are others."""
    stream = here.stream()
    with opened(here).read(stream=stream) as lease:
        at = lease.__cuda_array_interface__["data"][0]
        here.look(at, COUNT, value, stream)
    return here.mismatches(stream)


def pair(gpu):
    """Start the lease's process, and another one; one slot, and a version of ones."""
    here, other = gpu.process(), gpu.process()
    other.run(create_one)
    return here, other


def create_one(here):
    create(here, slots=1, lifetime="persistent")
    publish(here, 1)


@each_place
@each_stream
@pytest.mark.parametrize("how", [write, update])
def test_a_reader_waits_for_the_work_of_a_write(gpu, how, stream, place):
    """R-CAI-11, R-SYNC-9: wherever a consumer worked as the interface allows it."""
    here, other = pair(gpu)
    here.run(how, stream, place, 5)
    wrong = other.run(expect, 6 if how is update else 5)
    assert (wrong, gpu.findings()) == (0, "")


@each_place
@each_stream
@pytest.mark.parametrize("how", [read, follow])
def test_a_writer_waits_for_the_work_of_a_read(gpu, how, stream, place):
    """R-CAI-11, R-SYNC-9: the same in the other direction."""
    here, other = pair(gpu)
    here.run(how, stream, place, 1)
    other.run(publish, 2)
    assert (here.run(mismatches), gpu.findings()) == (0, "")


# ---- Controls: who works elsewhere, and does not say so, races.


@pytest.mark.parametrize("stream", [1, 2, "own"], ids=str)
@pytest.mark.parametrize("how", [write, update])
def test_a_write_elsewhere_that_is_not_told_races(gpu, how, stream):
    """R-SYNC-9: a control."""
    here, other = pair(gpu)
    here.run(how, stream, "third", 5, False)
    other.run(expect, 6 if how is update else 5)
    found = gpu.findings()
    assert "read after write" in found or "write after read" in found


@pytest.mark.parametrize("stream", [1, 2, "own"], ids=str)
@pytest.mark.parametrize("how", [read, follow])
def test_a_read_elsewhere_that_is_not_told_races(gpu, how, stream):
    """R-SYNC-9: a control."""
    here, other = pair(gpu)
    here.run(how, stream, "third", 1, False)
    other.run(publish, 2)
    found = gpu.findings()
    assert "write after read" in found or "read after write" in found


# ---- What the end of a lease costs.


@pytest.mark.parametrize("stream", [1, 2], ids=str)
@pytest.mark.parametrize("how", [write, read])
def test_the_host_does_not_wait_for_the_exported_stream(gpu, how, stream):
    """R-SYNC-9: the end of the lease returns while the consumer is still at work."""
    gpu.run(end_behind_a_gate, how, stream)


def end_behind_a_gate(here, how, stream):
    array = create(here, fill=1)
    lease = array.write(stream=stream) if how is write else array.read(stream=stream)
    exported = lease.__cuda_array_interface__["stream"]
    here.gate(exported)
    lease.publish() if how is write else lease.release()
    assert not here.is_idle(exported)
    here.ungate()
    assert array.version == (2 if how is write else 1)


def test_the_leases_stream_is_not_held_up(gpu):
    """The end is behind both streams, and the user's own goes on."""
    gpu.run(go_on_beside_the_exported_stream)


def go_on_beside_the_exported_stream(here):
    array = create(here, fill=1)
    with array.read(stream=2) as lease:
        here.gate(lease.__cuda_array_interface__["stream"])
    per_thread = 2
    here.synchronize(per_thread)
    here.ungate()
