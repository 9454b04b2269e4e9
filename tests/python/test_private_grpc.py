"""The builder of the private gRPC, with doubles of apt, dpkg, the compiler and CMake."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.no_asan  # runs shell and Python alone

BUILDER = Path(__file__).parents[2] / "cmake" / "private_grpc"
sys.path.insert(0, str(BUILDER))
import deb_sources  # noqa: E402

ONE_LINE = """\
# deb http://archive.example/debian bookworm main
deb http://archive.example/debian bookworm main contrib  # the archive
deb [arch=amd64 signed-by=/k.gpg] https://archive.example/security bookworm-security main
deb-src http://archive.example/debian bookworm main contrib  # the archive
deb cdrom:[Debian 12]/ bookworm main
"""
DEB822 = """\
Types: deb
# a mirror
URIs: http://archive.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc

types: deb deb-src
URIs: http://archive.example/security
Suites: bookworm-security
Components: main
Enabled: no


Types: deb
URIs: cdrom:[Debian 12]/
Suites: bookworm
"""


def test_one_line_entries_become_entries_of_sources():
    assert deb_sources.source_lines(ONE_LINE).splitlines() == [
        "deb-src http://archive.example/debian bookworm main contrib  # the archive",
        "deb-src [arch=amd64 signed-by=/k.gpg] https://archive.example/security"
        " bookworm-security main",
    ]


def test_deb822_entries_become_entries_of_sources():
    first, second, *rest = deb_sources.source_stanzas(DEB822).split("\n\n")
    wanted = DEB822.split("\n\n")
    assert first == wanted[0].replace("Types: deb", "Types: deb-src")
    assert second == wanted[1].replace("types: deb deb-src", "Types: deb-src")
    assert rest == [""]


def test_the_entries_are_those_of_all_files_that_apt_reads(tmp_path):
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (tmp_path / "sources.list").write_text(ONE_LINE)
    (parts / "a.list").write_text("deb http://a.example/ a main\n")
    (parts / "b.sources").write_text(DEB822)
    (parts / "c.list.disabled").write_text("deb http://c.example/ c main\n")
    (parts / "d.list").write_text("# nothing\n")
    assert deb_sources.source_entries(tmp_path) == {
        "system.list": deb_sources.source_lines(ONE_LINE),
        "a.list": "deb-src http://a.example/ a main\n",
        "b.sources": deb_sources.source_stanzas(DEB822),
    }


def test_no_entries(tmp_path):
    with pytest.raises(deb_sources.BuildError, match="nowhere to get sources from"):
        deb_sources.fetch({"abseil": "1-1"}, tmp_path / "work", tmp_path)


# Each notes that it ran in $WORLD/ran.
DOUBLES = {
    "apt-get": """
        case "$1" in update) exit 0 ;; esac
        if [ -e "$WORLD/offline" ]; then
          echo "Err:1 http://archive.example InRelease"
          echo "E: Unable to find a source package for abseil"
          exit 100
        fi
        touch abseil_1-1.dsc protobuf_2-1.dsc
        """,
    "dpkg-query": """
        case "$4" in libabsl-dev) printf 1-1 ;; *) printf 7:2-1 ;; esac
        """,
    "dpkg-source": """
        mkdir "$4"
        """,
    "cxx": """
        echo "cxx (Debian) 12.2"
        """,
    "other": """
        echo "other (Debian) 13.1"
        """,
    "cmake": """
        if [ "$1" = --build ]; then
          if [ -e "$WORLD/slow" ]; then echo >"$WORLD/building"; read -r _ <"$WORLD/slow"; fi
          if [ -e "$WORLD/broken" ]; then echo "error: no such header"; exit 1; fi
          echo code >"$2/libmemlease_private_grpc.a"
        else
          mkdir -p "$6"
        fi
        """,
}


class World:
    """A cache, and doubles of the programs that the builder runs."""

    def __init__(self, folder):
        self.folder = folder
        self.cache = folder / "cache"
        programs = folder / "bin"
        programs.mkdir()
        for name, code in DOUBLES.items():
            (programs / name).write_text(f'#!/bin/sh\necho {name} >>"$WORLD/ran"\n{code}')
            (programs / name).chmod(0o755)
        self.environment = {
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "WORLD": str(folder),
            "XDG_CACHE_HOME": str(self.cache),
            "CXX": "cxx",
        }

    def start(self, *arguments):
        return subprocess.Popen(
            [sys.executable, BUILDER / "private_grpc.py", *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments):
        process = self.start(*arguments)
        output, errors = process.communicate(timeout=60)
        return process.returncode, output, errors

    def ran(self):
        """Return the programs that ran since the last question."""
        file = self.folder / "ran"
        names = file.read_text().split() if file.exists() else []
        file.unlink(missing_ok=True)
        return names

    def finished(self):
        """Return the folders of the cache that are whole."""
        cache = self.cache / "memlease" / "private-grpc"
        return [it for it in cache.glob("*") if it.suffix not in {".lock", ".work"}]


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_it_is_built_once(world):
    assert world.run("path")[0] == 3
    status, output, errors = world.run("build")
    assert status == 0, errors
    [folder] = world.finished()
    assert output.splitlines()[-1] == str(folder)
    assert (folder / "libmemlease_private_grpc.a").read_text() == "code\n"
    assert folder.name.startswith("abseil-1-1-protobuf-2-1-")
    assert "cmake" in world.ran()
    assert world.run("build")[0] == 0
    assert "cmake" not in world.ran()
    assert world.run("path")[:2] == (0, f"{folder}\n")


def test_another_compiler_has_its_own(world):
    assert world.run("build")[0] == 0
    assert world.run("path", "--cxx", "other")[0] == 3
    assert world.run("build", "--cxx", "other")[0] == 0
    assert len(world.finished()) == 2


def test_a_compiler_that_is_not_there(world):
    status, _, errors = world.run("path", "--cxx", "nowhere")
    assert status == 1
    assert "nowhere does not start: No such file or directory" in errors


def test_no_network_and_then_one(world):
    (world.folder / "offline").touch()
    status, _, errors = world.run("build")
    assert status == 1
    assert "E: Unable to find a source package for abseil" in errors
    assert "If the network is down, try again when it is up" in errors
    assert world.finished() == []
    (world.folder / "offline").unlink()
    assert world.run("build")[0] == 0


def test_a_broken_build_says_so_and_leaves_nothing_that_looks_whole(world):
    (world.folder / "broken").touch()
    status, output, errors = world.run("build")
    assert status == 1
    assert "error: no such header" in output
    assert "The next run goes on where this one ended" in errors
    assert world.finished() == []


@pytest.fixture
def held_build(world):
    """Start a build whose compilation waits until `slow` has had a writer."""
    slow = world.folder / "slow"
    building = world.folder / "building"
    os.mkfifo(slow)
    os.mkfifo(building)
    told = os.open(building, os.O_RDWR)
    process = world.start("build")
    try:
        assert select.select([told], [], [], 60)[0], "the compilation did not start"
    finally:
        os.close(told)
    building.unlink()
    return process, slow


def test_an_interrupted_build_goes_on_without_a_second_download(world, held_build):
    process, slow = held_build
    process.send_signal(signal.SIGINT)
    # As a terminal does, the compilation is told, too: here by the end of what it waits for.
    slow.open("w").close()
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert world.finished() == []
    slow.unlink()
    assert "apt-get" in world.ran()
    assert world.run("build")[0] == 0
    assert "apt-get" not in world.ran()
    assert len(world.finished()) == 1


def test_of_two_at_once_the_second_waits(world, held_build):
    first, slow = held_build
    second = world.start("build")
    assert "waiting for it" in second.stdout.readline()
    slow.open("w").close()
    results = [it.communicate(timeout=60)[0].splitlines()[-1] for it in (first, second)]
    assert results == [str(it) for it in world.finished() * 2]
    assert world.ran().count("cmake") == 2  # to configure and to build, once
