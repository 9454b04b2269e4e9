"""What ./dev wheel looks at: what is linked in, what a wheel may need, and bare systems."""

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_binary_file
from pathlib import Path

import pytest

pytestmark = pytest.mark.no_asan  # sanitized builds are never packaged

ROOT = Path(__file__).parents[2]
BUILD = Path(os.environ["MEMLEASE_BUILD_DIR"])
PROGRAMS = [BUILD / "bin/memleased", BUILD / "bin/memleasectl"]
LIBRARIES = [BUILD / "lib/libmemlease.so", BUILD / "lib/libmemlease_cuda.so"]


@pytest.fixture
def load(monkeypatch):
    """Import a script of ours."""
    for folder in ("deploy/wheel", "tests/wheel"):
        monkeypatch.syspath_prepend(str(ROOT / folder))
    return importlib.import_module


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.fixture(scope="module")
def notices(tmp_path_factory):
    folder = tmp_path_factory.mktemp("notices")
    output_of(sys.executable, ROOT / "deploy/wheel/linked.py", BUILD, folder)
    return folder


# What the symbols of a project begin with: another way to see that it is in there.
MARKS = {
    "abseil": r"absl::",
    "c-ares": r"ares_init",
    "cli11": r"CLI::",
    "fmtlib": r"fmt::",
    "grpc": r"grpc::",
    "protobuf": r"google::protobuf::",
    "re2": r"re2::",
    "spdlog": r"spdlog::",
    "tomlplusplus": r"toml::",
    "zlib": r"inflate\b",
}


def test_there_are_notices_of_all_that_the_symbols_tell_of(notices):
    [module] = (BUILD / "python").glob("_core.*.so")
    symbols = "".join(output_of("nm", "-C", it) for it in (*PROGRAMS, *LIBRARIES, module))
    found = {name for name, mark in MARKS.items() if re.search(rf" [TtWV] {mark}", symbols)}
    assert {"abseil", "fmtlib", "grpc", "protobuf", "spdlog"} <= found
    texts = {it.stem for it in (notices / "licenses/third_party").glob("*.txt")}
    assert found - texts == set()
    assert {"pybind11", "apache-tvm-ffi"} <= texts


