"""What check_model.py runs: what each model checks, and what fails without each of its rules."""

from typing import NamedTuple


class Run(NamedTuple):
    name: str
    model: str
    switches: str
    expected: str  # "pass", "assertion", "end state"
    rule: str  # what holds, or, for a control, the rule that is left out
    full: bool = False


# The configurations. A control takes one of them and leaves a rule out.
ALONE = "-DNO_THREAD2 -DTRIES=4 -DVERSIONS"  # two threads of one session
SEVERAL = "-DNO_THREAD1 -DTRIES=4 -DVERSIONS"  # several sessions
MOVES = "-DMAX_DEATHS=0 -DTRIES=2"
MOVES_BACK = "-DREADS=1 -DTRIES=2 -DMAX_DEATHS=0 -DMAX_MOVES=2"
DEATH = "-DVM=3 -DREADS=1 -DTRIES=2 -DMAX_DROPS=0 -DMAX_MOVES=0"
DEATH_MOVE = "-DVM=3 -DREADS=1 -DTRIES=2 -DMAX_DROPS=0"

CORRECT = [
    Run("holds-shared-row", "holds", ALONE, "pass", "threads of one session share a row"),
    Run(
        "holds-sessions",
        "holds",
        SEVERAL,
        "pass",
        "late subscriber, leaver, tombstone, unmapped extent",
    ),
    Run(
        "fences-shared-row",
        "fences",
        "-DNO_THREAD2",
        "pass",
        "joined read fences, two writing streams, drop",
    ),
    Run(
        "fences-sessions",
        "fences",
        "-DNO_THREAD1",
        "pass",
        "read fences of several sessions, leave",
    ),
    Run("fences-single-slot", "fences", "-DNO_THREAD1 -DNS=1", "pass", "the same, slots = 1"),
    Run("right-moves", "right", MOVES, "pass", "the right moves, nobody dies"),
    Run("right-moves-back", "right", MOVES_BACK, "pass", "the right moves twice"),
    Run(
        "right-fences-not-adopted",
        "right",
        f"{MOVES_BACK} -DOMIT_ADOPT_FENCES",
        "pass",
        "no control: fences need no adoption, since a move waits until they are complete",
    ),
    Run("right-death", "right", DEATH, "pass", "death at any step, heir, poison"),
    Run(
        "right-death-versions",
        "right",
        DEATH + " -DVERSIONS -DSTREAMS=2",
        "pass",
        "read(version=n), two streams",
    ),
    Run("right-death-move", "right", DEATH_MOVE, "pass", "death at any step, also of a move"),
    Run(
        "sleep-move",
        "sleep",
        "-DMOVE -DNO_THREAD1 -DNO_THREAD2",
        "pass",
        "nobody sleeps for ever: the right moves",
    ),
    Run(
        "sleep-death",
        "sleep",
        "-DDEATH -DNO_THREAD1",
        "pass",
        "nobody sleeps for ever: a holder dies",
    ),
    Run(
        "sleep-shared-row",
        "sleep",
        "-DNO_THREAD2",
        "pass",
        "nobody sleeps for ever: threads share the sleep flag",
    ),
    Run(
        "sleep-flag-after-recheck",
        "sleep",
        "-DNO_THREAD1 -DOMIT_FLAG_BEFORE_RECHECK",
        "pass",
        "no control: the flag may follow the re-check, as the sleep compares counts loaded before",
    ),
    Run(
        "single",
        "single",
        "-DONE_READER -DVM=2",
        "pass",
        "slots = 1: take-back, drop, death, sleeping",
    ),
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
]

LARGER = [
    Run("holds-all", "holds", "-DTRIES=4", "pass", "all three readers", True),
    Run("holds-three-slots", "holds", "-DNO_THREAD1 -DNS=3 -DTRIES=4", "pass", "three slots", True),
    Run(
        "fences-twice",
        "fences",
        "-DNO_THREAD2 -DK0=2 -DVM=3 -DTRIES=4",
        "pass",
        "two reads each",
        True,
    ),
    Run("right-drops", "right", "-DREADS=1 -DTRIES=2", "pass", "death, drop and move", True),
    Run(
        "right-versions",
        "right",
        "-DREADS=1 -DTRIES=2 -DMAX_DROPS=0 -DVERSIONS",
        "pass",
        "read(version=n)",
        True,
    ),
    Run(
        "sleep-move-sessions",
        "sleep",
        "-DMOVE -DNO_THREAD1",
        "pass",
        "two sessions and a move",
        True,
    ),
    Run("single-two-readers", "single", "-DVM=2", "pass", "slots = 1, two readers", True),
    Run("withdraw-all", "withdraw", "", "pass", "all three readers", True),
]


def controls(model: str, base: str, expected: str, rules: dict[str, str]) -> list[Run]:
    """Each of the rules left out of the configuration `base`."""
    return [
        Run(
            f"{model}-without-{name}",
            model,
            f"{base} -DOMIT_{name.upper().replace('-', '_')}",
            expected,
            rule,
        )
        for name, rule in rules.items()
    ]


A, E = "assertion", "end state"

