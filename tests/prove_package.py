"""Tries the memlease that is installed here, as a first user would. ./dev prove package runs it."""

import os
import select
import subprocess
import sys
from pathlib import Path

import memlease
import numpy as np

ours = Path(memlease.__file__).parent
if not ours.is_relative_to(sys.prefix):
    sys.exit(f"memlease is imported from {ours}, not from {sys.prefix}")
field = np.arange(12.0).reshape(3, 4)
with memlease.connect() as client:  # starts the package's own daemon
    daemon = os.pidfd_open(int(Path(client.directory, "memleased.lock").read_text()))
    array = client.put("try/field", field)
    code = "import memlease; print(memlease.connect(start=False).get('try/field').sum())"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    if float(other.stdout) != field.sum():
        sys.exit(f"another process read {other.stdout}instead of {field.sum()}")
    listed = subprocess.run(["memleasectl", "ls"], capture_output=True, text=True, check=True)
    if "try/field" not in listed.stdout:
        sys.exit(f"memleasectl ls does not list try/field:\n{listed.stdout}")
    version = subprocess.run(["memleased", "--version"], capture_output=True, text=True, check=True)
    if memlease.__version__ not in version.stdout:
        sys.exit(f"memleased is of another version than {memlease.__version__}: {version.stdout}")
    del array
if not select.select([daemon], [], [], 60)[0]:
    sys.exit("the daemon that connect() started did not end within 60 s of its last user")
print(f"memlease {memlease.__version__}: put, get, memleasectl and the daemon's end are right")
