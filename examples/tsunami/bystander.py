"""A reader that sits down on its leases, until the demo asks it to leave, or kills it right there.

It cannot tell beforehand which of the two will happen. Nobody else should notice either.
"""

import argparse
import json
import sys

import memlease
from surface import SurfaceReader

SITS_DOWN_AFTER = 10  # versions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    arguments = parser.parse_args()

    with memlease.connect(start=False) as client:
        reader = SurfaceReader(client, arguments.ranks, "bystander")
        for frame in reader.frames():
            if reader.read < SITS_DOWN_AFTER:
                continue
            report = reader.report() | {"held": frame.version}
            print("holding " + json.dumps(report), flush=True)
            sys.stdin.read()  # returns when the demo closes it
            break


if __name__ == "__main__":
    main()
