"""The builder of the private gRPC, with doubles of apt, dpkg, the compiler and CMake."""

import os
import re
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
import private_grpc  # noqa: E402

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


# Each notes its call in $WORLD/ran. If its name is that of a pipe in $WORLD, it waits half done for
# a line of it; if its name with .fails is a file there, it ends with an error.
DOUBLES = {
    "apt-get": """
        apt-config "$1" "$2" dump >"$WORLD/apt.conf"
        case "$3" in update) exit 0 ;; esac
        pause apt-get
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
        pause dpkg-source
        """,
    "cxx": """
        echo "cxx (Debian) 12.2"
        """,
    "other": """
        echo "other (Debian) 13.1"
        """,
    "cmake": """
        if [ "$1" = --build ]; then
          pause cmake
          if [ ! -e "$WORLD/no-archive" ]; then echo code >"$2/libmemlease_private_grpc.a"; fi
        else
          mkdir -p "$6"
        fi
        """,
}


PAUSE = """
pause() {
  if [ -e "$WORLD/$1" ]; then echo >"$WORLD/reached"; read -r _ <"$WORLD/$1"; fi
  if [ -e "$WORLD/$1.fails" ]; then echo "error: no such thing"; exit 1; fi
}
"""


class World:
    """A cache, and doubles of the programs that the builder runs."""

    def __init__(self, folder):
        self.folder = folder
        self.cache = folder / "cache"
        programs = folder / "bin"
        programs.mkdir()
        for name, code in DOUBLES.items():
            (programs / name).write_text(
                f'#!/bin/sh\necho {name} "$@" >>"$WORLD/ran"\n{PAUSE}{code}'
            )
            (programs / name).chmod(0o755)
        self.environment = {
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "WORLD": str(folder),
            "XDG_CACHE_HOME": str(self.cache),
            "HOME": str(folder / "home"),
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

    def calls(self):
        """Return the calls of programs since the last question."""
        file = self.folder / "ran"
        lines = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return lines

    def ran(self):
        """Return the programs that ran since the last question."""
        return [line.split()[0] for line in self.calls()]

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


def test_a_cache_where_nothing_can_be_written_is_explained(world):
    (world.folder / "file").touch()
    world.environment["XDG_CACHE_HOME"] = f"{world.folder}/file"
    assert world.run("path")[0] == 3
    status, _, errors = world.run("build")
    assert status == 1
    folder = f"{world.folder}/file/memlease"
    assert errors.startswith(f"private_grpc.py: {folder}")
    assert f": Not a directory. It builds in {folder}/private-grpc; XDG_CACHE_HOME" in errors


def test_a_user_without_a_name_or_a_home(tmp_path, monkeypatch):
    def no_entry(uid):
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr("pwd.getpwuid", no_entry)
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME", "HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert deb_sources._configure(tmp_path / "apt", {}).exists()
    with pytest.raises(deb_sources.BuildError, match="Set XDG_CACHE_HOME"):
        private_grpc.cache_folder()


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


def test_without_entries_for_sources_nothing_is_asked_and_with_them_it_works(tmp_path, world):
    with pytest.raises(deb_sources.BuildError, match="nowhere to get sources from"):
        deb_sources.fetch({"abseil": "1-1"}, tmp_path / "work", tmp_path)
    assert world.ran() == []
    (tmp_path / "sources.list").write_text(ONE_LINE)
    assert world.run("build")[0] == 0


def test_apt_is_asked_for_the_installed_versions_of_these_sources_alone(world):
    assert world.run("build")[0] == 0
    update, source = (it.split()[3:] for it in world.calls() if it.startswith("apt-get"))
    assert update == ["update"]
    assert source == [
        *("source", "--download-only", "--only-source"),
        *("abseil=1-1", "protobuf=7:2-1"),
    ]


def test_apt_keeps_the_systems_proxies_but_neither_its_hooks_nor_its_folders(world, tmp_path):
    system = tmp_path / "system.conf"
    hooks = ["APT::Update::Pre-Invoke", "APT::Update::Post-Invoke"]
    system.write_text(
        "".join(f'{it} {{ "touch {tmp_path}/hooked"; }};\n' for it in hooks)
        + f'Acquire::http::Proxy "http://proxy.example";\nDir::State::lists "{tmp_path}/lists";\n'
    )
    world.environment["APT_CONFIG"] = str(system)
    assert world.run("build")[0] == 0
    configuration = (tmp_path / "apt.conf").read_text()
    assert 'Acquire::http::Proxy "http://proxy.example";' in configuration
    assert not re.search(r'^APT::Update::\S*Invoke\S* "[^"]', configuration, re.M)
    folders = dict(re.findall(r'^(Dir::\S+) "(.*)";$', configuration, re.M))
    for key in ("Dir::State::lists", "Dir::Cache", "Dir::Etc::sourceparts"):
        assert folders[key].startswith(str(world.cache)), key
    assert folders["Dir::Etc::sourcelist"] == "/dev/null"


def test_what_may_change_the_archive_is_in_its_key(world, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", world.environment["PATH"])
    monkeypatch.setenv("WORLD", world.environment["WORLD"])
    sources = {"abseil": "1-1", "protobuf": "7:2-1"}

    def key():
        return private_grpc.key_of(sources, "cxx")

    keys = [key()]
    assert key() == keys[0]
    sources["protobuf"] = "8:2-1"
    keys.append(key())
    monkeypatch.setattr(private_grpc, "FLAGS", "-O3")
    keys.append(key())
    monkeypatch.setattr(private_grpc.platform, "machine", lambda: "another")
    keys.append(key())
    (tmp_path / "CMakeLists.txt").write_text("another")
    monkeypatch.setattr(private_grpc, "HERE", tmp_path)
    keys.append(key())
    assert len(set(keys)) == len(keys)


def test_a_relative_folder_for_caches_counts_for_none(world):
    world.environment["XDG_CACHE_HOME"] = "cache"
    status, output, errors = world.run("build")
    assert status == 0, errors
    folder = Path(output.splitlines()[-1])
    assert folder.is_relative_to(world.folder / "home" / ".cache")
    assert (folder / "libmemlease_private_grpc.a").exists()


@pytest.mark.parametrize("step", ["dpkg-source", "cmake"])
def test_a_step_that_fails_says_so_and_leaves_nothing_that_looks_whole(world, step):
    (world.folder / f"{step}.fails").touch()
    status, output, errors = world.run("build")
    assert status == 1
    assert "error: no such thing" in output + errors
    assert {"dpkg-source": "do not unpack", "cmake": "goes on where this one ended"}[step] in errors
    assert world.finished() == []
    (world.folder / f"{step}.fails").unlink()
    assert world.ran()[-1] == step
    assert world.run("build")[0] == 0
    assert world.ran().count(step) == 2  # of each source; to configure and to build
    assert len(world.finished()) == 1


def test_a_folder_that_has_its_name_is_whole(world):
    (world.folder / "no-archive").touch()
    assert world.run("build")[0] != 0
    assert world.finished() == []
    (world.folder / "no-archive").unlink()
    assert world.run("build")[0] == 0


@pytest.fixture
def hold(world):
    """Return a call that starts a build, which waits in a step, and a call that lets that go on."""

    def held(step):
        pipe = world.folder / step
        reached = world.folder / "reached"
        os.mkfifo(pipe)
        os.mkfifo(reached)
        told = os.open(reached, os.O_RDWR)
        process = world.start("build")
        try:
            assert select.select([told], [], [], 60)[0], f"{step} did not start"
        finally:
            os.close(told)
        reached.unlink()

        def go_on():
            told = os.open(pipe, os.O_RDWR)  # does not wait if nobody reads any more
            os.write(told, b"\n")
            os.close(told)
            pipe.unlink()

        return process, go_on

    return held


@pytest.mark.parametrize("step", ["apt-get", "dpkg-source", "cmake"])
def test_an_interrupted_build_goes_on_where_it_was(world, hold, step):
    process, go_on = hold(step)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    go_on()
    assert process.returncode == 130
    assert world.finished() == []
    assert "apt-get" in world.ran()
    assert world.run("build")[0] == 0
    ran = world.ran()
    assert ran.count(step) == 2
    assert ("apt-get" in ran) == (step != "cmake")
    assert len(world.finished()) == 1


def test_of_two_at_once_the_second_waits(world, hold):
    first, go_on = hold("cmake")
    second = world.start("build")
    assert "waiting for it" in second.stdout.readline()
    go_on()
    results = [it.communicate(timeout=60)[0].splitlines()[-1] for it in (first, second)]
    assert results == [str(it) for it in world.finished() * 2]
    assert world.ran().count("cmake") == 2  # to configure and to build, once
