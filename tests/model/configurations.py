"""A run of a model, and the configurations of runs.py and controls.py."""

from typing import NamedTuple


class Run(NamedTuple):
    name: str
    model: str
    switches: str
    expected: str  # "pass", "searched", "assertion", "end state"
    rule: str  # what holds, or, for a control, the rule that is left out
    full: bool = False

    @property
    def is_control(self) -> bool:
        return self.expected in ("assertion", "end state")


# A control takes one of them and leaves a rule out.
ALONE = "-DNO_THREAD2 -DTRIES=4 -DVERSIONS"  # two threads of one session
SEVERAL = "-DNO_THREAD1 -DTRIES=4 -DVERSIONS"  # several sessions
MOVES = "-DMAX_DEATHS=0 -DTRIES=2"
MOVES_BACK = "-DREADS=1 -DTRIES=2 -DMAX_DEATHS=0 -DMAX_MOVES=2"
DEATH = "-DVM=3 -DREADS=1 -DTRIES=2 -DMAX_DROPS=0 -DMAX_MOVES=0"
DEATH_MOVE = "-DVM=3 -DREADS=1 -DTRIES=2 -DMAX_DROPS=0"
SLEEP_MOVE = "-DMOVE -DNO_THREAD1 -DNO_THREAD2"
SLEEP_LATE = "-DLATE -DNO_THREAD1"
SINGLE = "-DONE_READER -DVM=2"
LOCK = "-DTURNS=2 -DASKS=2"
LOCK_OF_THREE = "-DWRITERS=3 -DMAX_DEATHS=0 -DTURNS=1 -DASKS=1"
HOST_MOVES = "-DMAX_DEATHS=0 -DTRIES=2"
ONCE = "-DTRIES=1 -DMAX_DEATHS=1"  # one write each
# writes on the replica, and at home by who holds a version there
REPLICA_OF_THREE = "-DPROCESSES=3 -DMAX_DEATHS=0 -DREPLICA_ALONE"
HOST_TWICE = "-DTRIES=2"  # two writes each; -DWANTED: a version is read by its number
