"""Tries the memlease that is installed here, as a first user would. ./dev wheel runs it.

It needs what the package needs and NumPy, and a machine on which nobody uses memlease yet.
"""

import os
import re
import select
import subprocess
import sys
import time
from pathlib import Path

MOST_S = 2.0  # from the interpreter's start to the first array, with the daemon's start


def run(*command: str | Path) -> str:
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if ended.returncode:
        sys.exit(f"{command} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def try_first_array() -> float:
    """Run the six lines; return how long they took."""
    start = time.monotonic()
    said = run(sys.executable, Path(__file__).with_name("first_array.py"))
    took = time.monotonic() - start
    if said.strip() != "1.0":
        sys.exit(f"the first array's mean is {said.strip()}, not 1.0")
    if took > MOST_S:
        sys.exit(f"from import to the first array took {took:.2f} s, more than {MOST_S} s")
    return took


def use() -> None:
    """Share an array with another process, and look at the package that does it."""
    import memlease
    import numpy as np

    ours = Path(memlease.__file__).parent
    if not ours.is_relative_to(sys.prefix):
        sys.exit(f"memlease is imported from {ours}, not from {sys.prefix}")
    with memlease.connect() as client:
        client.put("try/field", np.arange(12.0).reshape(3, 4))
        code = "import memlease; print(memlease.connect(start=False).get('try/field').sum())"
        if run(sys.executable, "-c", code) != "66.0\n":
            sys.exit("another process read something else than what was put")
        if "try/field" not in run("memleasectl", "ls"):
            sys.exit("memleasectl ls does not list try/field")
    for program in ("memleased", "memleasectl"):
        if memlease.__version__ not in (said := run(program, "--version")):
            sys.exit(f"{program} is of another version than {memlease.__version__}: {said}")
    others = re.findall(
        r"\S*/lib(?:grpc|gpr|protobuf|absl|fmt|spdlog|systemd)\S*",
        Path("/proc/self/maps").read_text(),
    )
    if others:
        sys.exit(f"memlease has loaded {others[0]}, which it has a copy of its own of")
    print(memlease.__version__)


WRITER = """
import signal, memlease
client = memlease.connect()
fields = [client.create(f"drill/{n}", shape=(500, 500), dtype="float32") for n in range(10)]
lease = fields[0].write()
print("writes", flush=True)
signal.pause()
"""


def drill() -> None:
    """Kill a writer of ten arrays, and find out who it was."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER], stdout=subprocess.PIPE, text=True
    ) as writer:
        if writer.stdout is None or writer.stdout.readline() != "writes\n":
            sys.exit("a writer of ten arrays cannot begin to write")
        writer.kill()
    deadline = time.monotonic() + 10
    while True:
        told = run("memleasectl", "events")
        of_arrays = re.findall(rf"^.* reclaimed +drill/\d +3000000 .* {writer.pid} .*$", told, re.M)
        if len(of_arrays) == 10 and re.search(
            rf"^.* died .* 30000000 .* {writer.pid} ", told, re.M
        ):
            break
        if time.monotonic() > deadline:
            sys.exit(f"memleasectl events does not tell of each array of a killed writer:\n{told}")
        time.sleep(0.05)
    if sum("was writing" in line for line in of_arrays) != 1:
        sys.exit(f"memleasectl events does not tell what was being written:\n{told}")


def main() -> None:
    """Be the daemon's last user, who keeps no array."""
    import memlease

    took = try_first_array()
    with memlease.connect() as client:
        drill()
        daemon = os.pidfd_open(int(Path(client.directory, "memleased.lock").read_text()))
        version = run(sys.executable, __file__, "use").strip()
        run("memleasectl", "doctor")
    if not select.select([daemon], [], [], 60)[0]:
        sys.exit("the daemon that connect() started did not end within 60 s of its last user")
    print(
        f"memlease {version}, Python {sys.version.split()[0]}: first array in {took:.2f} s; put,"
        " get, a killed writer's events, memleasectl, doctor and the daemon's end are right"
    )


if __name__ == "__main__":
    use() if sys.argv[1:] == ["use"] else main()
