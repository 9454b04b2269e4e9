"""Follows publisher.py's field with a kernel of Numba's, launched on the leases' stream."""

import memlease
import numpy as np
from numba import cuda


@cuda.jit
def add_up(field, total):
    row, column = cuda.grid(2)
    if row < field.shape[0] and column < field.shape[1]:
        cuda.atomic.add(total, 0, field[row, column])


with memlease.connect() as client:
    field = client.wait_for("gpu/field", timeout=60)
    blocks, threads = (field.shape[0] // 16 + 1, field.shape[1] // 16 + 1), (16, 16)
    try:
        with cuda.gpus[field.device_ordinal]:
            stream = cuda.stream()
            for lease in field.follow(stream=stream):
                total = cuda.to_device(np.zeros(1), stream=stream)
                add_up[blocks, threads, stream](cuda.as_cuda_array(lease), total)
                total = total.copy_to_host(stream=stream)
                stream.synchronize()
                mean = total[0] / np.prod(field.shape)
                print(f"version {lease.version}: mean {mean}", flush=True)
    except memlease.Withdrawn:
        print("the publisher has ended")
