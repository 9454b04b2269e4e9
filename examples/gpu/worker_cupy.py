"""Follows publisher.py's field with CuPy: a stream waits for each version, the host does not."""

import cupy
import memlease

with memlease.connect() as client:
    field = client.wait_for("gpu/field", timeout=60)
    try:
        with cupy.cuda.Device(field.device_ordinal), cupy.cuda.Stream(non_blocking=True) as stream:
            for lease in field.follow(stream=stream):
                # CuPy 13 cannot be told that memory is read-only: we promise not to write.
                mean = cupy.from_dlpack(lease.dlpack(readonly_ok=True)).mean()
                print(f"version {lease.version}: mean {mean.item()}", flush=True)
    except memlease.Withdrawn:
        print("the publisher has ended")
