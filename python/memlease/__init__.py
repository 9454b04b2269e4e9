"""Named arrays in shared memory, leased between processes.

A daemon owns the arrays; every process maps the same bytes. ``connect()`` finds or starts it::

    import memlease, numpy as np

    with memlease.connect() as client:
        field = client.create("sim/u", shape=(512, 512), dtype="float32")
        with field.write() as w:      # publishes on a clean exit
            w[...] = 1.0
        with field.read() as r:       # the bytes stay as they are meanwhile
            print(r.version, np.mean(r))
"""

import atexit
import copyreg
import os
from typing import TYPE_CHECKING, Never

from memlease import (
    _core,
    asynchronous,
    caller,
    dtypes,
    errors,
    forks,
    interfaces,
    opt_outs,
    references,
    sources,
    stream,
    usm_exports,
    usm_sources,
)
from memlease._core import Follower, ReadLease, WriteLease, __version__
from memlease.array import Array
from memlease.client import Client, connect
from memlease.errors import (
    AlreadyExists,
    Busy,
    Closed,
    DaemonLost,
    DaemonUnavailable,
    Denied,
    Error,
    ForkedClient,
    Internal,
    Interrupted,
    InvalidArgument,
    LeasesAtFork,
    NoFreeSlot,
    NotFound,
    OutOfMemory,
    ProducerDied,
    QuotaExceeded,
    Timeout,
    TooManyHeld,
    Unsupported,
    VersionGone,
    VersionSkew,
    ViewAlive,
    Withdrawn,
    WriteAborted,
)
from memlease.faults import explain_faults
from memlease.mem_array import MemArray
from memlease.programs import show_config
from memlease.releasing import release_views
from memlease.waiting import wait

__all__ = [
    "AlreadyExists",
    "Array",
    "Busy",
    "Client",
    "Closed",
    "DaemonLost",
    "DaemonUnavailable",
    "Denied",
    "Error",
    "Follower",
    "ForkedClient",
    "Internal",
    "Interrupted",
    "InvalidArgument",
    "LeasesAtFork",
    "MemArray",
    "NoFreeSlot",
    "NotFound",
    "OutOfMemory",
    "ProducerDied",
    "QuotaExceeded",
    "ReadLease",
    "Timeout",
    "TooManyHeld",
    "Unsupported",
    "VersionGone",
    "VersionSkew",
    "ViewAlive",
    "Withdrawn",
    "WriteAborted",
    "WriteLease",
    "__version__",
    "connect",
    "explain_faults",
    "release_views",
    "show_config",
    "wait",
]

_core.set_package_parts(
    error_types=errors.BY_NUMBER,
    warn_of_views=caller.warn_of_views,
    log_empty_write=caller.log_empty_write,
    log_wait=caller.log_wait,
    long_waits=caller.long_waits,
    require_numpy=dtypes.require_numpy,
    numpy_dtype=dtypes.numpy_dtype,
    dtype_for_users=dtypes.dtype_for_users,
    array_interface=interfaces.array_interface,
    cuda_array_interface=interfaces.cuda_array_interface,
    jax_array=interfaces.jax_array,
    export_order=opt_outs.export_order,
    gpu_source_of=sources.gpu_source_of,
    usm_elements=usm_sources.elements_of,
    export_usm=usm_exports.export,
    handle_of=stream.handle_of,
    next_lease=asynchronous.next_lease,
)


def __dir__() -> list[str]:
    """List what users have a use for: shells complete names by it."""
    return sorted([*__all__, "stream"])


if not TYPE_CHECKING:  # which would believe that every attribute is there

    def __getattr__(name: str) -> Never:
        """Say where to find what a client has."""
        text = f"module {__name__!r} has no attribute {name!r}"
        if not name.startswith("_") and hasattr(Client, name):
            text += f"; a client has: memlease.connect().{name}"
        raise AttributeError(text, name=name)


# Also where Ctrl-C ends the program: Python ends itself by the signal then, and not by C's exit().
atexit.register(_core.tell_of_exit)
forks.tell_of_workers_exits()
os.register_at_fork(before=forks.before_fork)

copyreg.pickle(Array, references.reduce_array)
copyreg.pickle(Follower, references.refuse_follower)

# Users see, and pickle finds, it where it is exported.
Follower.__module__ = __name__
