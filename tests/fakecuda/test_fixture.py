"""The pytest fixture of the CUDA stand-in."""

import ctypes
import os
import subprocess
import sys

from fakecuda_build import require_stand_in

require_stand_in()
pytest_plugins = ["fakecuda_fixture"]

WORDS = 2**18  # one granule
GET_READY = (
    "from ctypes import *; cuda = CDLL('libcudart.so.13'); tk = CDLL('libtest_kernels.so')\n"
)


def allocate(fake_cuda):
    data = ctypes.c_void_p()
    assert fake_cuda.cuda.cudaMalloc(ctypes.byref(data), ctypes.c_size_t(WORDS * 8)) == 0
    return data


def new_stream(fake_cuda):
    stream = ctypes.c_void_p()
    assert fake_cuda.cuda.cudaStreamCreateWithFlags(ctypes.byref(stream), 1) == 0
    return stream


def fill(fake_cuda, data, value, stream):
    count = ctypes.c_size_t(WORDS)
    assert fake_cuda.kernels.tk_fill(data, count, ctypes.c_uint64(value), stream) == 0


def free(fake_cuda, data, *streams):
    for stream in streams:
        assert fake_cuda.cuda.cudaStreamDestroy(stream) == 0
    assert fake_cuda.cuda.cudaFree(data) == 0


def test_what_is_ordered_is_clean(fake_cuda):
    data, stream = allocate(fake_cuda), new_stream(fake_cuda)
    fill(fake_cuda, data, 5, stream)
    got = ctypes.c_uint64()
    copied = fake_cuda.cuda.cudaMemcpyAsync(
        ctypes.byref(got), data, ctypes.c_size_t(8), ctypes.c_int(2), stream
    )
    assert copied == 0
    assert got.value == 5
    free(fake_cuda, data, stream)


def test_a_missing_wait_is_found(fake_cuda):
    data, one, two = allocate(fake_cuda), new_stream(fake_cuda), new_stream(fake_cuda)
    fill(fake_cuda, data, 1, one)
    assert fake_cuda.cuda.fakecuda_drain(one) == 0
    fill(fake_cuda, data, 2, two)
    free(fake_cuda, data, one, two)
    findings = fake_cuda.findings()
    assert "write after write" in findings
    assert findings.count("tk_fill wrote") == 2


def test_a_leak_is_found(fake_cuda):
    allocate(fake_cuda)
    assert "kept 1 allocations" in fake_cuda.findings()


def test_a_fault_can_be_planned(fake_cuda):
    fake_cuda.fail("cudaMalloc", 2)
    data = ctypes.c_void_p()
    assert fake_cuda.cuda.cudaMalloc(ctypes.byref(data), ctypes.c_size_t(8)) == 2


def test_another_process_finds_the_library_by_its_name(fake_cuda):
    data = allocate(fake_cuda)
    handle = ctypes.create_string_buffer(64)
    assert fake_cuda.cuda.cudaIpcGetMemHandle(handle, data) == 0
    program = GET_READY + (
        "class Handle(Structure): _fields_ = [('bytes', c_char * 64)]\n"
        f"handle = Handle.from_buffer_copy(bytes.fromhex({handle.raw.hex()!r}))\n"
        "data = c_void_p()\n"
        "assert cuda.cudaIpcOpenMemHandle(byref(data), handle, 1) == 0\n"
        f"assert tk.tk_fill(data, c_size_t({WORDS}), c_uint64(7), None) == 0\n"
        "assert cuda.cudaDeviceSynchronize() == 0\n"
        "assert cuda.cudaIpcCloseMemHandle(data) == 0\n"
        "cuda.fakecuda_release(c_uint64(1), c_uint64(1))\n"
    )
    subprocess.run([sys.executable, "-c", program], env=fake_cuda.environment(), check=True)
    fake_cuda.cuda.fakecuda_acquire(ctypes.c_uint64(1), ctypes.c_uint64(1))
    got = ctypes.c_uint64()
    assert fake_cuda.cuda.cudaMemcpy(ctypes.byref(got), data, ctypes.c_size_t(8), 2) == 0
    assert got.value == 7
    free(fake_cuda, data)


def test_contexts_are_counted_by_process_and_gpu(fake_cuda):
    assert fake_cuda.cuda.cudaSetDevice(1) == 0
    assert fake_cuda.contexts(os.getpid()) == [0, 1]
    assert fake_cuda.contexts(0) == []
