"""What the parts of one run share."""

from __future__ import annotations

import dataclasses

from report import Report


@dataclasses.dataclass
class Run:
    """One run, on hardware or on the stand-in.

    Attributes
    ----------
    one_test_s : float
        How long one of the C++ or Python tests may take.
    as_hardware : bool
        The C++ and Python tests take the stand-in for hardware.
    stopped : str
        The signal that has ended it; whatever fails after that says nothing.
    """

    report: Report
    stand_in: bool
    environment: dict[str, str]
    knobs: dict[str, int]  # of the stand-in
    end: float  # of time.monotonic()
    one_test_s: float = 60
    as_hardware: bool = False
    stopped: str = ""


# Processes that run tests, each of which has others with a GPU context: the driver serves all of
# them one after the other.
AT_ONCE = 4
