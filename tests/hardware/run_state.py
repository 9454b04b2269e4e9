"""What the parts of one run share."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

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
    checks : sequence of str
        If there are any: questions, figures and C++ tests whose names have one of these alone.
    rest : bool
        What the report that it goes on in says of a C++ or Python test that has not failed is kept,
        and the test is not run again.
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
    checks: Sequence[str] = ()
    rest: bool = False
    stopped: str = ""

    def chosen(self, names: list[str]) -> list[str]:
        """Return those that are asked for."""
        if not self.checks:
            return names
        return [name for name in names if any(part in name for part in self.checks)]

    def done(self) -> list[str]:
        """Return the tests that are not run again."""
        results = self.report.results.items() if self.rest else ()
        return [name for name, result in results if result != "failed"]


# Processes that run tests, each of which has others with a GPU context: the driver serves all of
# them one after the other.
AT_ONCE = 4
