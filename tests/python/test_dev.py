"""What ./dev and clang-tidy look at: each folder of ours, also one that comes later."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from properties import tried

pytestmark = pytest.mark.no_asan  # runs shell and Python alone

ROOT = Path(__file__).parents[2]
FOLDERS = set(re.findall(r"add_subdirectory\((.+)\)", (ROOT / "CMakeLists.txt").read_text()))
PACKAGE = (
    "python/memlease/client.py",
    "pyproject.toml",
    "requirements/build.txt",
    ".venv/pyvenv.cfg",
    "build/release/python/_core.cpython-311-x86_64-linux-gnu.so",
    "build/release/lib/libmemlease.so.0.1.0",
    "build/release/lib/libmemlease_cuda.so",
    "build/release/bin/memleased",
    "build/release/bin/memleasectl",
)


@pytest.fixture
def install(tmp_path):
    """Return a call of ./dev's in a tree that is built, which tells whether it ran pip."""
    shutil.copy(ROOT / "dev", tmp_path)
    python = tmp_path / ".venv" / "bin" / "python"
    for path in (*(tmp_path / name for name in PACKAGE), python):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    python.write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran'\n")
    python.chmod(0o755)
    call = "source ./dev help >/dev/null; install_python release"

    def run():
        subprocess.run(["bash", "-c", call], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
        ran = (tmp_path / "ran").exists()
        (tmp_path / "ran").unlink(missing_ok=True)
        return ran

    return run


@pytest.mark.parametrize("name", PACKAGE)
def test_the_python_package_is_installed_after_a_change(install, tmp_path, name):
    assert install()
    assert not install(), "although nothing has changed"
    later = (tmp_path / "build" / "python-release" / "installed").stat().st_mtime_ns + 1
    os.utime(tmp_path / name, ns=(later, later))
    assert install()


def pins(group):
    lines = (ROOT / "requirements" / f"{group}.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def test_a_package_has_one_version_in_all_groups():
    versions = {}
    for group in sorted(path.stem for path in (ROOT / "requirements").glob("*.txt")):
        for package, version in pins(group).items():
            assert versions.setdefault(package, version) == version, f"{package} in {group}"


def test_demo_and_lint_install_no_framework():
    for group in ("build", "demo", "bench", "lint"):
        assert not pins(group).keys() & {"torch", "jax", "jaxlib", "ray", "pyarrow"}


@pytest.fixture
def groups(tmp_path):
    """Return a call of ./dev's with groups of packages, which tells what pip was given."""
    shutil.copy(ROOT / "dev", tmp_path)
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\necho \"$@\" >>'{tmp_path}/calls'\n")
    python.chmod(0o755)

    def run(*names):
        (tmp_path / "calls").unlink(missing_ok=True)
        call = f"source ./dev help >/dev/null; ensure_python {' '.join(names)}"
        subprocess.run(["bash", "-c", call], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
        calls = (tmp_path / "calls").read_text() if (tmp_path / "calls").exists() else ""
        return re.findall(r"-r requirements/(\w+)\.txt", calls)

    return run


def test_a_group_of_packages_is_installed_once_and_after_a_change(groups, tmp_path):
    assert groups("build", "demo") == ["build", "demo"]
    assert groups("build", "demo") == []
    assert groups("build", "lint") == ["lint"]
    with (tmp_path / "requirements" / "demo.txt").open("a") as file:
        file.write("another==1\n")
    assert groups("build", "lint") == []
    assert groups("build", "demo") == ["demo"]


@pytest.fixture
def dev_on_a_bare_system(tmp_path):
    """Return a call of ./dev on a system without any package, which tells what it would install."""
    shutil.copy(ROOT / "dev", tmp_path)
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "dpkg-query"
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    path = f"{tmp_path}/bin:{os.environ['PATH']}"

    def run(*command):
        result = subprocess.run(
            [tmp_path / "dev", *command], env={**os.environ, "PATH": path, "DEV_INSTALL": "never"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert result.returncode == 1
        return set(re.search(r"or install (.+)", result.stderr)[1].split())

    return run


def test_the_demo_needs_no_package_of_tests_and_benchmarks(dev_on_a_bare_system):
    whole = dev_on_a_bare_system("build")
    demo = dev_on_a_bare_system("demo")
    assert demo < whole
    assert {"cmake", "libgrpc++-dev", "libopenmpi-dev"} <= demo
    left_out = whole - demo
    assert {"libgtest-dev", "librapidcheck-dev", "libbenchmark-dev", "spin", "strace"} <= left_out


@pytest.mark.parametrize(
    "part", ["model", "storms", "simulation", "fuzz", "faults", "package", "systemd"]
)
def test_each_part_of_prove_comes_to_what_it_needs(dev_on_a_bare_system, tmp_path, part):
    (tmp_path / "tests").mkdir()
    for script in ("run.sh", "prove.sh"):
        shutil.copy(ROOT / "tests" / script, tmp_path / "tests")
    assert "cmake" in dev_on_a_bare_system("prove", part)


@pytest.fixture
def configure(tmp_path):
    """Return a call of ./dev's that builds, which tells the parts that cmake was asked for."""
    shutil.copy(ROOT / "dev", tmp_path)

    def run(*parts, preset="release"):
        call = (
            'source ./dev help >/dev/null; ensure_packages() { true; }; step() { echo "$@"; };'
            f"ensure_parts {' '.join(parts)}; build_targets {preset} all"
        )
        result = subprocess.run(
            ["bash", "-c", call], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        return dict(re.findall(r"-DMEMLEASE_BUILD_(EXAMPLES|TESTS|BENCH)=(ON|OFF)", result.stdout))

    return run


def test_a_tree_has_the_parts_that_its_commands_need(configure, tmp_path):
    whole = {"EXAMPLES": "ON", "TESTS": "ON", "BENCH": "ON"}
    assert configure("examples") == {"EXAMPLES": "ON", "TESTS": "OFF", "BENCH": "OFF"}
    assert configure("examples", "tests", "bench") == whole
    (tmp_path / "build" / "release").mkdir(parents=True)
    (tmp_path / "build" / "release" / "CMakeCache.txt").touch()
    assert configure("examples") == {"EXAMPLES": "ON"}, "the others stay as they are"
    assert configure("examples", "tests", "bench") == whole
    assert configure("examples", "tests", "bench", preset="asan") == {}, "its preset says that"


def test_clang_tidy_looks_at_the_headers_of_each_folder():
    wanted, unwanted = (
        re.search(rf"^{key}: '(.+)'", (ROOT / ".clang-tidy").read_text(), re.M)[1]
        for key in ("HeaderFilterRegex", "ExcludeHeaderFilterRegex")
    )
    ours = {path.split("/")[0] for path in FOLDERS}
    headers = [f"/{it.relative_to(ROOT)}" for folder in ours for it in (ROOT / folder).rglob("*.h")]
    assert headers
    assert [it for it in headers if not re.search(wanted, it)] == []
    assert re.search(unwanted, "/build/release/proto/made.pb.h")


@pytest.mark.parametrize("wrong", [["nothing"], ["--minutes", "0"], ["fuzz", "--minutes"]])
def test_prove_refuses_what_it_does_not_know(wrong):
    run = subprocess.run(
        [ROOT / "dev", "prove", *wrong], capture_output=True, text=True, check=False
    )
    assert run.returncode == 2
    assert wrong[0].lstrip("-") in run.stderr or "--minutes" in run.stderr


def test_deb_refuses_what_it_does_not_know():
    run = subprocess.run([ROOT / "dev", "deb", "all"], capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "deb does not know 'all'" in run.stderr
    assert run.stdout == ""


@pytest.mark.parametrize("wrong", [["--nothing"], ["--python"]])
def test_wheel_refuses_what_it_does_not_know(wrong):
    run = subprocess.run(
        [ROOT / "dev", "wheel", *wrong], capture_output=True, text=True, check=False
    )
    assert run.returncode == 2
    assert wrong[0] in run.stderr
    assert run.stdout == ""


def test_docs_refuses_what_it_does_not_know():
    run = subprocess.run(
        [ROOT / "dev", "docs", "nothing"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 2
    assert "nothing" in run.stderr


def test_prove_has_the_parts_that_help_lists_and_the_fuzzers_that_there_are():
    script = (ROOT / "tests" / "prove.sh").read_text()
    usage = subprocess.run([ROOT / "dev", "help"], capture_output=True, text=True, check=True)
    parts = set(re.findall(r"^prove_(\w+)\(\)", script, re.M))
    listed = usage.stdout.split("  prove [PART]")[1].split("\n  bench")[0]
    assert parts == set(re.findall(r"^ {22}(\w+)  ", listed, re.M))
    fuzzers = {path.stem.removeprefix("fuzz_") for path in (ROOT / "tests/fuzz").glob("fuzz_*.cc")}
    assert fuzzers == set(re.search(r"^readonly fuzzers=\((.+)\)", script, re.M)[1].split())


def test_prove_tries_each_property_on_more_examples(monkeypatch):
    few = tried(examples=5).max_examples
    monkeypatch.setenv("MEMLEASE_TIMES_EXAMPLES", "3")
    assert tried(examples=5).max_examples == 3 * few
    texts = {it: it.read_text() for it in (ROOT / "tests").rglob("test_*.py")}
    files = [it for it, text in texts.items() if re.search(r"^@given\(", text, re.M)]
    assert len(files) >= 3
    for it in files:
        assert it.parent == ROOT / "tests" / "python", "where ./dev prove fuzz looks"
        assert "from properties import tried" in texts[it], it
        assert not re.search(r"\bsettings\(", texts[it]), it


def test_a_hook_installs_nothing(tmp_path):
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "dpkg-query"
    fake.write_text("#!/bin/sh\nexit 1\n")  # knows no package
    fake.chmod(0o755)
    for name in ("sudo", "apt-get"):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\ntouch '{tmp_path}/called'\n")
        (tmp_path / "bin" / name).chmod(0o755)
    shutil.copy(ROOT / "dev", tmp_path)
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "lint.sh", tmp_path / "tests")
    hook = (ROOT / ".pre-commit-config.yaml").read_text()
    entry = re.search(r"entry: ([^#\n]+)", hook)[1]
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    result = subprocess.run(
        entry.split(), cwd=tmp_path, env={**os.environ, "PATH": path},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 1
    assert "run ./dev setup" in result.stderr
    assert not (tmp_path / "called").exists()


CTEST = """
1/3 Test  #7: test_parts.It Goes/0  # GetParam() = 1.5 sec ....   Passed    0.35 sec
2/3 Test #12: test_parts.Falls ......***{how}  2.50 sec
67% tests passed, 1 tests failed out of 3
The following tests FAILED:
\t 12 - test_parts.Falls ({how})
"""
PYTEST = """
FAILED tests/python/test_one.py::test_falls{how}
=== 1 failed, 2 passed in 3.00s ===
"""


@pytest.fixture
def part_of_tests(tmp_path):
    """Return a call of ./dev's that runs a part of the tests, whose runner ends badly at first."""
    shutil.copy(ROOT / "dev", tmp_path)
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "run.sh", tmp_path / "tests")
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("ctest", "python"):
        (programs / name).write_text(
            '#!/bin/sh\ncase "$*" in *--show-only*) exit 0 ;; esac\necho ran >>runs\n'
            'if [ "$(wc -l <runs)" = 2 ]; then exit 0; fi\ncat output; exit "$(cat status)"\n'
        )
        (programs / name).chmod(0o755)

    def run(runner, output, status):
        (tmp_path / "runs").unlink(missing_ok=True)
        (tmp_path / "output").write_text(output)
        (tmp_path / "status").write_text(str(status))
        call = (
            f"source ./dev help >/dev/null; source tests/run.sh; {runner} release;"
            'echo "again: ${again[*]}"; printf "slow: %s\\n" "${slow[@]}"'
        )
        return subprocess.run(
            ["bash", "-c", call], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    return run


def test_what_failed_beside_others_is_run_again_alone_and_named(part_of_tests):
    ended = part_of_tests("run_pytest", PYTEST.format(how=""), 1)
    assert ended.returncode == 0, ended.stderr
    assert "again: release: tests/python/test_one.py::test_falls\n" in ended.stdout
    ended = part_of_tests("run_ctest", CTEST.format(how="Failed"), 8)
    assert ended.returncode == 0, ended.stderr
    assert "again: release: test_parts.Falls\n" in ended.stdout


@pytest.mark.parametrize(
    ("runner", "output", "status"),
    [
        ("run_pytest", PYTEST.format(how="") + "!!! KeyboardInterrupt !!!", 2),
        ("run_pytest", PYTEST.format(how=""), 3),
        ("run_pytest", PYTEST.format(how="") * 4, 1),
        ("run_pytest", "worker 'gw1' crashed while running 'a'" + PYTEST.format(how=""), 1),
        ("run_pytest", "ERROR: AddressSanitizer: heap-use" + PYTEST.format(how=""), 1),
        ("run_ctest", CTEST.format(how="Failed"), 130),
        ("run_ctest", CTEST.format(how="SEGFAULT"), 8),
        ("run_ctest", CTEST.format(how="Subprocess aborted"), 8),
    ],
)
def test_a_run_that_broke_off_or_died_is_not_forgiven(part_of_tests, runner, output, status):
    ended = part_of_tests(runner, output, status)
    assert ended.returncode == status
    assert "again: " not in ended.stdout


def test_the_slowest_tests_are_named_without_the_dots_behind_them(part_of_tests):
    ended = part_of_tests("run_ctest", CTEST.format(how="Failed"), 8)
    assert re.findall("slow: (.+)", ended.stdout) == [
        "2.50 release test_parts.Falls",
        "0.35 release test_parts.It Goes/0  # GetParam() = 1.5 sec",
    ]
