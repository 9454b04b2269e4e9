"""Follows publisher.py's field with JAX, which shows its streams to nobody: leases name none.

JAX takes most of a GPU's memory at once; XLA_PYTHON_CLIENT_PREALLOCATE=false leaves it to others.
"""

import jax.numpy as jnp
import memlease

with memlease.connect() as client:
    field = client.wait_for("gpu/field", timeout=60)
    try:
        for lease in field.follow():
            # JAX cannot be told that memory is read-only: we promise not to write.
            values = jnp.from_dlpack(lease.dlpack(readonly_ok=True))
            print(f"version {lease.version}: mean {values.mean().item()}", flush=True)
            values.delete()  # before its lease ends
    except memlease.Withdrawn:
        print("the publisher has ended")
