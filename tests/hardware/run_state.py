"""What the parts of one run share."""

from __future__ import annotations

import dataclasses
import os

from report import Report


@dataclasses.dataclass
class Run:
    """One run, on hardware or on the stand-in.

    Attributes
    ----------
    one_test_s : float
        How long one of the C++ or Python tests may take.
    stopped : str
        The signal that has ended it; whatever fails after that says nothing.
    """

    report: Report
    stand_in: bool
    environment: dict[str, str]
    knobs: dict[str, int]  # of the stand-in
    end: float  # of time.monotonic()
    one_test_s: float = 60
    stopped: str = ""


# Several tests at once, each of which is several processes with a GPU context.
AT_ONCE = min(8, max(4, os.cpu_count() or 1))
