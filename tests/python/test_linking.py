"""What the library, the programs and the module bring along, and processes with more of it."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import memlease
import pytest
from memlease import errors

pytestmark = pytest.mark.private_grpc

BUILD = Path(os.environ["MEMLEASE_BUILD_DIR"])
PACKAGE = Path(memlease.__file__).parent
VERSION = (Path(__file__).parents[2] / "VERSION").read_text()
SONAME = f"libmemlease.so.{VERSION.rpartition('.')[0]}"
LIBRARY = BUILD / "lib" / SONAME
EVERYWHERE = {
    "libc.so.6",
    "libm.so.6",
    "libgcc_s.so.1",
    "libstdc++.so.6",
    "ld-linux-x86-64.so.2",
}


def output_of(*command):
    """Return what a command prints; one that does not end is what is looked for here."""
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def needed_by(file):
    return set(re.findall(r"\(NEEDED\).*\[(.+)\]", output_of("readelf", "-d", file)))


def exported_by(file):
    """Return the dynamic symbols that a file defines, as (type, name)."""
    lines = output_of("nm", "-DC", "--defined-only", file).splitlines()
    return [tuple(line.split(maxsplit=2)[1:]) for line in lines]


@pytest.mark.parametrize("order", ["first", "last"])
def test_a_program_that_links_grpc_too(order, memlease_daemon, monkeypatch):
    monkeypatch.setenv("MEMLEASE_DIR", memlease_daemon.directory)
    assert output_of(BUILD / "tests" / f"beside_grpc_{order}") == "done\n"


def test_two_copies_in_one_process(memlease_daemon, monkeypatch):
    monkeypatch.setenv("MEMLEASE_DIR", memlease_daemon.directory)
    plugins = [BUILD / "tests" / f"libplugin_of_memlease{it}.so" for it in ("", "_copy")]
    assert output_of(BUILD / "tests" / "plugins", *plugins) == "done\n"


def test_two_copies_by_path(tmp_path):
    copy = shutil.copy(LIBRARY, tmp_path / SONAME)
    assert output_of(BUILD / "tests" / "plugins", LIBRARY, copy) == "done\n"


LIBRARIES = [LIBRARY, PACKAGE / SONAME]


@pytest.mark.parametrize("file", LIBRARIES, ids=["build", "package"])
def test_the_library_exports_memlease_alone(file):
    exported = exported_by(file)
    assert any(name.startswith("memlease::Client::connect") for _, name in exported)
    ours = re.compile(r"((typeinfo( name)?|vtable) for )?memlease::|MEMLEASE_0\b")
    assert [it for it in exported if it[0] == "u" or not ours.match(it[1])] == []


@pytest.mark.parametrize("file", LIBRARIES, ids=["build", "package"])
def test_the_library_exports_the_types_of_its_errors(file):
    """So that they are caught also where types are compared by address."""
    exported = {name.partition("@@")[0] for _, name in exported_by(file)}
    names = [error.__name__ for error in errors.BY_NUMBER.values() if error is not errors.Timeout]
    wanted = {f"typeinfo for memlease::{name}" for name in ("Error", "TimedOut", *names)}
    assert wanted <= exported


def test_the_module_exports_its_entry_alone():
    [module] = PACKAGE.glob("_core*.so")
    assert [name for _, name in exported_by(module)] == ["PyInit__core"]


@pytest.mark.parametrize("file", LIBRARIES, ids=["build", "package"])
def test_the_library_needs_what_every_system_has(file):
    assert needed_by(file) <= EVERYWHERE


def test_the_module_needs_the_library_and_what_every_system_has():
    [module] = PACKAGE.glob("_core*.so")
    assert needed_by(module) - EVERYWHERE == {SONAME}


@pytest.mark.parametrize("folder", [BUILD / "bin", PACKAGE / "bin"], ids=["build", "package"])
@pytest.mark.parametrize("program", ["memleased", "memleasectl"])
def test_the_programs_need_what_every_system_has(folder, program):
    assert needed_by(folder / program) <= EVERYWHERE


@pytest.mark.usefixtures("memlease_daemon")
def test_a_plug_in_that_is_closed():
    """The thread that has called it ends after that."""
    plugin = BUILD / "tests" / "libplugin_of_memlease.so"
    assert output_of(BUILD / "tests" / "plugins", plugin) == "done\n"
