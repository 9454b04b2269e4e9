"""What check_model.py runs: what each model checks, and the controls of controls.py."""

from configurations import (
    ALONE,
    DEATH,
    DEATH_MOVE,
    HOST_MOVES,
    HOST_TWICE,
    LOCK,
    LOCK_OF_THREE,
    MOVES,
    MOVES_BACK,
    ONCE,
    REPLICA_OF_THREE,
    SEVERAL,
    SINGLE,
    SLEEP_LATE,
    SLEEP_MOVE,
    Run,
)
from controls import CONTROLS

CORRECT = [
    Run("holds-shared-row", "holds", ALONE, "pass", "threads of one session share a row"),
    Run(
        "holds-sessions",
        "holds",
        SEVERAL.replace("TRIES=4", "TRIES=3"),
        "pass",
        "late subscriber, leaver, tombstone, unmapped session page",
    ),
    Run(
        "fences-shared-row",
        "fences",
        "-DNO_THREAD2 -DVM=3",
        "pass",
        "joined read fences, two writing streams, drop",
    ),
    Run(
        "fences-sessions",
        "fences",
        "-DNO_THREAD1 -DVM=3",
        "pass",
        "read fences of several sessions, leave",
    ),
    Run("fences-single-slot", "fences", "-DNO_THREAD1 -DNS=1 -DVM=3", "pass", "slots = 1"),
    Run("gpu-ownership-moves", "gpu_ownership", MOVES, "pass", "the lock moves, nobody dies"),
    Run(
        "gpu-ownership-death", "gpu_ownership", DEATH, "pass", "death at any step, takeover, poison"
    ),
    Run("sleep-move", "sleep", SLEEP_MOVE, "pass", "nobody sleeps for ever: the lock moves"),
    Run("sleep-late", "sleep", SLEEP_LATE, "pass", "nobody sleeps for ever: a late subscriber"),
    Run(
        "sleep-shared-row",
        "sleep",
        "-DNO_THREAD2",
        "pass",
        "nobody sleeps for ever: threads share the sleep flag",
    ),
    Run("lock", "lock", LOCK, "pass", "two contend for the lock on writing, one may die"),
    Run("host-moves", "host", "-DMAX_DEATHS=0", "pass", "writers change, nobody dies"),
    Run("host-death", "host", "", "pass", "a writer dies at any step"),
    Run("single", "single", SINGLE, "pass", "slots = 1: take-back, drop, death, sleeping"),
    Run(
        "withdraw-shared-row",
        "withdraw",
        "-DNO_THREAD2",
        "pass",
        "bytes reused after withdraw, shared row",
    ),
    Run(
        "withdraw-sessions",
        "withdraw",
        "-DNO_THREAD1",
        "pass",
        "bytes reused after withdraw, late subscriber",
    ),
    Run("overflow", "overflow", ONCE, "pass", "slots come and go, the newest version"),
    Run("overflow-version", "overflow", f"{ONCE} -DWANTED=2", "pass", "a version by its number"),
    Run("overflow-gpu", "overflow", f"{ONCE} -DGPU", "pass", "reads that go on after their holds"),
    Run("replicas", "replicas", "", "pass", "two devices: writes, copies, death, freeing"),
]

