"""The package itself: types, programs, documentation."""

import inspect
import json
import os
import re
import select
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import memlease
import pytest
from memlease import programs


def run(*command, **options):
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, **options
    )


@pytest.mark.no_asan  # looks, and calls nothing
def test_the_stubs_agree_with_the_module(tmp_path):
    result = run(sys.executable, "-m", "mypy.stubtest", "memlease._core", cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


TYPED = """
from typing import Any, assert_type
import numpy as np
from numpy.typing import NDArray
import memlease
from memlease import Array, Client, ReadLease, WriteLease

def writes(client: Client) -> None:
    field = client.create("a/b", (3, 4), "float32")
    assert_type(field, Array)
    assert_type(field.dtype, np.dtype[Any])
    with field.write() as w:
        assert_type(w, WriteLease)
        w[...] = 1.0
        w[0, 1:3] = np.ones(2)
        elements: NDArray[np.float32] = w.array
        assert_type(w.publish(), int)
    maybe = field.try_write()
    assert_type(maybe, WriteLease | None)
    assert_type(client.put("x", [1, 2, 3]), Array)
    assert_type(field.put(elements, casting="unsafe"), int)

def reads(field: Array) -> None:
    with field.read() as r:
        assert_type(r, ReadLease)
        assert_type(r.array, NDArray[Any])
        assert_type(r[...], NDArray[Any])
        assert_type(r[1:], NDArray[Any])
        assert_type(r[0], Any)
        assert_type(np.asarray(r), NDArray[Any])
        mean: float = r.array.mean()
        memoryview(r)
    assert_type(field.get(), NDArray[Any])
    follower = field.follow(timeout=3)
    assert_type(follower.array, Array)
    for lease in follower:
        assert_type(lease, ReadLease)
    assert_type(field.try_read(), ReadLease | None)
    assert_type(memlease.release_views(field), int)

async def waits(field: Array) -> None:
    assert_type(await field.read_async(), ReadLease)
    async for lease in field.follow():
        assert_type(lease, ReadLease)

def connects() -> None:
    with memlease.connect(timeout=3) as client:
        assert_type(client, Client)
        assert_type(client.list("x/*"), list[str])
        assert_type(client.open("x"), Array)

def handles(error: memlease.Error) -> str:
    assert_type(error.code, str)
    return error.hint
"""

# A line each; mypy refuses all of them.
MISTYPED = """
field.read(wait=3)
field.publish()
field.read()[0] = 1
field.read().array = "x"
field.put([1], casting="same")
client.create("c", 3, "f4", lifetime="forever")
client.create("c", 3, "f4", device=3)
memlease.connect(timeout="3")
"""


@pytest.mark.no_asan  # looks, and calls nothing
def test_what_users_get_has_types(tmp_path):
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text(TYPED)
    lines = MISTYPED.strip().splitlines()
    head = "import memlease\ndef f(client: memlease.Client, field: memlease.Array) -> None:\n    "
    bad.write_text(head + "\n    ".join(lines) + "\n")
    result = run(sys.executable, "-m", "mypy", "--strict", good, bad, cwd=tmp_path)
    assert "good.py" not in result.stdout, result.stdout
    refused = {int(line) for line in re.findall(r"bad\.py:(\d+): error", result.stdout)}
    assert refused == set(range(3, 3 + len(lines))), result.stdout


def test_shells_are_given_the_public_names():
    assert dir(memlease) == sorted([*memlease.__all__, "stream"])
    assert all(hasattr(memlease, name) for name in dir(memlease))


def test_everything_public_is_documented():
    undocumented = []
    for name in memlease.__all__:
        thing = getattr(memlease, name)
        if name.startswith("__"):
            continue
        undocumented += [] if thing.__doc__ else [name]
        if inspect.isclass(thing) and not issubclass(thing, BaseException):
            undocumented += [
                f"{name}.{member}"
                for member, value in inspect.getmembers(thing)
                if not member.startswith("_") and not value.__doc__
            ]
    assert undocumented == []


def test_every_method_has_a_signature():
    for name in ("Array", "Client", "Follower", "ReadLease", "WriteLease"):
        for member, value in inspect.getmembers(getattr(memlease, name), callable):
            if not member.startswith("_"):
                assert inspect.signature(value)
    signature = str(inspect.signature(memlease.Array.follow))
    assert signature == (
        "(self, /, *, timeout=None, after=0, stream=None, until_writer_gone=False, region=None)"
    )


def test_the_package_is_marked_as_typed():
    assert Path(memlease.__file__).with_name("py.typed").exists()
    assert Path(memlease.__file__).with_name("_core.pyi").exists()


def test_the_programs_come_with_the_package():
    for program in ("memleased", "memleasectl"):
        path = Path(memlease.__file__).parent / "bin" / program
        assert os.access(path, os.X_OK)


@pytest.mark.parametrize("program", ["memleased", "memleasectl"])
def test_the_programs_are_scripts_too(program):
    [script] = entry_points(group="console_scripts", name=program)
    start = f"from {script.module} import {script.attr}; {script.attr}()"
    result = run(sys.executable, "-c", start, "--help")
    shipped = run(Path(memlease.__file__).parent / "bin" / program, "--help")
    assert result.returncode == 0, result.stderr
    assert result.stdout == shipped.stdout
    assert program in result.stdout


def test_a_named_program_is_taken(monkeypatch):
    monkeypatch.setenv("MEMLEASE_DAEMON", "/somewhere/memleased")
    assert programs.daemon() == "/somewhere/memleased"


def test_python_m_memlease(memlease_client):
    memlease_client.create("a", shape=3, dtype="f4")
    listed = run(sys.executable, "-m", "memlease", "ls", "--json")
    assert listed.returncode == 0, listed.stderr
    assert '"a"' in json.dumps(json.loads(listed.stdout))
    config = run(sys.executable, "-m", "memlease", "show-config")
    assert config.returncode == 0, config.stderr
    assert memlease.__version__ in config.stdout
    assert "memory_limit_bytes" in config.stdout
    assert "MEMLEASE_DIR" in config.stdout
    assert run(sys.executable, "-m", "memlease", "info", "nothing").returncode == 3


def test_a_distributions_headers_are_the_systems(monkeypatch, tmp_path):
    monkeypatch.setattr(programs, "_FOLDER", tmp_path / "dist-packages/memlease/bin")
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path / "usr"))
    with pytest.raises(memlease.Unsupported, match="libmemlease-dev"):
        programs.prefix()
    header = tmp_path / "usr/include/memlease/memlease.h"
    header.parent.mkdir(parents=True)
    header.touch()
    assert programs.prefix() == str(tmp_path / "usr")


