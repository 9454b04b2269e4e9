"""Runs a program that the kernel refuses some system calls, as a sandbox does.

without_calls.py NUMBER[,NUMBER...] PROGRAM ARGUMENT...     x86-64's numbers; they end with ENOSYS
"""

import ctypes
import os
import struct
import sys

_ENOSYS = 38
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _FILTER = 38, 22, 2
_LOAD, _IF_EQUAL, _RETURN = 0x20, 0x15, 0x06  # of struct sock_filter
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def refuse(calls: list[int]) -> None:
    """Refuse them to this process, and to what it becomes."""
    steps = [(_LOAD, 0, 0, 0)]  # the call's number
    steps += [(_IF_EQUAL, len(calls) - nth, 0, call) for nth, call in enumerate(calls)]
    steps += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _ERRNO | _ENOSYS)]
    code = b"".join(struct.pack("HBBI", *step) for step in steps)
    libc = ctypes.CDLL(None, use_errno=True)
    program = _Program(len(steps), code)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or (
        libc.prctl(_PR_SET_SECCOMP, _FILTER, ctypes.byref(program)) != 0
    ):
        raise OSError(ctypes.get_errno(), "no filter of system calls")


if __name__ == "__main__":
    refuse([int(it) for it in sys.argv[1].split(",")])
    os.execvp(sys.argv[2], sys.argv[2:])
