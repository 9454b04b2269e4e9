"""Publishes a field on a GPU, ten times a second, until Ctrl-C; the workers beside it follow it.

python publisher.py [DEVICE]    cuda:0 unless told otherwise
"""

import contextlib
import sys
import time

import memlease
import numpy as np

with memlease.connect() as client, contextlib.suppress(KeyboardInterrupt):
    device = sys.argv[1] if len(sys.argv) > 1 else "cuda:0"
    try:
        field = client.create("gpu/field", shape=(480, 640), dtype="f4", device=device, slots=6)
    except memlease.Error as error:  # such as no GPU
        sys.exit(f"publisher.py: {error}")
    while True:
        # An array on the GPU is put likewise, with stream=; kernels write in place: field.write().
        field.put(np.full(field.shape, field.version + 1, "float32"))
        time.sleep(0.1)
