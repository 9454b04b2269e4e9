"""What becomes of leases whose process replaces its program."""

import contextlib
import subprocess
import sys
import textwrap

import memlease
import numpy as np
import pytest

STEP_S = 30


@contextlib.contextmanager
def running(code):
    """Run it as a process of its own, which has said a line; nobody ends it before."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() != ""
        yield process
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def array(memlease_client):
    with memlease_client.create("x", 4, "f8", slots=2, max_slots=2, lifetime="persistent") as array:
        array.put(np.ones(4))
        yield array


ANOTHER_PROGRAM = "os.execv('/bin/sleep', ['sleep', '1000'])"


def test_a_reader_that_runs_another_program_holds_nothing(array):
    code = f"""
    import memlease, os
    lease = memlease.connect(start=False).open("x").read()
    print(lease.version, flush=True)
    {ANOTHER_PROGRAM}
    """
    with running(code):
        for value in range(4):
            array.put(np.full(4, value), wait=STEP_S)


def test_a_writer_that_runs_another_program_leaves_the_last_version(array):
    code = f"""
    import memlease, os
    lease = memlease.connect(start=False).open("x").write()
    lease[...] = 7
    print(lease.version, flush=True)
    {ANOTHER_PROGRAM}
    """
    with running(code):
        assert array.put(np.full(4, 2.0), wait=STEP_S) == 3
        assert array.get().tolist() == [2.0] * 4


def test_a_program_that_starts_itself_again_begins_with_nothing(array):
    code = """
    import memlease, os, signal, sys
    again = len(sys.argv) > 1
    lease = memlease.connect(start=False).open("x").read()
    if not again:
        os.execv(sys.executable, [*sys.orig_argv, "again"])
    print(lease.version, flush=True)
    signal.pause()
    """
    with running(code):  # it holds one of the two slots, once
        array.put(np.zeros(4), wait=STEP_S)


def test_a_process_whose_child_runs_another_program_holds_on(array):
    code = """
    import memlease, subprocess, signal
    lease = memlease.connect(start=False).open("x").read()
    subprocess.run(["true"], check=True)
    print(lease.version, flush=True)
    signal.pause()
    """
    with running(code):
        array.put(np.zeros(4), wait=STEP_S)
        with pytest.raises(memlease.NoFreeSlot):
            array.put(np.zeros(4), wait=0)
