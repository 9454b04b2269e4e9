"""Follows publisher.py's field with PyTorch: a stream waits for each version, the host does not."""

import memlease
import torch

with memlease.connect() as client:
    field = client.wait_for("gpu/field", timeout=60)
    stream = torch.cuda.Stream(field.device_ordinal)
    try:
        with torch.cuda.stream(stream):
            for lease in field.follow(stream=stream):
                mean = torch.from_dlpack(lease).mean()
                print(f"version {lease.version}: mean {mean.item()}", flush=True)
    except memlease.Withdrawn:
        print("the publisher has ended")
