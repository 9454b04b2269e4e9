"""On how many examples a property is tried: ./dev prove fuzz has many times as many."""

import os

from hypothesis import HealthCheck, settings


def tried(examples: int) -> settings:
    """Return the settings of a property that ./dev test tries on so many examples."""
    return settings(
        max_examples=examples * int(os.environ.get("MEMLEASE_TIMES_EXAMPLES", "1")),
        deadline=None,
        # A private daemon serves all examples of a property.
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
