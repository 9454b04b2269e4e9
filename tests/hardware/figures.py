"""Part 4: times and bandwidths, each beside that of the same thing done with CUDA alone.

`figures.py NAME` measures one, with a daemon of its own. measuring.py has them.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import sys

import say
from private_daemon import private_daemon

NAMES = [
    "handed_over_at_once",
    "handed_over_behind_work",
    "first_opening",
    "opening_in_a_cached_segment",
    "put_64_mib",
    "get_64_mib",
    "bandwidth_of_a_kernel",
]


def _end_processes() -> None:
    for child in multiprocessing.active_children():
        child.kill()
        child.join()


def main() -> None:
    """Measure one, or say why it cannot be."""
    if len(sys.argv) == 1:
        say.names(NAMES)
        return
    name = sys.argv[1]
    try:
        with private_daemon():
            try:
                found: say.Found = getattr(importlib.import_module("measuring"), name)()
            finally:
                _end_processes()
    except Exception as error:  # that stands in the report
        found = f"failed: {say.reason(error)}"
    say.figure(name, found)
    os._exit(0)


if __name__ == "__main__":
    main()
