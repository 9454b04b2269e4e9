"""A bundle whose parts are small scripts, for tests of how a run goes."""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

HARDWARE = Path(__file__).parents[1] / "hardware"
PLUGIN = Path(__file__).parents[1] / "support/gpu/results_plugin.py"
SCRIPTS = {"smoke": "smoke.py", "answers": "probes.py", "journey": "journey.py",
           "figures": "figures.py"}  # fmt: skip
PARTS = (*SCRIPTS, "cpp", "python", "demo")

# Says that it has passed, starts what nobody is to find later, tells who that is, and hangs.
HANG = """
import os, subprocess
def hang():
    command = ["setsid", "sh", "-c", "echo $$ >>'{told}'; exec sleep 1000"]
    subprocess.Popen(command)
    subprocess.run(["sleep", "1000"])
"""
CHECK = """
import json, os, sys
{hang}
if len(sys.argv) == 1:
    print(json.dumps(["one", "two"]))
elif sys.argv[1] == "one":
    print(json.dumps({{"check": "{stem}::one", "result": "passed", "why": ""}}), flush=True)
    print(json.dumps({{"answer": "{stem}", "is": "yes"}}), flush=True)
else:
    {two}
"""
PYTHON_TESTS = """
{hang}
def test_one():
    pass
def test_two():
    {two}
def test_three():
    pass
"""
CPP_TESTS = """#!/bin/sh
[ "$1" = --gtest_list_tests ] && printf 'Suite.\\n  One\\n  Two\\n  Three\\n' && exit
for test in One Two Three; do
  case $1 in *Suite.$test*) ;; *) continue ;; esac
  echo "[ RUN      ] Suite.$test"
  [ $test != Two ] || {two}
  echo "[       OK ] Suite.$test (0 ms)"
done
"""
# The first test's result shall be there.
CPP_HANG = """
{{
    until grep -q Suite.One '{report}/report.json'; do sleep 0.01; done
    setsid sh -c "echo \\$\\$ >>'{told}'; exec sleep 1000"
}}"""
DEMO = """
{hang}
{two}
print("the demo has ended")
"""
RUN_PART = """
import sys, time, pathlib, parts, place, report, run_state
name, limit_s, one_test_s, folder = sys.argv[1:]
made = report.Report(pathlib.Path(folder))
end = time.monotonic() + float(limit_s)
run = run_state.Run(made, False, place.environment(False), {}, end, float(one_test_s))
parts.go(run, parts.selected([name], None))
"""


class FakeBundle:
    """One in a folder with a blank, which a run of its own run.py uses."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "a bundle"
        self.report = folder / "report"
        self.tools = folder / "tools"  # all that is in PATH
        self.told = folder / "told"
        os.mkfifo(self.told)
        self.tools.mkdir()
        for tool in ("sh", "env", "sleep", "setsid", "grep"):
            (self.tools / tool).symlink_to(shutil.which(tool))
        shutil.copytree(
            HARDWARE, self.root / "tests/hardware", ignore=shutil.ignore_patterns("__pycache__")
        )
        self.put("tests/support/gpu/results_plugin.py", PLUGIN.read_text())
        self.put("pytest.ini", "[pytest]\n")
        for source in ("test_kernels.cc", "launch_nvcc.h"):
            self.put(f"tests/support/fakecuda/{source}", "")
        for module in ("__init__", "_core", "testing"):
            self.put(f"python/memlease/{module}.py", "")
        self.put("build/prebuilt/libcudart.so.13", "")
        self.put("build/prebuilt/libtest_kernels.so", "")
        for program in ("bin/memleased", "bin/memleasectl", "mpi/bin/mpirun",
                        "bin/tsunami_simulation"):  # fmt: skip
            self.put_program(f"build/{program}", "#!/bin/sh\necho 1.0\n")
        for part in PARTS:
            self.part(part)

    def put(self, name: str, text: str) -> Path:
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def put_program(self, name: str, text: str) -> None:
        self.put(name, text).chmod(0o755)

    def part(self, name: str, two: str = "pass") -> None:
        """Make a part whose second check does this; `hang()` and `fail()` are known."""
        hang = HANG.format(told=self.told)
        match name:
            case "cpp":
                does = {"hang()": CPP_HANG.format(told=self.told, report=self.report),
                        "os.abort()": "kill -ABRT $$", "pass": "true"}[two]  # fmt: skip
                self.put_program("build/tests/test_fake", CPP_TESTS.format(two=does))
            case "python":
                self.put("tests/conformance/test_fake.py", PYTHON_TESTS.format(hang=hang, two=two))
            case "demo":
                self.put("examples/tsunami/run.py", DEMO.format(hang=hang, two=two))
            case _:
                stem = SCRIPTS[name].removesuffix(".py")
                text = CHECK.format(hang=hang, two=two, stem=stem)
                self.put(f"tests/hardware/{SCRIPTS[name]}", textwrap.dedent(text))

    def start(self, *arguments: str | Path, **more: str) -> subprocess.Popen:
        """Run it, in an environment that has hardly anything."""
        return subprocess.Popen(
            [sys.executable, self.root / "tests/hardware/run.py", *arguments, self.report],
            env={"PATH": str(self.tools), **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str | Path, **more: str) -> tuple[int, str]:
        """Run it to its end; return the exit status and the output."""
        process = self.start(*arguments, **more)
        output = process.communicate(timeout=120)[0]
        return process.returncode, output

    def run_part(self, name: str, limit_s: float, one_test_s: float = 60) -> str:
        """Run one part within a time that nothing else uses up."""
        ended = subprocess.run(
            [sys.executable, "-c", RUN_PART, name, str(limit_s), str(one_test_s), self.report],
            env={"PATH": str(self.tools), "PYTHONPATH": str(self.root / "tests/hardware")},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        return ended.stdout

    def hanging(self) -> int:
        """Wait until a part hangs, and return a descriptor of the process that it has started."""
        return os.pidfd_open(int(self.told.read_text()))

    @contextlib.contextmanager
    def listening(self) -> Iterator[list[int]]:
        """Give a list that has, in the end, such descriptors of what parts have started."""
        found: list[int] = []
        end = os.open(self.told, os.O_RDONLY | os.O_NONBLOCK)
        try:
            yield found
            for pid in os.read(end, 1 << 16).split():
                with contextlib.suppress(ProcessLookupError):  # it has ended
                    found.append(os.pidfd_open(int(pid)))
        finally:
            os.close(end)


def has_ended(pidfd: int) -> bool:
    """Wait a while for a process's end, and tell."""
    try:
        ended = bool(select.select([pidfd], [], [], 10)[0])
        if not ended:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        return ended
    finally:
        os.close(pidfd)
