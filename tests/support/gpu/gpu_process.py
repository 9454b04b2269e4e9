"""A process with GPU arrays, which runs a test's functions one after the other.

Each function gets `Here` and plain arguments; what it keeps for the next one goes into `here.kept`.
A process each, because what memlease has opened of a GPU stays open as long as the process. On
hardware, where to begin one and to end it takes seconds, it serves other tests, too.
"""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import time
import traceback
from collections.abc import Callable
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Self
from unittest import mock

from fakecuda_build import IS_FAKE, IS_STAND_IN

if TYPE_CHECKING:
    import numpy as np

_START_S = 60
_ANSWER_S = 60
_WAIT_S = 10
_MANY_LOOKS = 50  # more than a call that does not wait
_OF_A_TEST = ("MEMLEASE_DIR", "PYTEST_CURRENT_TEST")  # in the environment


class Cells(ctypes.Structure):
    """Elements of 3 dimensions, as the test kernels take them."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("shape", ctypes.c_int64 * 3),
        ("strides", ctypes.c_int64 * 3),
    )

    @classmethod
    def like(cls, array: np.ndarray, address: int) -> Self:
        """Return what has an array's shape and strides, at an address."""
        return cls(address, array.shape, array.strides)

    @classmethod
    def compact(cls, shape: tuple[int, int, int], address: int) -> Self:
        """Return uint64 in C order."""
        return cls(address, shape, (8 * shape[1] * shape[2], 8 * shape[2], 8))


