"""Part 1: does anything of CUDA work here, and what of Linux memlease needs? `smoke.py all`.

One process, which shares nothing with another. ctypes and the standard library are enough. Linux
comes first, as CUDA may take the process down. The exit status is 1 if CUDA is not fit to go on.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from typing import Any

import say
import smoke_linux

RUNTIME, KERNELS = "libcudart.so.13", "libtest_kernels.so"
COUNT = 100_000
_ERROR_NAMES = {
    0: "cudaSuccess",
    2: "cudaErrorMemoryAllocation",
    35: "cudaErrorInsufficientDriver",
    201: "cudaErrorDeviceUninitialized",
    205: "cudaErrorMapBufferObjectFailed",
    400: "cudaErrorInvalidResourceHandle",
    600: "cudaErrorNotReady",
    700: "cudaErrorIllegalAddress",
}
_ATTRIBUTES = {
    "compute mode": 20,
    "unified addresses": 41,
    "capability, major": 75,
    "capability, minor": 76,
    "IPC events": 125,
}
# What the numbers that a launch ends with mean for a library that was built elsewhere.
_NO_IMAGE = {
    209: "the kernel library has no image for this GPU (209 cudaErrorNoKernelImageForDevice)",
    222: "its PTX is of a toolkit newer than this driver (222 cudaErrorUnsupportedPtxVersion)",
}


class Cuda:
    """What the checks share; each leaves something for the next."""

    def __init__(self) -> None:
        self.runtime: Any = None
        self.memory = ctypes.c_void_p()

    def call(self, function: str, *arguments: Any) -> None:
        """Call the runtime, which must succeed."""
        error = getattr(self.runtime, function)(*arguments)
        assert error == 0, f"{function}: {self.name(error)}"

    def name(self, error: int) -> str:
        """Return an error's number and name."""
        told = self.runtime.cudaGetErrorName
        told.restype = ctypes.c_char_p
        return f"{error} {told(error).decode()}"

    def number(self, function: str, *arguments: Any) -> int:
        """Return what the function writes to its first argument."""
        found = ctypes.c_int()
        self.call(function, ctypes.byref(found), *arguments)
        return found.value


def _in_words(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def _load(library: str) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(library)
    except OSError as error:
        path = os.environ.get("LD_LIBRARY_PATH") or "empty"
        raise AssertionError(f"{error}; LD_LIBRARY_PATH is {path}") from error


def runtime(cuda: Cuda) -> str:
    """Find CUDA's runtime library."""
    cuda.runtime = _load(RUNTIME)
    return f"CUDA {_in_words(cuda.number('cudaRuntimeGetVersion'))}"


def driver(cuda: Cuda) -> str:
    """Find a driver that is new enough for it."""
    version = cuda.number("cudaDriverGetVersion")
    assert version, "no NVIDIA driver: libcuda.so.1 is missing, or does not answer"
    wanted = cuda.number("cudaRuntimeGetVersion")
    told = f"the driver is for CUDA {_in_words(version)}"
    assert version // 1000 >= wanted // 1000, f"{told}, too old for {_in_words(wanted)}"
    return told


def devices(cuda: Cuda) -> str:
    """Count the GPUs, and name them."""
    count = cuda.number("cudaGetDeviceCount")
    assert count, "no GPU that this process may use"
    return "; ".join(_device(cuda, nth) for nth in range(count))


def _device(cuda: Cuda, nth: int) -> str:
    # cudaDeviceProp starts with the name and the UUID, and is no larger than this.
    properties = (ctypes.c_ubyte * 4096)()
    cuda.call("cudaGetDeviceProperties", properties, nth)
    name = bytes(properties[:256]).split(b"\0")[0].decode()
    uuid = bytes(properties[256:272]).hex()
    assert any(properties[256:272]), f"device {nth} has no UUID"
    found = {what: _attribute(cuda, it, nth) for what, it in _ATTRIBUTES.items()}
    bus = ctypes.create_string_buffer(32)
    cuda.call("cudaDeviceGetPCIBusId", bus, 32, nth)
    say.answer(f"device_{nth}", {"name": name, "uuid": uuid, "bus": bus.value.decode(), **found})
    return f"{nth}: {name}, {found['capability, major']}.{found['capability, minor']}, {uuid}"


def _attribute(cuda: Cuda, attribute: int, device: int) -> int | str:
    """Return it, or the error of a runtime that does not know it."""
    found = ctypes.c_int()
    error = cuda.runtime.cudaDeviceGetAttribute(ctypes.byref(found), attribute, device)
    return found.value if error == 0 else cuda.name(error)


def malloc(cuda: Cuda) -> str:
    """Get memory, give it back, and get it once more."""
    for step in ("first", "second"):
        size = ctypes.c_size_t(8 * COUNT)
        cuda.call("cudaMalloc", ctypes.byref(cuda.memory), size)
        assert cuda.memory.value, f"cudaMalloc: the {step} one gave no address"
        if step == "first":
            cuda.call("cudaFree", cuda.memory)
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    cuda.call("cudaMemGetInfo", ctypes.byref(free), ctypes.byref(total))
    return f"{free.value >> 20} of {total.value >> 20} MiB free"


def kernel(cuda: Cuda) -> str:
    """Launch a kernel, and look at what it wrote."""
    fill = _load(KERNELS).tk_fill
    error = fill(cuda.memory, ctypes.c_size_t(COUNT), ctypes.c_uint64(7), ctypes.c_void_p(1))
    assert error == 0, f"tk_fill: {_NO_IMAGE.get(error) or cuda.name(error)}"
    cuda.call("cudaDeviceSynchronize")
    values = (ctypes.c_uint64 * COUNT)()
    cuda.call("cudaMemcpy", values, cuda.memory, ctypes.c_size_t(8 * COUNT), 2)
    wrong = sum(value != 7 for value in values)
    assert not wrong, f"{wrong} of {COUNT} values are wrong"
    cuda.call("cudaFree", cuda.memory)
    return f"{COUNT} values are right"


def error_names(cuda: Cuda) -> str:
    """Ask for the names of errors: the numbers are those that memlease knows."""
    found = {it: cuda.name(it).partition(" ")[2] for it in _ERROR_NAMES}
    wrong = {it: name for it, name in found.items() if name != _ERROR_NAMES[it]}
    assert not wrong, f"other names than expected: {wrong}"
    return f"{len(found)} names are right"


CHECKS = [runtime, driver, devices, malloc, kernel, error_names]
_MAY_FAIL = [error_names]  # nothing that follows depends on it


def _checked(check: Callable[..., str], *given: Any) -> bool:
    try:
        found = check(*given)
    except Exception as error:  # the others are checked still
        say.check(f"smoke::{check.__name__}", "failed", say.reason(error))
        return False
    say.check(f"smoke::{check.__name__}", "passed", found)
    return True


def main() -> int:
    """Check all; what follows a failure of CUDA's would fail like it, and is not tried."""
    if len(sys.argv) == 1:
        say.names(["all"])
        return 0
    for check in smoke_linux.CHECKS:
        _checked(check)
    failed = ""
    cuda = Cuda()
    for check in CHECKS:
        if failed:
            say.check(f"smoke::{check.__name__}", "skipped", f"{failed} has failed")
        elif not _checked(check, cuda) and check not in _MAY_FAIL:
            failed = check.__name__
    return 1 if failed else 0


if __name__ == "__main__":
    sys.stdout.flush()
    os._exit(main())  # not by way of a library that may hang
