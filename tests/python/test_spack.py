"""The recipe for Spack, as far as that can be seen without it: what it says of memlease is true."""

import re
import sys
import types
from pathlib import Path

import pytest

pytestmark = pytest.mark.no_asan  # runs no code of memlease's

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "deploy/spack/packages/memlease/package.py"
DIRECTIVES = ("version", "license", "variant", "depends_on", "requires", "conflicts", "generator")


@pytest.fixture
def recipe(monkeypatch):
    """Return the recipe's class, and what it has told a stand-in for Spack, by directive."""
    said = {name: [] for name in DIRECTIVES}
    spack = types.ModuleType("spack.package")
    for name in DIRECTIVES:
        setattr(spack, name, lambda *args, _said=said[name], **_: _said.append(args[0]))
    spack.CMakePackage = type(
        "CMakePackage", (), {"define": lambda self, name, value: (name, value)}
    )
    monkeypatch.setitem(sys.modules, "spack", types.ModuleType("spack"))
    monkeypatch.setitem(sys.modules, "spack.package", spack)
    scope = {}
    exec(compile(RECIPE.read_text(), RECIPE, "exec"), scope)
    return scope["Memlease"], said


def test_it_is_of_this_version(recipe):
    assert recipe[1]["version"] == [(ROOT / "VERSION").read_text().strip()]


def test_it_sets_what_there_is_to_set(recipe):
    files = [ROOT / "CMakeLists.txt", *(ROOT / "cmake").glob("*.cmake")]
    text = "".join(it.read_text() for it in files)
    known = set(re.findall(r"(?:option|set)\((MEMLEASE_\w+)", text))
    arguments = dict(recipe[0]().cmake_args())
    assert arguments.keys() <= known
    assert arguments["MEMLEASE_GRPC"] == "shared"


def test_it_has_all_that_the_build_asks_for(recipe):
    text = (ROOT / "cmake/dependencies.cmake").read_text()
    asked = re.findall(r"^memlease_require\((\w+) +(\S+)", text, re.M)
    spack_names = {"absl": "abseil-cpp", "Threads": None}
    form = re.compile(r"([\w-]+)(?:@([\d.]+))?")
    versions = dict(form.match(it).groups() for it in recipe[1]["depends_on"])
    for package, least in asked:
        name = spack_names.get(package, package.lower())
        if name is not None:
            assert versions[name] == least, f"{package} {least}"
