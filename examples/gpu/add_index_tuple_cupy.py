"""Adds the sum of its indices to each element of an array, by a kernel of CuPy's on a GPU.

python add_index_tuple_cupy.py [DEVICE]    cuda:0 unless told otherwise

The array is the host's: its newest version is copied to the GPU, and what the kernel makes of it is
the next version, which is read on the host. The kernel takes arrays of any rank.
"""

import sys

import cupy
import memlease
import numpy as np

add_index_tuple = cupy.ElementwiseKernel(
    "",
    "raw T cells",
    """
    ptrdiff_t sum = 0;
    for (ptrdiff_t rest = i, dim = cells.ndim - 1; dim >= 0; --dim) {
      sum += rest % cells.shape()[dim];
      rest /= cells.shape()[dim];
    }
    cells[i] += sum;
    """,
    "add_index_tuple",
)

with memlease.connect() as client:
    field = client.create("gpu/indices", shape=(2, 4, 7), dtype="f4", fill=1)
    try:
        there = field.on(sys.argv[1] if len(sys.argv) > 1 else "cuda:0")
    except memlease.Error as error:  # such as no GPU
        sys.exit(f"add_index_tuple_cupy.py: {error}")
    with (
        cupy.cuda.Device(there.device_ordinal),
        cupy.cuda.Stream(non_blocking=True) as stream,
        there.update(stream=stream) as lease,
    ):
        add_index_tuple(cupy.from_dlpack(lease), size=field.size)
    wrong = np.count_nonzero(field.get() != 1 + np.indices(field.shape).sum(axis=0))
    print(f"version {field.version}: {wrong} of {field.size} elements are wrong")
