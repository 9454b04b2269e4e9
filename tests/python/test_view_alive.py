"""ViewAlive: once an array, where the process's own views keep a writer waiting; else never."""

import subprocess
import sys
import textwrap
import threading
import warnings

import memlease
import numpy as np
import pytest


@pytest.fixture
def field(memlease_client):
    return memlease_client.create("u", shape=4, dtype="f8", slots=3, max_slots=3, fill=0)


def hold_all(field):
    views = []
    for value in range(3):
        views.append(field.read().array)
        if value < 2:
            field.put(np.full(4, value, "f8"))
    return views


def test_a_write_that_fails_by_itself_warns_once(field, recwarn):
    views = hold_all(field)
    with (
        pytest.warns(memlease.ViewAlive, match="'u'") as caught,
        pytest.raises(memlease.NoFreeSlot),
    ):
        field.write(wait=0)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert "version" not in str(caught[0].message)
    for _ in range(3):
        with pytest.raises(memlease.NoFreeSlot):
            field.write(wait=0)
    assert not recwarn.list
    views.clear()


@pytest.mark.parametrize("call", ["put", "write", "update"])
def test_every_call_that_writes_warns(field, call):
    views = hold_all(field)
    arguments = [np.zeros(4)] if call == "put" else []
    with pytest.warns(memlease.ViewAlive) as caught, pytest.raises(memlease.NoFreeSlot):
        getattr(field, call)(*arguments, wait=0)
    assert caught[0].filename == __file__
    views.clear()


def test_a_put_by_the_client_warns_at_the_line_of_the_caller(memlease_client, field):
    views = hold_all(field)
    with pytest.warns(memlease.ViewAlive) as caught, pytest.raises(memlease.NoFreeSlot):
        memlease_client.put("u", np.zeros(4), wait=0)
    assert caught[0].filename == __file__
    views.clear()


def test_a_write_that_waits_for_itself_warns(field):
    views = hold_all(field)
    timer = threading.Timer(0.3, views.clear)
    timer.start()
    with pytest.warns(memlease.ViewAlive), field.write() as w:
        w[...] = 1
    timer.join()


def test_a_release_warns_where_a_writer_waits(field, recwarn):
    """As another process would: its row says that it wants a slot."""
    leases = []
    for value in range(3):
        leases.append(field.read())
        if value < 2:
            field.put(np.full(4, value, "f8"))
    view = leases[0].array
    code = "import memlease; memlease.connect(start=False).open('u').write(wait=30).drop()"
    with subprocess.Popen([sys.executable, "-c", code]) as writer:
        while not recwarn.list:
            with field.read() as lease:
                kept = lease.array
        leases[0].release()
        assert [warning.category for warning in recwarn.list] == [memlease.ViewAlive]
        del view, kept
        for lease in leases:
            lease.release()
        assert writer.wait() == 0


def test_a_warning_that_is_an_error_never_takes_the_place_of_another(field):
    views = hold_all(field)

    def fail(lease):
        views.append(lease.array)
        raise KeyError("mine")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(memlease.NoFreeSlot):
            field.write(wait=0)
        with pytest.raises(KeyError) as caught, field.read() as r:
            fail(r)
    assert caught.value.__context__ is None
    views.clear()


@pytest.mark.no_asan  # which keeps what has been freed for a while, so that memory grows
def test_loops_that_rebind_names_are_silent(memlease_client):
    code = """
        import gc, resource, sys
        import memlease, numpy as np

        a = memlease.connect(start=False).create("loop", shape=(4,), dtype="f8", fill=0)
        versions = a.follow()
        ones = np.ones(4)

        def turn(count):
            for _ in range(count):
                with a.write() as w:
                    v = np.asarray(w)
                    v[...] = 1
                with a.read() as lease:
                    arr = lease.array
                for lease in versions:
                    seen = lease.array
                    break

        turn(1000)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        turn(199_000)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        registry = len(globals().get("__warningregistry__", ()))
        print(a.version, registry, grown < 4096)
        """
    run = subprocess.run(
        [sys.executable, "-W", "always", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    assert run.stderr == ""
    assert run.stdout == "200001 0 True\n"