def test_the_bill_of_materials_has_what_the_notices_have(notices):
    bill = json.loads((notices / "sboms/memlease.cdx.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    [grpc] = [it for it in bill["components"] if it["name"] == "grpc"]
    assert grpc["purl"].startswith("pkg:deb/debian/grpc@1.")
    assert {"license": {"name": "Apache-2.0"}} in grpc["licenses"]
    texts = {it.stem for it in (notices / "licenses/third_party").glob("*.txt")}
    assert {it["name"] for it in bill["components"]} == texts


def test_licences_that_a_notice_names_by_a_path_of_debians_come_along(notices):
    folder = notices / "licenses/third_party"
    named = {
        name
        for it in folder.glob("*.txt")
        for name in re.findall(r"/usr/share/common-licenses/([\w.+-]*\w)", it.read_text())
    }
    assert "Apache-2.0" in named
    assert {it.name for it in (folder / "common-licenses").iterdir()} == named


def test_a_header_of_nobodys_is_an_error(load, monkeypatch, tmp_path):
    linked = load("linked")
    header = tmp_path / "unknown.h"
    header.touch()
    monkeypatch.setattr(linked, "files_in", lambda *_: {header})
    with pytest.raises(SystemExit, match=r"no Debian package owns .*unknown\.h"):
        linked.projects_in(BUILD)


# The newest that manylinux_2_34 has: glibc 2.34 and the libstdc++ of GCC 11, as of RHEL 9.
NEWEST = {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13), "GCC": (7, 0, 0)}


@pytest.mark.parametrize("file", [*PROGRAMS, *LIBRARIES], ids=lambda it: it.name)
def test_no_symbol_is_newer_than_the_wheels_tag(file):
    wanted = re.findall(
        r"\b(GLIBC|GLIBCXX|CXXABI|GCC)_(\d[\d.]+)", output_of("objdump", "-T", file)
    )
    assert ("GLIBC", "2.34") in wanted
    newer = {it for it in wanted if tuple(map(int, it[1].split("."))) > NEWEST[it[0]]}
    assert newer == set()


NAME = "memlease-0.1.0-cp311-cp311-manylinux_2_34_x86_64.whl"
INFO = "memlease-0.1.0.dist-info"
BINARIES = {
    "memlease/_core.cpython-311-x86_64-linux-gnu.so": "/bin/true",
    "memlease/libmemlease.so.0.1": "/bin/true",
    "memlease/libmemlease_cuda.so": "/bin/true",
    "memlease/bin/memleased": "/bin/true",
    "memlease/bin/memleasectl": "/bin/true",
}
TEXTS = (
    "memlease/__init__.py",
    "memlease/py.typed",
    "memlease/_core.pyi",
    "memlease/include/memlease/memlease.h",
    "memlease/lib/cmake/memlease/memleaseConfig.cmake",
    "memlease/lib/pkgconfig/memlease.pc",
    f"{INFO}/entry_points.txt",
    f"{INFO}/licenses/LICENSE",
)


@pytest.fixture
def wheel(notices, tmp_path):
    """Return a function that makes a wheel with these instead of the usual contents."""

    def make(name=NAME, without=(), **other):
        with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as archive:
            for path, file in (BINARIES | other.get("binaries", {})).items():
                archive.write(file, path)
            for path in set(TEXTS) - set(without):
                archive.writestr(path, "")
            archive.writestr(f"{INFO}/WHEEL", f"Tag: {name.removesuffix('.whl').split('-', 2)[2]}")
            for file in notices.rglob("*"):
                path = str(file.relative_to(notices))
                if file.is_file() and path not in without:
                    archive.write(file, f"{INFO}/{path}")
            if "filler" in other:
                archive.writestr("memlease/filler", os.urandom(other["filler"]))
        return tmp_path / name

    return make


def test_a_wheel_that_is_as_it_should_be_passes(load, wheel):
    assert "projects linked in" in load("check_wheel").check(wheel())


@pytest.mark.parametrize(
    ("contents", "why"),
    [
        ({"name": NAME.replace("2_34", "2_35")}, "its platform is not manylinux_2_34"),
        ({"without": [f"{INFO}/licenses/LICENSE"]}, "it has no .*LICENSE"),
        ({"without": ["licenses/third_party/re2.txt"]}, "the licence of re2 is missing"),
        ({"binaries": {"memlease/bin/memleased": BUILD / "tests/memlease_peer"}}, "needs libabsl"),
        ({"binaries": {"memlease/bin/memleasectl": BUILD / "bin/memleasectl"}}, "is not stripped"),
        ({"filler": 21 << 20}, "bytes, more than"),
    ],
    ids=["platform", "licence", "notice", "library", "debug", "size"],
)
def test_a_wheel_that_is_not_is_refused(load, wheel, contents, why):
    check_wheel = load("check_wheel")
    with pytest.raises(check_wheel.WrongError, match=why):
        check_wheel.check(wheel(**contents))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sdist")
    code = f"from scikit_build_core.build import build_sdist; build_sdist({str(folder)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)
    [archive] = folder.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        yield tar


def test_the_metadata_says_what_a_user_needs(sdist):
    version = (ROOT / "VERSION").read_text().strip()
    metadata = message_from_binary_file(sdist.extractfile(f"memlease-{version}/PKG-INFO"))
    assert metadata["Name"] == "memlease"
    assert metadata["Version"] == version
    assert metadata["Requires-Python"] == ">=3.11"
    assert (metadata["License-Expression"], metadata["License-File"]) == ("Apache-2.0", "LICENSE")
    # All that it depends on comes with an extra.
    assert all("extra ==" in it for it in metadata.get_all("Requires-Dist"))
    assert metadata.get_payload().startswith("# memlease\n")


def test_the_sdist_has_all_that_is_built(sdist):
    names = {it.partition("/")[2] for it in sdist.getnames()}
    top = re.findall(r"add_subdirectory\((.+)\)", (ROOT / "CMakeLists.txt").read_text())
    folders = {"cmake", *top} - {"bench", "examples", "tests"}
    built = {
        str(it.relative_to(ROOT))
        for folder in folders
        for it in (ROOT / folder).rglob("*")
        if it.is_file() and not re.search(r"/(__pycache__|\.\w+)/|\.so$", str(it.relative_to(ROOT)))
    }
    assert len(built) > 300
    assert built - names == set()
    assert {"CMakeLists.txt", "VERSION", "LICENSE", "README.md", "pyproject.toml"} <= names
    assert [it for it in names if it.startswith(("tests/", ".venv/", "build/"))] == []


def test_pythons_are_looked_for_in_path_and_in_pyenvs_folder(load, monkeypatch, tmp_path):
    wanted = [tmp_path / "bin/python3.12", tmp_path / ".pyenv/versions/3.13.0/bin/python3.13"]
    for program in (*wanted, tmp_path / "bin/python3.12-config"):
        program.parent.mkdir(parents=True, exist_ok=True)
        program.touch()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load("pythons").found() == [sys.executable, *map(str, wanted)]


def test_a_named_python_that_is_none_is_refused(load, monkeypatch):
    pythons = load("pythons")
    monkeypatch.setattr(sys, "argv", ["pythons.py", "/bin/true"])
    with pytest.raises(SystemExit, match="/bin/true is no CPython"):
        pythons.main()


def test_a_system_that_cannot_be_made_is_said_to_be_untried(load, monkeypatch, tmp_path, capsys):
    roots = load("roots")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["roots.py", "make", "jammy"])
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    roots.main()
    assert capsys.readouterr().out.startswith("not tried: Ubuntu 22.04: only root can")


def test_a_system_is_made_of_the_archive_that_this_one_uses(load, monkeypatch, tmp_path):
    roots = load("roots")
    apt_get = tmp_path / "apt-get"
    apt_get.write_text(
        "#!/bin/sh\necho other http://other.test\necho mine http://mine.test/debian\n"
    )
    apt_get.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert roots.mirror_of("mine") == "http://mine.test/debian"
    with pytest.raises(roots.UnavailableError, match="knows an archive that has nobodys"):
        roots.mirror_of("nobodys")


def test_no_system_is_made_of_an_archive_whose_signature_nobody_checks(load, monkeypatch, tmp_path):
    roots = load("roots")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(roots.UNSIGNED, raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(roots, "can_enter", lambda: True)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/sbin/{name}")
    monkeypatch.setitem(roots.ROOTS, "jammy", roots.Root("A system", "no-such-keyring", ()))
    with pytest.raises(roots.UnavailableError, match=r"no-such-keyring, .*DEV_UNSIGNED_ROOTS=yes"):
        roots.made("jammy")
