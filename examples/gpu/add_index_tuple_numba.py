"""Adds the sum of its indices to each element of an array, by a kernel of Numba's on a GPU.

python add_index_tuple_numba.py [DEVICE]    cuda:0 unless told otherwise

The array is the host's: its newest version is copied to the GPU, and what the kernel makes of it is
the next version, which is read on the host. With NUMBA_ENABLE_CUDASIM=1 and DEVICE "host" it runs
without a GPU, by Numba's simulator.
"""

import sys

import memlease
import numpy as np
from numba import config, cuda

config.CUDA_LOW_OCCUPANCY_WARNINGS = 0  # so few elements leave a GPU nearly idle


@cuda.jit
def add_index_tuple(cells):
    i, j, k = cuda.grid(3)
    if i < cells.shape[0] and j < cells.shape[1] and k < cells.shape[2]:
        cells[i, j, k] += i + j + k


with memlease.connect() as client:
    field = client.create("gpu/indices", shape=(2, 4, 7), dtype="f4", fill=1)
    try:
        there = field.on(sys.argv[1] if len(sys.argv) > 1 else "cuda:0")
    except memlease.Error as error:  # such as no GPU
        sys.exit(f"add_index_tuple_numba.py: {error}")
    blocks, threads = tuple(extent // 4 + 1 for extent in field.shape), (4, 4, 4)
    if there.device == "host":
        with there.update() as lease:
            add_index_tuple[blocks, threads](lease.array)
    else:
        with cuda.gpus[there.device_ordinal]:
            stream = cuda.stream()
            with there.update(stream=stream) as lease:
                add_index_tuple[blocks, threads, stream](cuda.as_cuda_array(lease))
    wrong = np.count_nonzero(field.get() != 1 + np.indices(field.shape).sum(axis=0))
    print(f"version {field.version}: {wrong} of {field.size} elements are wrong")
