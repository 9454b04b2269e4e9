"""Questions about words of shared memory that streams of several processes write and wait for."""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Any

from asking import error_of, is_busy, process, question, state_within, verdict
from gpu_process import Cuda, Process
from probe_memory import PORTABLE, READ_ONLY

_MAPPED = 2  # of cudaHostRegister
_CAN_USE_WORDS = 122  # attribute
_HOST_TO_HOST = 0
_SIZE = mmap.PAGESIZE
_SETTLED_S = 0.3  # what is stored before the stream comes to its wait wakes nobody


class _Words:
    """Shared pages that the question's own process has, too."""

    def __init__(self) -> None:
        self.file = os.memfd_create("words")
        os.ftruncate(self.file, _SIZE)
        self.path = f"/proc/{os.getpid()}/fd/{self.file}"
        self._pages = mmap.mmap(self.file, _SIZE)

    def store(self, nth: int) -> None:
        """Store 1, by a CPU."""
        ctypes.c_uint64.from_buffer(self._pages, 8 * nth).value = 1


def _register(here: Cuda, name: str, path: str, access: int) -> str:
    """Map and register the pages; return the error."""
    here.stream()
    here.stream("other")
    map_file = ctypes.CDLL(None).mmap
    map_file.restype = ctypes.c_void_p
    writes = bool(access & mmap.PROT_WRITE)
    file = os.open(path, os.O_RDWR if writes else os.O_RDONLY)
    size, start = ctypes.c_size_t(_SIZE), ctypes.c_size_t(0)
    pages = ctypes.c_void_p(map_file(None, size, access, mmap.MAP_SHARED, file, start))
    os.close(file)
    flags = PORTABLE | _MAPPED | (0 if writes else READ_ONLY)
    error = here.cuda.cudaHostRegister(pages, size, flags)
    if error == 0:
        seen = ctypes.c_void_p()
        here.call("cudaHostGetDevicePointer", ctypes.byref(seen), pages, 0)
        here.kept[name] = seen.value
    return error_of(here, error)


_BOTH = mmap.PROT_READ | mmap.PROT_WRITE


def _attribute(here: Cuda) -> int:
    value = ctypes.c_int()
    here.call("cudaDeviceGetAttribute", ctypes.byref(value), _CAN_USE_WORDS, 0)
    return value.value


def _wait(here: Cuda, nth: int, name: str = "words") -> str:
    """Make the stream wait for a word; return its state after a while, or the error."""
    error = ctypes.CDLL("libcuda.so.1").cuStreamWaitValue64_v2(
        ctypes.c_void_p(here.stream()),
        ctypes.c_void_p(here.kept[name] + 8 * nth),
        ctypes.c_uint64(1),
        0,
    )
    return state_within(here, _SETTLED_S) if error == 0 else error_of(here, error)


def _write(here: Cuda, nth: int, stream: str = "other") -> None:
    error = ctypes.CDLL("libcuda.so.1").cuStreamWriteValue64_v2(
        ctypes.c_void_p(here.stream(stream)),
        ctypes.c_void_p(here.kept["words"] + 8 * nth),
        ctypes.c_uint64(1),
        0,
    )
    assert error == 0, f"cuStreamWriteValue64: {error_of(here, error)}"


def _write_behind_a_gate(here: Cuda, nth: int) -> None:
    here.gate(here.stream())
    _write(here, nth, "s")


def _copy(here: Cuda, nth: int) -> None:
    one = ctypes.c_uint64(1)
    to, size = ctypes.c_void_p(here.kept["words"] + 8 * nth), ctypes.c_size_t(8)
    handle = ctypes.c_void_p(here.stream("other"))
    here.call("cudaMemcpyAsync", to, ctypes.byref(one), size, _HOST_TO_HOST, handle)
    here.synchronize(here.stream("other"))


def _freed(waiter: Process, writer: Process, nth: int, before: str) -> str:
    """Tell whether what has been done frees the waiter; free it, if not."""
    after = waiter.run(state_within)
    if is_busy(after):
        writer.run(_write, nth)
        waiter.run(state_within)
    return verdict(before, after)


@question(30)
def words() -> dict[str, Any]:
    """Tell whether a stream waits for a word of shared memory, and what lets it go on."""
    shared, writer, waiter = _Words(), process(), process()
    found: dict[str, Any] = {"attribute 122": writer.run(_attribute)}
    for one in (writer, waiter):
        assert (it := one.run(_register, "words", shared.path, _BOTH)).startswith("0 "), it
    read_only = waiter.run(_register, "read only", shared.path, mmap.PROT_READ)
    before = waiter.run(_wait, 0)
    if not is_busy(before):
        return {"answer": f"no: {before}", **found}
    writer.run(_write, 0)
    woken = {"a stream's write": _freed(waiter, writer, 0, before)}
    for nth, (what, does) in enumerate(
        (
            ("a CPU's store", lambda: shared.store(1)),
            ("a copy", lambda: writer.run(_copy, 2)),
        ),
        1,
    ):
        before = waiter.run(_wait, nth)
        does()
        woken[what] = _freed(waiter, writer, nth, before)
    if read_only.startswith("0 "):
        before = waiter.run(_wait, 3, "read only")
        writer.run(_write, 3)
        read_only = _freed(waiter, writer, 3, before)
    by = ", ".join(what for what, it in woken.items() if it == "yes") or "nothing"
    told = f"woken by {by}; pages that may only be read: {read_only}"
    return {"answer": told, **found, "woken by": woken}


@question(30)
def word_of_the_dead() -> dict[str, str]:
    """Tell what becomes of who waits for a word that a killed process would have written."""
    shared, victim, waiter = _Words(), process(), process()
    for one in (victim, waiter):
        assert (it := one.run(_register, "words", shared.path, _BOTH)).startswith("0 "), it
    victim.run(_write_behind_a_gate, 0)
    before = waiter.run(_wait, 0)
    victim.kill()
    found = {"before the death": before, "2 s after the death": waiter.run(state_within)}
    if not is_busy(found["2 s after the death"]):
        return {"answer": f"unknown: {found['2 s after the death']}", **found}
    shared.store(0)
    found["after a CPU's store"] = waiter.run(state_within)
    if is_busy(found["after a CPU's store"]):
        waiter.run(_write, 0)
        found["after a stream's write"] = waiter.run(state_within)
    *_, (what, last) = found.items()
    told = f"it waits; {what} it goes on" if last.startswith("0 ") else "it waits for good"
    return {"answer": told, **found}
