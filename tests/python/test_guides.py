"""The guides for beginners, for newcomers from elsewhere and for simulations: their code runs."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from test_docs import ROOT, blocks, each_block

PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
BUILD = Path(os.environ["MEMLEASE_BUILD_DIR"])

PROGRAM = """
#include <Eigen/Core>
#include <memlease/memlease.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

namespace {
void simulate() {
%s
const auto ring_end = ring.read({9});
const float ring_first = ring_end.span<float, 2>()(0, 1);
const float ring_last = ring_end.span<float, 2>()(5, 8);
std::cout << rank << " of " << ranks << ": skipped " << skipped << ", halo " << *top << " "
          << *bottom << ", corner " << corner << ", ring " << ring_first << " " << ring_last
          << (restarted ? ", restarted with " : ", began with ") << values.front() << std::endl;
}
}  // namespace

int main(int argc, char** argv) try {
  MPI_Init(&argc, &argv);
  simulate();
  MPI_Finalize();
} catch (const memlease::Error& error) {
  std::cerr << error.what() << std::endl;
  return 1;
}
"""


@pytest.fixture(scope="module")
def simulation(tmp_path_factory):
    """Compile the C++ of simulations.md, as strictly as memlease itself."""
    folder = tmp_path_factory.mktemp("simulation")
    (folder / "simulation.cc").write_text(PROGRAM % blocks("cpp", "simulations.md"))
    flags = subprocess.run(
        ["mpicxx", "--showme:compile"], capture_output=True, text=True, check=True
    ).stdout.replace("-I", "-isystem")
    command = [
        *("c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-DOMPI_SKIP_MPICXX"),
        *(f"-I{ROOT / 'client/include'}", "-isystem/usr/include/eigen3", *flags.split()),
        *("simulation.cc", "-o", "simulation"),
        *(f"-L{BUILD / 'lib'}", f"-Wl,-rpath,{BUILD / 'lib'}", "-lmemlease", "-lmpi"),
    ]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return folder / "simulation"


def lines_of_two_ranks(simulation):
    command = [shutil.which("mpirun"), "-n", "2", "--oversubscribe"]
    command += ["--mca", "mpi_yield_when_idle", "1"]
    command += ["--mca", "btl_vader_single_copy_mechanism", "none"]
    command += ["--allow-run-as-root"] if os.geteuid() == 0 else []
    run = subprocess.run(
        [*command, str(simulation)], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stderr
    # A step may be skipped, too, where the daemon is slow to give writer ownership.
    return sorted(re.sub(r"skipped \d+", "skipped n", line) for line in run.stdout.splitlines())


def wait_until_only_states_are_left(client):
    deadline = time.monotonic() + 30
    while set(client.list("sim/*")) != {"sim/rank0/state", "sim/rank1/state"}:
        assert time.monotonic() < deadline, client.list("sim/*")
        time.sleep(0.01)


@pytest.mark.no_asan  # a program of its own, which has no sanitizer
@pytest.mark.timeout(120)
def test_the_simulation_runs_and_goes_on_where_it_ended(simulation, memlease_client):
    assert lines_of_two_ranks(simulation) == [
        "0 of 2: skipped n, halo 0 1, corner 23, ring 1 1, began with 0",
        "1 of 2: skipped n, halo 0 1, corner 23, ring 0 0, began with 0",
    ]
    wait_until_only_states_are_left(memlease_client)
    assert memlease_client.open("sim/rank1/state").version == 2
    assert lines_of_two_ranks(simulation)[0].endswith("restarted with 1")
    assert memlease_client.open("sim/rank1/state").version == 4
    for name in ("sim/rank0/state", "sim/rank1/state"):
        memlease_client.withdraw(name)


def test_a_reader_gets_the_same_step_of_all_ranks(memlease_client, capsys):
    for rank, steps in enumerate((3, 2)):
        part = memlease_client.create(f"sim/rank{rank}/part", (8, 8), "f4")
        for step in range(1, steps + 1):
            part.put(np.full((8, 8), 10 * rank + step))
    names = {}
    field = memlease_client.create("sim/rank0/field", (6, 8), "f4")
    exec(blocks("python", "simulations.md"), names)
    assert field.get().tolist() == [[2] * 8] * 6
    assert capsys.readouterr().out == "2 (12, 8)\n"
    assert names["whole"][:, 0].tolist() == [2] * 6 + [12] * 6


def output_of(page):
    """Run the page's Python as one program, with nothing wrong on the way."""
    command = [sys.executable, "-W", "error", "-c", blocks("python", page)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout.splitlines()


def test_the_first_day_is_as_it_says(memlease_daemon):
    first, late, held, kept, *rest = output_of("first-day.md")
    assert (first, late) == ("0.0 2.0", "assignment destination is read-only")
    assert "[ML022]" in held
    assert float(kept) > 7  # the last version that was held, and not the 7 that follows
    assert rest == ["nothing new", "3 3.0 30.0", "day/density", "(8, 6)"]


RAY = """
import memlease, ray
ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False,
         object_store_memory=80 << 20)
"""


@pytest.mark.no_asan  # Ray starts programs of its own
def test_ray_takes_a_handle_as_the_page_says(memlease_daemon):
    code = RAY + each_block("py", "first-day.md")[1]
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=200, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == "3.0\ngone with its actor\n"


def test_the_first_days_data_set_is_that_of_the_example():
    shown = each_block("py", "first-day.md")[0]
    assert shown.startswith("class Frames(")
    assert shown in (ROOT / "examples/training/dataloader.py").read_text()


def test_the_first_days_test_passes(tmp_path):
    (tmp_path / "test_mean.py").write_text(each_block("py", "first-day.md")[-1])
    run = subprocess.run([*PYTEST, tmp_path], capture_output=True, text=True, check=False)
    assert "1 passed" in run.stdout


def test_those_who_come_from_elsewhere_get_the_same(memlease_daemon):
    assert output_of("coming-from.md") == ["1 1.0", "[2. 1.]", "3.0"]


def test_what_they_come_from_is_python():
    code = blocks("py", "coming-from.md")
    assert "SharedMemory(" in code
    compile(code, "coming-from.md", "exec")
