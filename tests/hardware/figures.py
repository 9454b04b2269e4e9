"""Part 4: times and bandwidths, each beside that of the same thing done with CUDA alone.

`figures.py NAME` measures one, with a daemon of its own; measuring.py and its siblings have them.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import sys

import say
from private_daemon import private_daemon

# Each by its module.
NAMES = {
    "handed_over_at_once": "measuring",
    "handed_over_behind_work": "measuring",
    "first_opening": "measuring",
    "opening_in_a_cached_segment": "measuring",
    "put_64_mib": "measuring",
    "get_64_mib": "measuring",
    "bandwidth_of_a_kernel": "measuring_kernels",
    "add_index_tuple_beside_a_copy": "measuring_kernels",
    "add_index_tuple_beside_itself": "measuring_kernels",
    "refresh_to_a_gpu_64_mib": "measuring_replicas",
    "refresh_to_the_host_64_mib": "measuring_replicas",
}


def _end_processes() -> None:
    for child in multiprocessing.active_children():
        child.kill()
        child.join()


def main() -> None:
    """Measure one, or say why it cannot be."""
    if len(sys.argv) == 1:
        say.names(list(NAMES))
        return
    name = sys.argv[1]
    try:
        with private_daemon():
            try:
                found: say.Found = getattr(importlib.import_module(NAMES[name]), name)()
            finally:
                _end_processes()
    except Exception as error:  # that stands in the report
        found = f"failed: {say.reason(error)}"
    say.figure(name, found)
    os._exit(0)


if __name__ == "__main__":
    main()
