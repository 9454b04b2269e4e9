"""The documents say what the code says: links, names, snippets, errors, options."""

import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import memlease
import pytest
from memlease import errors, programs

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), ROOT / "tests/model/README.md"])
FOLDERS = "bench|client|cmake|cuda|deploy|docs|examples|proto|python|server|tests|wire"
SOURCES = (
    "bench",
    "client",
    "cmake",
    "cuda",
    "deploy",
    "examples",
    "proto",
    "python",
    "server",
    "tests/model",
    "tests/support/fakecuda",
    "wire",
)
CODE = ("*.h", "*.cc", "*.py", "*.pyi", "*.proto", "*.pml", "*.txt", "*.cmake")

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def prose(page):
    """Return the page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)


def anchors(page):
    """Return those of the page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def spans(page):
    return re.findall(r"`([^`\n]+)`", prose(page))


@pytest.fixture(scope="module")
def words_of_the_code():
    files = (file for folder in SOURCES for kind in CODE for file in (ROOT / folder).rglob(kind))
    return {word for file in files for word in re.findall(r"\w+", file.read_text())}


@every_page
def test_links_lead_somewhere(page):
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        if target.startswith(("https://", "http://")):
            continue
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert broken == []


@every_page
def test_files_that_are_named_exist(page):
    named = [span for span in spans(page) if re.fullmatch(rf"({FOLDERS})/[\w./*-]*", span)]
    found = {name for name in named for form in ("", ".*") if [*ROOT.glob(name.rstrip("/") + form)]}
    assert set(named) - found == set()


# Decisions name other people's code, too.
@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_code_that_is_named_exists(page, words_of_the_code):
    named = [span for span in spans(page) if re.fullmatch(r"\w+(::\w+)+|\w*_\w+(\(\))?", span)]
    words = {word for name in named for word in re.findall(r"\w+", name)}
    assert words - words_of_the_code == set()


@pytest.mark.parametrize(("language", "file"), [("python", "hello.py"), ("cpp", "hello.cc")])
def test_the_readme_shows_the_examples_as_they_are(language, file):
    shown = re.findall(rf"^```{language}\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    assert shown == [(ROOT / "examples/hello" / file).read_text()]


def test_the_page_on_installing_shows_the_first_array_as_the_wheel_is_tried_with_it():
    shown = (ROOT / "tests/wheel/first_array.py").read_text()
    assert each_block("python", "installing.md") == [shown]
    assert len([line for line in shown.splitlines() if line]) == 6


def each_block(language, page):
    """Return a guide's blocks of code in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(), re.M | re.S)


def blocks(language, page="using.md"):
    """Return them as one program."""
    return "".join(each_block(language, page))


def test_the_guides_python_runs(memlease_daemon):
    code = blocks("python")
    assert code.count("field.") > 5
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    assert run.stdout.startswith("<memlease.Array 'sim/result' float64[3] host v1 slots=3>\n1\n")


def test_the_guides_python_for_gpus_is_python():
    code = blocks("py")  # runs with a GPU and its libraries alone
    assert code.count("lease") > 5
    compile(code, "using.md", "exec")


# What needs C++20 is called c++ there.
@pytest.mark.no_asan  # compiles alone
@pytest.mark.parametrize(
    ("standard", "code"), [("17", blocks("cpp")), ("20", blocks("cpp") + blocks(r"c\+\+"))]
)
def test_the_guides_cpp_compiles(tmp_path, standard, code):
    guide = tmp_path / "guide.cc"
    guide.write_text(
        "#include <cuda_runtime_api.h>\n#include <memlease/memlease.h>\n"
        "#include <memlease/kernels.h>\n#include <poll.h>\n"
        "#include <chrono>\n#include <thread>\n#include <vector>\n"
        f"void guide() {{\n{code}}}\n"
    )
    cuda = Path(sysconfig.get_path("purelib"), "nvidia/cu13/include")  # of requirements/build.txt
    folders = [f"-I{ROOT / 'client/include'}", f"-isystem{cuda}"]
    command = ["c++", f"-std=c++{standard}", "-fsyntax-only", *folders, str(guide)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr


def test_the_readme_names_commands_that_dev_has():
    usage = subprocess.run([ROOT / "dev", "help"], capture_output=True, text=True, check=True)
    used = re.findall(r"\./dev (\w+)", (ROOT / "README.md").read_text())
    assert {"demo", "test"} <= set(used)
    assert set(used) <= set(re.findall(r"^  (\w+)", usage.stdout, re.M))


def test_each_error_is_in_the_catalogue():
    page = (DOCS / "errors.md").read_text()
    described = {}
    for code, name, text in re.findall(r"^## (ML\d+) (\w+)\n(.*?)(?=^## |\Z)", page, re.M | re.S):
        builtin = re.search(r"Python: also `(\w+)`", text)
        assert "\n- Do: " in text, f"{name}: what to do?"
        described[code] = (name, builtin and builtin[1])
    assert described == {
        error.code: (error.__name__, error.__bases__[1].__name__)
        for error in errors.BY_NUMBER.values()
    }
    assert list(described) == sorted(described)


def test_the_form_of_an_error_is_shown_as_it_is():
    shown = re.search(r"^    (.* \[ML003\])$", (DOCS / "errors.md").read_text(), re.M)
    error = memlease.AlreadyExists(
        "the name 'sim/u' is taken", "Open it, withdraw it, or create with exist_ok."
    )
    assert shown
    assert shown[1] == str(error)


def test_the_daemons_manual_names_what_help_names():
    text = subprocess.run([programs.daemon(), "--help"], capture_output=True, text=True, check=True)
    manual = (DOCS / "man/memleased.8.scd").read_text()
    options = {"--help", *re.findall(r"^  (--[a-z-]+)", text.stdout, re.M)}
    section = manual.split("# OPTIONS")[1].split("# FILES")[0]
    entries = [line for line in section.splitlines() if line.startswith("*--")]
    assert {option for entry in entries for option in re.findall(r"--[a-z-]+", entry)} == options


def test_the_daemons_manual_names_each_setting_by_all_its_names():
    text = subprocess.run(
        [programs.daemon(), "--print-config"], capture_output=True, text=True, check=True
    )
    manual = (DOCS / "man/memleased.8.scd").read_text()
    keys = re.findall(r"^(\w+) *=", text.stdout, re.M)
    assert "warm_bytes" in keys
    for key in keys:
        variable = "MEMLEASE_DIR" if key == "directory" else f"MEMLEASE_{key.upper()}"
        entry = rf"^\*--{key.replace('_', '-')}\* .*\*{variable}\*, \*{key}\*$"
        assert re.search(entry, manual, re.M), key


def test_decisions_are_numbered_as_their_files():
    pages = sorted((DOCS / "decisions").glob("*.md"))
    assert len(pages) >= 7
    for number, page in enumerate(pages, 1):
        text = page.read_text()
        assert page.name.startswith(f"{number:04}-")
        assert text.startswith(f"# {number}. ")
        assert re.findall(r"^## (.*)$", text, re.M) == ["Context", "Decision", "Consequence"]
