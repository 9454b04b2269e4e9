"""A reader that comes to grief: half way through the run it sits down on its leases, and the demo
kills it there with SIGKILL. Nobody else should notice."""

import argparse
import json
import time

import memlease
from surface import SurfaceReader

HOLD_FROM = 0.5  # of the run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    arguments = parser.parse_args()

    with memlease.connect() as client:
        print("ready", flush=True)
        reader = SurfaceReader(client, arguments.ranks, "bystander")
        for frame in reader.frames():
            time.sleep(0.02)  # as if it did something slow with the bytes
            if frame.time_s >= HOLD_FROM * frame.duration_s:
                last = {"version": frame.version, "read": reader.read, "skipped": reader.skipped}
                print("holding " + json.dumps(last), flush=True)
                time.sleep(600)  # with its leases; the demo does not let it wake up


if __name__ == "__main__":
    main()
