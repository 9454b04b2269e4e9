"""Reads what hello.cc publishes: the same bytes, and never a half-written version."""

import memlease

with memlease.connect() as client:
    field = client.wait_for("hello/field", timeout=30)
    try:
        for lease in field.follow():  # the newest version each time; slow readers skip some
            print(f"version {lease.version}: mean {lease.array.mean()}")
    except memlease.Withdrawn:
        print("the writer has ended")
