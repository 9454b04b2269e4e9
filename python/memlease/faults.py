"""A line on standard error before a write to published bytes ends the process."""

import os

from memlease import _core


def explain_faults() -> None:
    """Say which array and version it was, where a write to published bytes ends this process.

    A version does not change once it is published: its pages cannot be written, and whoever does so
    by a library that knows no read-only memory gets a SIGSEGV. A line on standard error names the
    array and the version first. Importing memlease sees to that where nothing else handles the
    signal, unless ``MEMLEASE_EXPLAIN_FAULTS=0`` is in the environment.

    Call this where something else does, such as `faulthandler`, which handles it then, too; with
    ``MEMLEASE_EXPLAIN_FAULTS=1`` the import calls it. A second call does nothing, unless another
    handler has been installed since: workers of PyTorch's ``DataLoader`` have their own, so call it
    in ``worker_init_fn``, too.
    """
    _core.explain_faults()


_asked = os.environ.get("MEMLEASE_EXPLAIN_FAULTS")
if _asked == "1":
    explain_faults()
elif _asked != "0":
    _core.explain_faults_unless_handled()