class Cuda:
    """CUDA's runtime and the test kernels in the process that runs a test's function."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcudart.so.13")
        self.kernels = ctypes.CDLL("libtest_kernels.so")
        assert hasattr(self.cuda, "fakecuda_abi") == IS_FAKE
        if IS_STAND_IN:
            self.cuda.fakecuda_calls.restype = ctypes.c_uint64
        self.kept: dict[str, Any] = {}
        self.wrong = 0  # that a library has counted itself
        self._streams: dict[str, int] = {}
        # At once, as memory that is made later waits for all streams.
        self._mismatches = self.pointer("cudaMalloc", 8)
        self._flag = self.pointer("cudaHostAlloc", 4, 2)
        self.call("cudaMemset", self._mismatches, 0, ctypes.c_size_t(8))
        self.synchronize()

    def call(self, function: str, *arguments: Any) -> None:
        """Call the runtime, which must succeed."""
        error = getattr(self.cuda, function)(*arguments)
        assert error == 0, f"{function}: {error}"

    def pointer(self, function: str, size_bytes: int, *flags: int) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self.call(function, ctypes.byref(made), ctypes.c_size_t(size_bytes), *flags)
        return made

    def devices(self) -> int:
        """Return the number of GPUs that this process sees."""
        count = ctypes.c_int()
        self.call("cudaGetDeviceCount", ctypes.byref(count))
        return count.value

    def stream(self, name: str = "s") -> int:
        """Handle of the process's stream of this name."""
        if name not in self._streams:
            made = ctypes.c_void_p()
            self.call("cudaStreamCreateWithFlags", ctypes.byref(made), 1)
            self._streams[name] = made.value or 0
        return self._streams[name]

    def synchronize(self, stream: int | None = None) -> None:
        """Wait for a stream, or for the GPU."""
        if stream is None:
            self.call("cudaDeviceSynchronize")
        else:
            self.call("cudaStreamSynchronize", ctypes.c_void_p(stream))

    def is_idle(self, stream: int) -> bool:
        """Tell whether the stream has nothing to do."""
        return bool(self.cuda.cudaStreamQuery(ctypes.c_void_p(stream)) == 0)

    def order(self, before: int, after: int) -> None:
        """Make one stream wait for another, by an event as libraries do it."""
        event = ctypes.c_void_p()
        self.call("cudaEventCreateWithFlags", ctypes.byref(event), 2)
        self.call("cudaEventRecord", event, ctypes.c_void_p(before))
        self.call("cudaStreamWaitEvent", ctypes.c_void_p(after), event, 0)
        self.call("cudaEventDestroy", event)

    def drain(self, stream: int) -> None:
        """Wait in time for a stream, without an order that the checker knows of."""
        wait = "fakecuda_drain" if IS_STAND_IN else "cudaStreamSynchronize"
        self.call(wait, ctypes.c_void_p(stream))

    def looks(self) -> int:
        """How often this process has looked whether something is over on the GPU.

        Nobody counts that on hardware. A wait for the whole GPU is as good as many looks.
        """
        if not IS_STAND_IN:
            return 0
        calls = self.cuda.fakecuda_calls
        looks = calls(b"cudaEventQuery") + calls(b"cudaStreamQuery")
        return looks + _MANY_LOOKS * calls(b"cudaDeviceSynchronize")

    def has_waited(self, looks: int) -> bool:
        """Tell whether, since there were so many looks, some thread has waited on its host."""
        return self.looks() >= looks + _MANY_LOOKS

    def await_wait(self, looks: int) -> None:
        """Return once that is so: looks again and again; on hardware, after a while."""
        if not IS_STAND_IN:
            time.sleep(0.05)
            return
        end = time.monotonic() + _WAIT_S
        while not self.has_waited(looks):
            assert time.monotonic() < end, "nobody waits for the GPU"
            time.sleep(0.001)

    # Kernels, on uint64.
    def fill(self, address: int, count: int, value: int, stream: int) -> None:
        self._launch("tk_fill", address, count, ctypes.c_uint64(value), stream)

    def add(self, address: int, count: int, value: int, stream: int) -> None:
        self._launch("tk_add", address, count, ctypes.c_uint64(value), stream)

    # Those of memlease/kernels.h, on uint64; those that are copied are float32.
    def fill_cells(self, to: Cells, value: int, stream: int) -> None:
        self._on_cells("fill", to, ctypes.c_uint64(value), stream)

    def copy_cells(self, from_: Cells, to: Cells, stream: int) -> None:
        self._on_cells("copy", from_, ctypes.byref(to), stream)

    def add_index_tuple(self, cells: Cells, stream: int) -> None:
        """Add the sum of its indices to each element."""
        self._on_cells("add_index_tuple", cells, stream)

    def _on_cells(self, kernel: str, cells: Cells, *arguments: Any) -> None:
        *middle, stream = arguments
        launch = getattr(self.kernels, f"tk_cells_{kernel}")
        error = launch(ctypes.byref(cells), *middle, ctypes.c_void_p(stream))
        assert error == 0, f"{kernel}: {error}"

    def look(self, address: int, count: int, expected: int, stream: int) -> None:
        """Compare, which goes on after the return."""
        self._launch(
            "tk_check", address, count, ctypes.c_uint64(expected), self._mismatches, stream
        )

    def _launch(self, kernel: str, address: int, count: int, *arguments: Any) -> None:
        *middle, stream = arguments
        launch = getattr(self.kernels, kernel)
        error = launch(
            ctypes.c_void_p(address), ctypes.c_size_t(count), *middle, ctypes.c_void_p(stream)
        )
        assert error == 0, f"{kernel}: {error}"

    def mismatches(self, *streams: int) -> int:
        """How many elements `look` found to be others, once the streams have done their work."""
        for stream in streams:
            self.synchronize(stream)
        found = ctypes.c_uint64()
        self.call("cudaMemcpy", ctypes.byref(found), self._mismatches, ctypes.c_size_t(8), 2)
        return found.value + self.wrong

    def spin(self, stream: int, us: int) -> None:
        """Keep the stream busy."""
        assert self.kernels.tk_spin(ctypes.c_uint64(us), ctypes.c_void_p(stream)) == 0

    def stamp(self, address: int, stream: int) -> None:
        """Note the time on the GPU, in ns, once the stream gets there."""
        error = self.kernels.tk_stamp(ctypes.c_void_p(address), ctypes.c_void_p(stream))
        assert error == 0

    def gate(self, stream: int) -> None:
        """Keep the stream waiting until `ungate`."""
        ctypes.c_uint32.from_address(self._flag.value or 0).value = 0
        error = self.kernels.tk_gate(self._flag, ctypes.c_void_p(stream))
        assert error == 0

    def ungate(self) -> None:
        """Let it go on."""
        ctypes.c_uint32.from_address(self._flag.value or 0).value = 1

    def close(self) -> None:
        """Leave nothing behind that the checker would call a leak."""
        self.ungate()
        self.kept.clear()
        for stream in self._streams.values():
            self.call("cudaStreamDestroy", ctypes.c_void_p(stream))
        self.call("cudaFreeHost", self._flag)
        self.call("cudaFree", self._mismatches)