# A search by bits of what does not fit into memory is "searched".
LARGER = [
    run._replace(full=True)
    for run in (
        Run("holds-sessions-more", "holds", SEVERAL, "pass", "the same, four tries"),
        Run("holds-all", "holds", "-DTRIES=4", "pass", "all three readers"),
        Run("holds-three-slots", "holds", "-DNO_THREAD1 -DNS=3 -DTRIES=4", "pass", "three slots"),
        Run("fences-shared-row-more", "fences", "-DNO_THREAD2", "pass", "to version 4"),
        Run("fences-sessions-more", "fences", "-DNO_THREAD1", "pass", "to version 4"),
        Run("fences-twice", "fences", "-DNO_THREAD2 -DK0=2 -DVM=3 -DTRIES=4", "pass", "two reads"),
        Run(
            "gpu-ownership-moves-back", "gpu_ownership", MOVES_BACK, "pass", "the lock moves twice"
        ),
        Run(
            "gpu-ownership-death-move",
            "gpu_ownership",
            DEATH_MOVE,
            "pass",
            "death at any step, also of a move",
        ),
        Run(
            "gpu-ownership-death-versions",
            "gpu_ownership",
            f"{DEATH} -DVERSIONS -DSTREAMS=2",
            "pass",
            "read(version=n), two streams",
        ),
        Run(
            "gpu-ownership-drops",
            "gpu_ownership",
            "-DREADS=1 -DTRIES=2",
            "pass",
            "death, drop and move",
        ),
        Run(
            "gpu-ownership-versions",
            "gpu_ownership",
            "-DREADS=1 -DTRIES=2 -DMAX_DROPS=0 -DVERSIONS",
            "pass",
            "read(version=n)",
        ),
        Run(
            "sleep-death",
            "sleep",
            "-DDEATH -DNO_THREAD1",
            "pass",
            "nobody sleeps for ever: a holder dies",
        ),
        Run("sleep-move-sessions", "sleep", "-DMOVE -DNO_THREAD1", "pass", "two sessions, a move"),
        Run(
            "sleep-flag-after-recheck",
            "sleep",
            "-DNO_THREAD1 -DOMIT_FLAG_BEFORE_RECHECK",
            "pass",
            "no control: the flag may follow the re-check, as the sleep compares earlier counts",
        ),
        Run(
            "single-two-readers",
            "single",
            "-DVM=2 -DNO_WRITER_B",
            "pass",
            "slots = 1, two readers, to the takeover: what comes then is checked with one",
        ),
        Run("withdraw-all", "withdraw", "", "pass", "all three readers"),
        Run("lock-of-three", "lock", LOCK_OF_THREE, "pass", "three contend, nobody dies"),
        Run(
            "lock-offer-number",
            "lock",
            f"{LOCK_OF_THREE} -DOMIT_OFFER_NUMBER",
            "pass",
            "no control: an offer needs no number while a process asks one thing at a time",
        ),
        Run(
            "host-numbers-above-poisoned",
            "host",
            "-DOMIT_NUMBERS_ABOVE_POISONED",
            "pass",
            "no control: a poisoned number is never above the highest one used",
        ),
        Run("lock-asks", "lock", "", "pass", "two contend, and ask more often"),
        Run(
            "lock-of-three-death",
            "lock",
            "-DWRITERS=3 -DTURNS=1 -DASKS=1",
            "searched",
            "three contend, one may die",
        ),
        Run("overflow-twice", "overflow", "", "pass", "two writes each, nobody dies"),
        Run("overflow-twice-version", "overflow", "-DWANTED=2", "pass", "the same, by number"),
        Run("host-moves-twice", "host", HOST_MOVES, "pass", "two writes each, nobody dies"),
        Run("host-version", "host", "-DWANTED=2", "pass", "a version by its number"),
        Run("host-two-writes", "host", HOST_TWICE, "searched", "two writes each, a death"),
        Run(
            "host-two-writes-version",
            "host",
            f"{HOST_TWICE} -DWANTED=2",
            "searched",
            "version 2 of these",
        ),
        Run(
            "host-three-slots",
            "host",
            "-DNS=3 -DTRIES=2 -DREADS=2 -DWANTED=3",
            "searched",
            "three slots, two reads of version 3",
        ),
        Run(
            "replicas-of-three", "replicas", REPLICA_OF_THREE, "pass", "who waits for a slot there"
        ),
        Run(
            "host-two-deaths",
            "host",
            "-DTRIES=1 -DASKS=1 -DREADS=1 -DMAX_DEATHS=2",
            "pass",
            "both writers may die",
        ),
    )
]

RUNS = CORRECT + CONTROLS + LARGER
