"""A line on standard error before a write to published bytes ends the process."""

import os

from memlease import _core


def explain_faults() -> None:
    """Say which array and version it was, where a write to published bytes ends this process.

    A version does not change once it is published: its pages cannot be written, and whoever does so
    by a library that knows no read-only memory gets a SIGSEGV. From this call on a line on standard
    error names the array and the version first. What handled the signal before, such as
    `faulthandler`, handles it then. ``MEMLEASE_EXPLAIN_FAULTS=1`` in the environment calls this
    when memlease is imported. A second call does nothing, unless another handler has been
    installed since: workers of PyTorch's ``DataLoader`` have their own, so call it in
    ``worker_init_fn``, too.
    """
    _core.explain_faults()


if os.environ.get("MEMLEASE_EXPLAIN_FAULTS") == "1":
    explain_faults()