@pytest.mark.no_asan  # its library needs ASan's runtime, which the project's programs have not
def test_cpp_projects_are_built_against_the_package(tmp_path):
    prefix = run(sys.executable, "-m", "memlease", "prefix").stdout.strip()
    assert prefix == str(Path(memlease.__file__).parent)
    tests = Path(__file__).parents[1] / "integration"
    built = run(
        "cmake", f"-DPREFIX={prefix}", "-DLIBDIR=lib", f"-DSOURCE_DIR={tests / 'consumer'}",
        f"-DWORK_DIR={tmp_path}", "-DCXX=c++", "-P", tests / "build_consumers.cmake",
    )  # fmt: skip
    assert built.returncode == 0, built.stdout + built.stderr


@pytest.fixture
def hasty_daemon(monkeypatch, tmp_path):
    """Let connect() start a daemon that is idle for 1 s where it says 10, before it ends."""
    program, said = tmp_path / "memleased", tmp_path / "arguments"
    program.write_text(
        f'#!/bin/bash\necho "$@" >"{said}"\n'
        f'exec "{programs.daemon()}" "${{@/#--idle-exit-s=10/--idle-exit-s=1}}"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("MEMLEASE_DAEMON", str(program))
    yield
    assert "--idle-exit-s=10" in said.read_text().split()


@pytest.mark.usefixtures("hasty_daemon")
@pytest.mark.parametrize("named", ["absolute", "relative"])
def test_connect_starts_a_daemon_that_others_find(monkeypatch, tmp_path_factory, named):
    directory = tmp_path_factory.mktemp("d") / "run"
    monkeypatch.chdir(directory.parent)
    monkeypatch.setenv("MEMLEASE_DIR", "run" if named == "relative" else str(directory))
    with pytest.raises(memlease.DaemonUnavailable) as caught:
        memlease.connect(start=False)
    assert isinstance(caught.value, ConnectionError)
    with memlease.connect() as client:
        client.create("a", shape=3, dtype="f4", fill=1, lifetime="persistent")
        code = "import memlease; print(memlease.connect(start=False).get('a').sum())"
        assert run(sys.executable, "-c", code).stdout == "3.0\n"
        client.withdraw("a")
        pidfd = os.pidfd_open(int((directory / "memleased.lock").read_text()))
    del client
    try:
        assert select.select([pidfd], [], [], 60)[0], "the daemon did not end when idle"
    finally:
        os.close(pidfd)
    assert os.listdir(directory) == ["memleased.log"]
