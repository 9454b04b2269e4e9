"""Questions about memory that two processes share."""

from __future__ import annotations

import ctypes
import mmap
import os
import time

from asking import (
    close_memory,
    error_of,
    export_memory,
    open_memory,
    process,
    question,
    try_open_memory,
    values,
)
from gpu_process import Cuda


@question(20)
def ipc_memory() -> str:
    """Tell whether another process can open memory, and read what was written."""
    owner, user = process(), process()
    user.run(open_memory, owner.run(export_memory, 7))
    found = user.run(values, 7)
    return "yes" if found == "right" else f"no: {found}"


@question(20)
def import_in_the_same_process() -> str:
    """Tell what a process gets that opens its own handle."""
    owner = process()
    return owner.run(try_open_memory, owner.run(export_memory, 7))


@question(20)
def opening_twice() -> dict[str, str]:
    """Tell whether a second opening gives the same address, and one closing closes both."""
    owner, user = process(), process()
    raw = owner.run(export_memory, 7)
    user.run(open_memory, raw)
    found = {"second opening": user.run(try_open_memory, raw)}
    if not found["second opening"].startswith("0 "):
        return {"answer": f"refused: {found['second opening']}"}
    is_same = user.run(_addresses_opened) == 1
    found["first closing"] = user.run(close_memory)
    found["read then"] = user.run(values, 7)
    found["second closing"] = user.run(close_memory)
    closes_both = found["read then"] != "right"
    told = "one closing closes both" if closes_both else "each is closed for itself"
    return {"answer": f"{'the same address' if is_same else 'two addresses'}; {told}", **found}


def _addresses_opened(here: Cuda) -> int:
    return len(set(here.kept["opened"]))


@question(20)
def memory_of_the_dead() -> dict[str, str]:
    """Tell whether opened memory stays readable when its owner was killed."""
    owner, user, late = process(), process(), process()
    raw = owner.run(export_memory, 7)
    user.run(open_memory, raw)
    owner.kill()
    found = user.run(values, 7)
    return {
        "answer": "readable" if found == "right" else f"not readable: {found}",
        "opened after the death": late.run(try_open_memory, raw),
    }


SHARED_BYTES = 64 << 20
PORTABLE, READ_ONLY = 1, 8  # flags of cudaHostRegister


@question(30)
def registered_pages() -> dict[str, str]:
    """Tell whether shared pages can be registered, also those that may only be read."""
    return process().run(_register_pages)


def _register_pages(here: Cuda) -> dict[str, str]:
    file = os.memfd_create("shared")
    os.ftruncate(file, SHARED_BYTES)
    both = mmap.PROT_READ | mmap.PROT_WRITE
    written, times = _register(here, file, both, PORTABLE)
    read, _ = _register(here, file, mmap.PROT_READ, PORTABLE | READ_ONLY)
    os.close(file)
    told = "pages that may only be read, too" if read.startswith("0 ") else f"reading alone: {read}"
    answer = f"yes; {told}" if written.startswith("0 ") else f"no: {written}"
    return {"answer": answer, **times}


def _register(here: Cuda, file: int, access: int, flags: int) -> tuple[str, dict[str, str]]:
    """Register a mapping of it; return the error, and how long it and its end took."""
    map_file, unmap = ctypes.CDLL(None).mmap, ctypes.CDLL(None).munmap
    map_file.restype = ctypes.c_void_p
    size, start = ctypes.c_size_t(SHARED_BYTES), ctypes.c_size_t(0)
    pages = ctypes.c_void_p(map_file(None, size, access, mmap.MAP_SHARED, file, start))
    begin = time.perf_counter()
    error = here.cuda.cudaHostRegister(pages, size, flags)
    times = {"64 MiB registered": f"{(time.perf_counter() - begin) * 1000:.2f} ms"}
    if error == 0:
        begin = time.perf_counter()
        here.call("cudaHostUnregister", pages)
        times["unregistered"] = f"{(time.perf_counter() - begin) * 1000:.2f} ms"
    unmap(pages, size)
    return error_of(here, error), times