class Here(Cuda):
    """And a client."""

    def __init__(self) -> None:
        super().__init__()
        import memlease  # here, so that what uses CUDA alone runs without it

        self.client = memlease.connect(start=False)

    def close(self) -> None:
        """Let go of the arrays first."""
        self.ungate()
        self.kept.clear()
        self.client.close()
        super().close()


def _next_task(connection: Connection) -> Any:
    try:
        return connection.recv()
    except EOFError:  # whoever had tasks is gone, and streams may be blocked for ever
        os._exit(1)


def _serve(connection: Connection, environment: dict[str, str], what: type[Cuda]) -> None:
    os.environ.clear()  # of the first test, where this is forked
    os.environ.update(environment)
    try:
        here = what()
    except BaseException:  # the first function is told why, as there is nothing to run it in
        if _next_task(connection) is not None:
            connection.send((False, traceback.format_exc()))
        os._exit(1)
    serving = True
    while (task := _next_task(connection)) is not None:
        function, arguments = task
        try:
            if function is None and serving:
                here.close()
                gc.collect()  # what holds a client or GPU memory in a circle
            elif function is None:
                os.environ.update(*arguments)
                here = what()
            serving = serving != (function is None)
            connection.send((True, function(here, *arguments) if function else None))
        except BaseException:  # the test is told, whatever it is
            connection.send((False, traceback.format_exc()))
    if serving:
        here.close()


def _environment() -> dict[str, str]:
    return {name: it for name, it in os.environ.items() if name not in _OF_A_TEST}


# Not the one that tests start which use multiprocessing themselves: its loader would not know where
# the stand-in is, and it would have imported nothing.
_fork_server = forkserver.ForkServer()
_fork_server.set_forkserver_preload(["numpy", "pytest"])


class Process:
    """One that a test gives functions to.

    If `forked`, of a process that has imported what the tests of the stand-in import, and used
    none of it: for that they are too many.
    """

    def __init__(self, what: type[Cuda] = Here, forked: bool = False) -> None:
        self._environment = _environment()
        context = multiprocessing.get_context("forkserver" if forked else "spawn")
        self._here, there = context.Pipe()
        arguments = (there, dict(os.environ), what)
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
        connect = _fork_server.connect_to_new_process
        with mock.patch.object(forkserver, "connect_to_new_process", connect):
            self._process.start()
        self._killed = False
        there.close()

    def start(self, function: Callable[..., Any] | None, *arguments: Any) -> None:
        """Begin; `result` waits for the end."""
        self._here.send((function, arguments))

    def result(self) -> Any:
        """Return what the function returned; what it raised fails the test."""
        assert self._here.poll(_ANSWER_S), "no answer from the test's process"
        succeeded, result = self._here.recv()
        assert succeeded, result
        return result

    def run(self, function: Callable[..., Any] | None, *arguments: Any) -> Any:
        """Both."""
        self.start(function, *arguments)
        return self.result()

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid or 0

    def rest(self) -> bool:
        """Have it let go of all; false if it has been killed."""
        if not self._killed:
            self.run(None)
        return not self._killed

    def fits(self) -> bool:
        """Tell whether it could be one that is started now: its environment is the same."""
        return self._environment == _environment()

    def serve_again(self) -> None:
        """Have one that rests serve a test, with that test's daemon."""
        self.run(None, {name: os.environ[name] for name in _OF_A_TEST if name in os.environ})

    def close(self) -> None:
        """End it as a program ends, unless it has been killed."""
        if self._killed:
            return
        self._here.send(None)
        self._process.join(_START_S)
        assert self._process.exitcode == 0, f"ended with {self._process.exitcode}"
        self._here.close()

    def kill(self, by_itself: bool = False) -> None:
        """End it in the middle of whatever it does; or wait until it has ended itself."""
        self._killed = True
        if not by_itself:
            self._process.kill()
        self._process.join()
