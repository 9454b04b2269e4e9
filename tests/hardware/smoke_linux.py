"""What memlease needs of Linux's kernel: whether it works here, as this user, in this sandbox.

Each function returns what it has found, or raises AssertionError or OSError.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import socket
import threading
import time
from collections.abc import Callable

_FUTEX_WAIT, _FUTEX_WAKE = 0, 1
_SYS_FUTEX, _SYS_FUTEX_WAITV = 202, 449  # of x86-64
_FUTEX_32 = 2
_F_ADD_SEALS = 1033
_SEAL_SEAL, _SEAL_SHRINK, _SEAL_GROW = 1, 2, 4
_NOBODY = 65534
_TIMEOUT_S = 5.0


def _refused(change: Callable[[], object]) -> bool:
    try:
        change()
    except PermissionError:
        return True
    return False


def pidfd_open() -> str:
    """Learn of a child's end by a file descriptor."""
    inside, outside = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(outside)
        os.read(inside, 1)  # until the parent closes its end
        os._exit(0)
    try:
        pidfd = os.pidfd_open(child)
        early = select.select([pidfd], [], [], 0)[0]
        os.close(outside)
        late = select.select([pidfd], [], [], _TIMEOUT_S)[0]
        os.close(pidfd)
    except OSError as error:
        os.close(outside)
        raise OSError(error.errno, f"pidfd_open: {error.strerror}") from error
    finally:
        os.close(inside)
        os.waitpid(child, 0)
    assert not early, "the descriptor of a process that lives is ready"
    assert late, f"{_TIMEOUT_S} s after a process's end its descriptor is not ready"
    return "it tells a process's end"


class _Wait(ctypes.Structure):
    """struct futex_waitv."""

    _fields_ = (
        ("value", ctypes.c_uint64),
        ("address", ctypes.c_uint64),
        ("flags", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    )


class _Time(ctypes.Structure):
    _fields_ = (("s", ctypes.c_int64), ("ns", ctypes.c_int64))


def _wait_for_any(words: ctypes.Array[ctypes.c_uint32], expected: int, limit_s: float) -> int:
    """Wait by futex_waitv until one is woken; return its index, or minus the error's number."""
    size = ctypes.sizeof(ctypes.c_uint32)
    address = ctypes.addressof(words)
    waits = (_Wait * len(words))(
        *(_Wait(expected, address + nth * size, _FUTEX_32, 0) for nth in range(len(words)))
    )
    libc = ctypes.CDLL(None, use_errno=True)
    end = time.monotonic() + limit_s
    until = _Time(int(end), int(end % 1 * 1e9))
    found = libc.syscall(
        ctypes.c_long(_SYS_FUTEX_WAITV),
        waits,
        ctypes.c_uint(len(words)),
        ctypes.c_uint(0),
        ctypes.byref(until),
        ctypes.c_int(time.CLOCK_MONOTONIC),
    )
    return int(found) if found >= 0 else -ctypes.get_errno()


def _wake(words: ctypes.Array[ctypes.c_uint32], nth: int) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    address = ctypes.addressof(words) + nth * ctypes.sizeof(ctypes.c_uint32)
    one = ctypes.c_int(1)
    return int(
        libc.syscall(ctypes.c_long(_SYS_FUTEX), ctypes.c_void_p(address), _FUTEX_WAKE, one, 0, 0, 0)
    )


def futex_waitv() -> str:
    """Wait for several words of memory at once."""
    eagain, etimedout = 11, 110
    words = (ctypes.c_uint32 * 2)(7, 7)
    at_once = _wait_for_any(words, 8, _TIMEOUT_S)
    if at_once != -eagain:
        raise OSError(-at_once, f"futex_waitv (system call 449): {os.strerror(max(-at_once, 0))}")
    late = _wait_for_any(words, 7, 0.02)
    assert late == -etimedout, f"with nobody to wake it, it returned {late}"
    found: list[int] = []
    waiter = threading.Thread(target=lambda: found.append(_wait_for_any(words, 7, _TIMEOUT_S)))
    waiter.start()
    while waiter.is_alive() and _wake(words, 1) == 0:
        time.sleep(0.001)
    waiter.join()
    assert found == [1], f"woken by the second of two words, it returned {found}"
    return "it waits, ends in time, and is woken"


def _reopened_by_another(file: int, flags: int) -> int:
    """Open the file once more as somebody whom its mode keeps out; return the error's number."""
    if os.geteuid() != 0:
        return _open_again(file, flags)
    child = os.fork()
    if child == 0:
        try:
            os.setuid(_NOBODY)
            os._exit(_open_again(file, flags))
        finally:
            os._exit(255)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _open_again(file: int, flags: int) -> int:
    try:
        os.close(os.open(f"/proc/self/fd/{file}", flags | os.O_CLOEXEC))
    except OSError as error:
        return error.errno or 255
    return 0


def sealed_memfds() -> str:
    """Make memory whose size nobody changes, and which only its owner opens for writing."""
    file = os.memfd_create("memlease-smoke", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(file, 4096)
        fcntl.fcntl(file, _F_ADD_SEALS, _SEAL_SHRINK | _SEAL_GROW | _SEAL_SEAL)
        assert _refused(lambda: os.ftruncate(file, 0)), "a sealed file can be cut"
        assert _refused(lambda: os.ftruncate(file, 8192)), "a sealed file can grow"
        assert _refused(lambda: fcntl.fcntl(file, _F_ADD_SEALS, 8)), "it takes more seals"
        # Others may read it; of its own user, the mode keeps out all but root.
        os.fchmod(file, 0o644 if os.geteuid() == 0 else 0o444)
        reading = _reopened_by_another(file, os.O_RDONLY)
        assert reading == 0, f"opening it to read: {os.strerror(reading)}"
        writing = _reopened_by_another(file, os.O_RDWR)
        assert writing == 13, f"opening it to write, against its mode: {os.strerror(writing)}"
    finally:
        os.close(file)
    return "size, seals and mode are kept"


def descriptors() -> str:
    """Pass a file descriptor over a socket that keeps messages apart."""
    file = os.memfd_create("memlease-smoke")
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with here, there:
        socket.send_fds(here, [b"first"], [file])
        here.send(b"second")
        message, files, _, _ = socket.recv_fds(there, 100, 1)
        assert message == b"first", f"the first message is {message!r}"
        assert len(files) == 1, f"with {len(files)} descriptors instead of one"
        same = os.fstat(files[0]).st_ino == os.fstat(file).st_ino
        uid = there.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[4:8]
        os.close(files[0])
    os.close(file)
    assert same, "the descriptor is of another file"
    assert int.from_bytes(uid, "little") == os.getuid(), "SO_PEERCRED names another user"
    return "they pass, and the socket names its peer"


CHECKS = [pidfd_open, futex_waitv, sealed_memfds, descriptors]
