"""What may be left out of the order between streams, by the call or for a whole process.

By default everything waits for what must come before it. `host_wait` keeps that, by other means.
The other two leave waits out, and whoever asks for them answers for the order; the logger
``memlease`` says so once. What a lease keeps, and how it ends, they do not change.

=================  ===============================  ============================================
argument           environment                      what
=================  ===============================  ============================================
``host_wait``      ``MEMLEASE_CUDA_HOST_WAIT``      the host waits, and no stream is exported
``no_stream``      ``MEMLEASE_CUDA_NO_STREAM``      nobody waits, and no stream is exported
``ignore_stream``  ``MEMLEASE_CUDA_IGNORE_STREAM``  a source's stream is not waited for
=================  ===============================  ============================================
"""

import logging
import os

_logger = logging.getLogger("memlease")
_logged: set[str] = set()


def export_order(version: int, host_wait: bool | None, no_stream: bool | None) -> tuple[bool, bool]:
    """Say how ``__cuda_array_interface__`` sees to the order.

    Blocks on nothing.

    Parameters
    ----------
    version : int
        Of the interface; below 3 it names no stream.
    host_wait, no_stream : bool, optional
        As the call has it; None: as the environment has it.

    Returns
    -------
    host_waits : bool
    names_stream : bool
    """
    if host_wait is None and not no_stream:
        host_wait = version < 3 or _is_set("MEMLEASE_CUDA_HOST_WAIT")
    if host_wait:
        return True, False
    if no_stream is None:
        no_stream = _is_set("MEMLEASE_CUDA_NO_STREAM")
    if no_stream or version < 3:
        _log_once("no_stream", "leases name no stream to libraries, and nothing waits for versions")
    return False, version >= 3 and not no_stream


def ignores_stream(asked: bool | None) -> bool:
    """Tell whether the streams of a source's producer are left alone.

    Blocks on nothing. `asked` is as the call has it; None: as the environment has it.
    """
    ignored = _is_set("MEMLEASE_CUDA_IGNORE_STREAM") if asked is None else bool(asked)
    if ignored:
        _log_once("ignore_stream", "sources of put() are taken as ready, whatever their streams do")
    return ignored


def _is_set(variable: str) -> bool:
    """Look each time: tests and programs change their environment."""
    return os.environ.get(variable, "") not in ("", "0")


def _log_once(opt_out: str, what: str) -> None:
    if opt_out not in _logged:
        _logged.add(opt_out)
        _logger.warning("%s: %s; the caller answers for the order", opt_out, what)