# † = a rule that looks harmless to leave out.
CONTROLS = [
    *controls(
        "holds",
        SEVERAL,
        A,
        {
            "tombstone": "† an entry never moves; removal leaves a tombstone",
            "list-after-mark": "† the list is read after the mark, every time",
            "leave-waits-for-holds": "† a row leaves with an empty mask",
            "subscribe-first": "subscribed before the first acquire",
            "unmapped-holds": "an unmapped extent holds every slot",
        },
    ),
    *controls(
        "holds",
        ALONE,
        A,
        {
            "undo-decrements": "† a failed try decrements, never blindly clears",
            "slot-word-before-publication": "† slot word, then publication",
            "drop-clears": "† a dropped slot has no version",
            "count": "a private count behind each bit",
            "marked-means-retry": "a slot marked over n means retry, not gone",
            "check": "the slot word is checked after the bit",
            "check-of-mark": "WRITING beside v fails the check",
            "mark-before-scan": "mark, then scan",
        },
    ),
    *controls(
        "fences",
        "-DNO_THREAD1",
        A,
        {
            "write-fence-before-publication": "† write fence, then publication",
            "leave-waits-for-fences": "† a row leaves with complete fences",
            "fence-before-clear": "release: fence, then bit",
            "read-fences-after-scan": "read fences are loaded after the scan",
            "read-fences": "ordered behind the slot's read fences",
            "drop-fence": "ordered behind the slot's drop fence",
        },
    ),
    *controls(
        "fences",
        "-DNO_THREAD2",
        A,
        {
            "fence-of-earlier-releases": "† the fence covers every earlier release",
            "fence-of-earlier-hold": "† also from before the bit was last set",
            "lock-of-fence": "count, bit and fence are one critical section",
        },
    ),
    *controls(
        "right",
        MOVES,
        A,
        {
            "recheck-of-writer-word": "† acquire: the writer word is unchanged",
            "move-waits-for-writing": "a move waits for writing to be clear",
            "writing-before-check": "writing, then the check of the right",
        },
    ),
    *controls(
        "right",
        DEATH,
        A,
        {
            "write-fence-before-slot-word": "† write fence, then slot word",
            "unverified-reads": "† unverified reads are checked at their end",
            "heir-file-before-writer-word": "† heir file, then writer word",
            "release-after-poison": "† poison, then release of the timelines",
        },
    ),
    *controls(
        "right",
        DEATH_MOVE,
        A,
        {
            "move-waits-for-fences": "† a move waits for the old row's fences",
            "adopt-highest": "† the highest number used is adopted",
            "highest-used": "† numbers are never reused",
        },
    ),
    *controls(
        "right",
        DEATH + " -DSTREAMS=2",
        A,
        {
            "poison-all": "† all numbers above the standing one are poisoned",
            "wait-for-current": "ordered behind the current version's write fence",
        },
    ),
    *controls(
        "right",
        DEATH + " -DVERSIONS",
        A,
        {
            "heir-clears-marked": "a marked slot has no version after a death",
        },
    ),
    *controls(
        "sleep",
        "-DNO_THREAD1 -DNO_THREAD2",
        E,
        {
            "publication-before-count": "† publication, then publish count",
            "expected-first": "† expected counts, then flag and re-check",
            "recheck": "† re-check before sleeping",
            "undo-wakes": "† undo looks at wanted too",
            "clear-before-wanted": "clear the bit, then look at wanted",
            "release-count": "the release count is bumped, not only woken",
            "scan-again": "a writer scans again before it sleeps",
        },
    ),
    *controls(
        "sleep",
        "-DDEATH -DNO_THREAD1",
        E,
        {
            "removal-event": "† removing a subscriber bumps the event count",
        },
    ),
    *controls(
        "sleep",
        "-DMOVE -DNO_THREAD1 -DNO_THREAD2",
        E,
        {
            "writer-word-before-event-count": "† writer word, then event count",
            "move-event": "a move bumps the event count",
        },
    ),
    *controls(
        "sleep",
        "-DNO_THREAD2",
        E,
        {
            "count-of-sleepers": "a private count behind the sleep flag",
        },
    ),
    *controls(
        "single",
        "-DONE_READER -DVM=2",
        A,
        {
            "take-back-wakes": "† a mark taken back at a deadline wakes",
            "drop-wakes": "† a drop wakes",
            "drop-clears": "† a dropped slot has no version, slots = 1",
            "handed-out": "a death after the hand-out leaves no version",
            "restore": "a death before the hand-out restores",
            "handed-out-first": "HANDED_OUT is set before the first byte",
            "writer-event": "a new writer word bumps the event count",
        },
    ),
    *controls(
        "withdraw",
        "-DNO_THREAD1",
        A,
        {
            "recheck-of-writer-word": "acquire checks withdrawn after the bit",
            "wait-for-holds": "bytes are reused when no row holds them",
            "wait-for-writing": "and no write is under way",
            "wait-for-write-fences": "and its write fences are complete",
            "wait-for-read-fences": "and its read fences are complete",
            "holds-before-fences": "the masks are loaded before the fences",
            "fence-before-clear": "release: fence, then bit",
            "writing-before-check": "writing, then the check of the flag",
        },
    ),
]

RUNS = CORRECT + CONTROLS + LARGER
