"""Late writes that end their process, another one here each time, and what it says before that."""

import io
import signal
import subprocess
import sys
import textwrap

import memlease
import numpy as np
import pytest
from test_late_writes import PAGES


@pytest.fixture
def field(memlease_client):
    return memlease_client.create("u", shape=PAGES, dtype="f4", fill=0)


START = """
import faulthandler, os, sys
if not os.environ.get("PYTHONFAULTHANDLER"): faulthandler.disable()
import memlease, numpy as np
from test_late_writes import *
c = memlease.connect(start=False)
"""


def run(code, folder, **environment):
    import os

    return subprocess.run(
        [sys.executable, "-c", START + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=folder,
        # ASan's runtime, where it is loaded, would report the fault in place of the kernel.
        env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0:handle_segv=0", **environment},
    )


@pytest.fixture
def here(request):
    return request.path.parent


@pytest.mark.parametrize(
    ("way", "write"),
    [
        ("rows", "view[0] = 9"),
        ("halves", "view[1][0] = 9"),
        ("transposed", "view[...] = 9"),
        ("memory_view", "view[1, 1] = 9"),
        ("memory_view_of_the_array", "view[1, 1] = 9"),
        ("buffer", "view[0] = 9"),
        ("torch_tensor", "view.div_(255)"),
        ("torch_as_tensor", "view[0] = 9"),
    ],
)
def test_a_late_write_ends_the_process(field, here, way, write):
    ended = run(
        f"""
        memlease.explain_faults()
        u = c.open("u")
        with u.write() as w:
            view = {way}(w)
        print("published", flush=True)
        {write}
        """,
        here,
    )
    assert ended.returncode == -signal.SIGSEGV
    assert ended.stdout == "published\n"
    assert (field.version, (field.get() == 5).all()) == (2, True)
    assert ended.stderr == (
        f"memlease: wrote to a read-only view of 'u' v2 (slot {field.read().slot}, a view of a "
        "write lease that has ended): versions that were published do not change; copy it first\n"
    )


@pytest.mark.parametrize("size", [1025, 5000, 600_000])
def test_so_does_one_to_the_last_page(memlease_client, here, size):
    field = memlease_client.create("odd", shape=size, dtype="f4", fill=0)
    ended = run(
        """
        with c.open("odd").write() as w:
            w[...] = 5
            view = w.array[:]
        view[-1] = 9
        """,
        here,
    )
    assert ended.returncode == -signal.SIGSEGV
    assert (field.get() == 5).all()


@pytest.mark.parametrize("writes", [False, True], ids=["reader", "writer"])
@pytest.mark.parametrize(
    "write",
    [
        "torch.from_dlpack(r).div_(255)",
        "torch.as_tensor(r)[0] = 9",
        "torch.from_numpy(r.array)[0] = 9",
    ],
)
def test_who_reads_cannot_write(field, here, write, writes):
    """Neither in a process that writes the same array, too."""
    field.put(np.full(PAGES, 255, "f4"))
    ended = run(
        f"""
        import torch, warnings
        warnings.simplefilter("ignore")
        u = c.open("u")
        if {writes}:
            with u.update() as w: w[0] = 255
        with u.read() as r:
            print(r.version, flush=True)
            {write}
        """,
        here,
        MEMLEASE_EXPLAIN_FAULTS="1",
    )
    version = 3 if writes else 2
    assert ended.returncode == -signal.SIGSEGV
    assert ended.stdout == f"{version}\n"
    assert f"read-only view of 'u' v{version} (slot " in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert (field.get() == 255).all()


WRITE_LATE = """
        u = c.open("u")
        with u.write() as w:
            view = rows(w)
        view[0] = 9
        """


@pytest.mark.no_asan  # whose runtime handles the signal
def test_it_is_said_without_being_asked(field, here):
    ended = run(WRITE_LATE, here, MEMLEASE_EXPLAIN_FAULTS="")
    assert ended.returncode == -signal.SIGSEGV
    assert ended.stderr.startswith("memlease: wrote to a read-only view of 'u' v2")


def test_it_is_not_said_where_the_environment_says_so(field, here):
    ended = run(WRITE_LATE, here, MEMLEASE_EXPLAIN_FAULTS="0")
    assert (ended.returncode, ended.stderr) == (-signal.SIGSEGV, "")


@pytest.mark.no_asan
def test_who_handles_the_fault_is_left_alone_without_being_asked(field, here):
    ended = run(WRITE_LATE, here, MEMLEASE_EXPLAIN_FAULTS="", PYTHONFAULTHANDLER="1")
    assert ended.returncode == -signal.SIGSEGV
    assert "memlease" not in ended.stderr.splitlines()[0]


@pytest.mark.no_asan  # whose runtime has a handler of its own, that python's would not come before
def test_other_handlers_of_the_fault_come_after_ours(field, here):
    ended = run(
        """
        faulthandler.enable()
        memlease.explain_faults()
        memlease.explain_faults()
        u = c.open("u")
        with u.write() as w:
            view = rows(w)
        view[0] = 9
        """,
        here,
    )
    assert ended.returncode == -signal.SIGSEGV
    assert ended.stderr.startswith("memlease: wrote to a read-only view of 'u' v2")
    assert ended.stderr.count("memlease: wrote") == 1
    assert "Fatal Python error: Segmentation fault" in ended.stderr


@pytest.mark.no_asan
@pytest.mark.parametrize("other", ["faulthandler.enable()", "signal.signal(11, lambda *_: None)"])
def test_a_handler_that_has_come_between_is_met_again(field, here, other):
    ended = run(
        f"""
        import signal
        memlease.explain_faults()
        {other}
        memlease.explain_faults()
        u = c.open("u")
        with u.write() as w:
            view = rows(w)
        view[0] = 9
        """,
        here,
    )
    assert ended.returncode == -signal.SIGSEGV
    assert ended.stderr.count("memlease: wrote") == 1


def test_faults_of_others_are_not_explained(field, here):
    ended = run(
        """
        import ctypes
        memlease.explain_faults()
        u = c.open("u").read()
        ctypes.string_at(8)
        """,
        here,
    )
    assert (ended.returncode, ended.stderr) == (-signal.SIGSEGV, "")


def test_a_signal_that_was_sent_ends_the_process_too(memlease_client, here):
    ended = run("memlease.explain_faults(); import os; os.kill(os.getpid(), 11)", here)
    assert (ended.returncode, ended.stderr) == (-signal.SIGSEGV, "")


def test_a_forked_child_is_told_what_it_touched(field, here):
    ended = run(
        """
        import os
        memlease.explain_faults()
        view = c.open("u").read().array
        child = os.fork()
        if child == 0:
            view.sum()
        print(os.waitpid(child, 0)[1])
        """,
        here,
    )
    assert (ended.returncode, ended.stdout) == (0, "11\n")
    assert "memlease: used a view of 'u' that belongs to the parent process" in ended.stderr


def test_the_line_goes_to_a_file(field, here, tmp_path):
    said = tmp_path / "said"
    ended = run(
        f"""
        memlease.explain_faults(file=open({str(said)!r}, "w"))
        memlease.explain_faults()
        import ctypes

        view = c.open("u").read().array[:]
        ctypes.memset(view.ctypes.data, 1, 8)
        """,
        here,
    )
    assert (ended.returncode, ended.stderr) == (-signal.SIGSEGV, "")
    assert said.read_text().startswith("memlease: wrote to a read-only view of 'u' v1 ")


def test_a_file_without_a_descriptor_is_refused():
    with pytest.raises(memlease.InvalidArgument, match="has no descriptor"):
        memlease.explain_faults(file=io.StringIO())
