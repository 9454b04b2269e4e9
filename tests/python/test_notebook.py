"""A notebook keeps the results of its cells, and the frames of those that failed."""

import json
import os
import signal
import subprocess
import sys
import textwrap

import memlease
import pytest

# A shell as Jupyter's kernel runs one. `cell` returns what a cell gives, or raises.
SHELL = """
import json, os, signal, threading
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

config = Config()
config.HistoryManager.enabled = False
config.InteractiveShell.colors = "nocolor"
shell = InteractiveShell.instance(config=config)

def cell(source):
    result = shell.run_cell(source, store_history=True)
    if not result.success:
        raise result.error_in_exec or result.error_before_exec
    return result.result

def failed(source):
    try:
        cell(source)
    except BaseException as error:
        return type(error).__name__ + ": " + str(error)

def say(value):
    print("said", json.dumps(value), flush=True)

def completed(text):
    return shell.complete(None, text, len(text))[1]

cell("import memlease, numpy as np; client = memlease.connect(start=False)")
cell("f = client.create('nb/u', (3, 4), 'f8', fill=0)")
"""


@pytest.fixture
def notebook(memlease_client, tmp_path):
    def run(cells):
        process = subprocess.run(
            [sys.executable, "-c", SHELL + textwrap.dedent(cells)],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"IPYTHONDIR": str(tmp_path)},
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        assert process.returncode == 0, process.stdout + process.stderr
        lines = process.stdout.splitlines()
        return [json.loads(line[5:]) for line in lines if line.startswith("said ")]

    return run


def test_kept_results_and_failed_cells_stop_nobody(notebook):
    versions, results, released, left = notebook("""
        for _ in range(15):
            cell("f.read().array")
            cell("f.put(np.ones((3, 4)), wait=0)")
            cell("def fails(a):\\n    view = a.read().array\\n    return view.nothing")
            assert "no attribute 'nothing'" in failed("fails(f)")
            assert "ZeroDivision" in failed("with f.write(wait=0) as w: w[:] = 1; 1 / 0")
        say(cell("f.put(np.zeros((3, 4)), wait=0)"))
        say(cell("len(Out)"))
        say(cell("memlease.release_views(f)"))
        say(cell("memlease.release_views(f)"))
    """)
    assert versions == 1 + 15 * 2 + 1  # a write that fails uses a number up
    assert results > 30
    assert released > 0
    assert left == 0


def test_leases_that_a_notebook_keeps_are_named_and_given_back(notebook):
    refused, after = notebook("""
        refused = None
        while refused is None:
            cell("f.put(np.ones((3, 4)), wait=0)")
            refused = failed("f.read()")
        say(refused)
        cell("memlease.release_views(f)")
        say(repr(cell("f.read()")))
    """)
    assert "TooManyHeld" in refused
    assert "memlease.release_views(array)" in refused
    assert after.startswith("<memlease.ReadLease 'nb/u' float64[3,4]")


def test_names_are_completed(notebook):
    array, lease, writing, module, argument = notebook("""
        cell("r, w = f.read(), f.write()")
        shell.Completer.use_jedi = False
        for text in ("f.", "r.", "w.", "memlease.", "client.create('x', dty"):
            say(completed(text))
        assert cell("w.drop()") is None
    """)
    assert {".read", ".write", ".put", ".version"} <= set(array)
    assert {".array", ".release", ".sum", ".shape"} <= set(lease)
    assert {".array", ".publish", ".drop", ".fill"} <= set(writing)
    assert [name[1:] for name in module if name[1] != "_"] == [
        name for name in dir(memlease) if name[0] != "_"
    ]
    assert argument == ["dtype="]


# It comes while the cell runs, whenever that is: none of them ends by itself.
def test_ctrl_c_ends_the_cell_alone(notebook):
    waits = [
        "f.read(newer_than=f.version)",
        "for lease in f.follow(after=f.version): pass",
        "await f.read_async(newer_than=f.version)",
        "async for lease in f.follow(after=f.version): pass",
        "client.wait_for('never')",
        "memlease.wait([f], newer_than=[f.version])",
    ]
    said = notebook(f"""
        shell.user_ns["later"] = lambda: threading.Timer(
            0.02, os.kill, (os.getpid(), signal.SIGINT)
        ).start()
        for wait in {waits!r}:
            say(failed("later()\\n" + wait))
            say(cell("f.put(np.ones((3, 4)), wait=0)"))
    """)
    assert said[::2] == ["KeyboardInterrupt: "] * len(waits)
    assert said[1::2] == list(range(2, 2 + len(waits)))


def test_cells_show_await_and_time_leases(notebook):
    shown = notebook("""
        say(shell.display_formatter.format(cell("[f, f.read(), f.follow(), client]"))[0])
        say(cell("(await f.read_async())[0, 0]"))
        cell("%timeit -n 10 -r 1 f.get()")
        cell("%timeit -n 10 -r 1 f.put(np.ones((3, 4)))")
        say(cell("f.version"))
    """)
    assert len(shown[0]["text/plain"].splitlines()) == 4
    assert shown[1:] == [0, 11]
