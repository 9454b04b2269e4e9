"""What fails without each of the models' rules."""

from configurations import (
    ALONE,
    DEATH,
    DEATH_MOVE,
    HOST_MOVES,
    HOST_TWICE,
    LOCK,
    LOCK_OF_THREE,
    MOVES,
    SEVERAL,
    SINGLE,
    SLEEP_LATE,
    SLEEP_MOVE,
    Run,
)


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
            "unmapped-holds": "an unmapped session page holds every slot",
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
        "gpu_ownership",
        MOVES,
        A,
        {
            "recheck-of-writer-word": "† acquire: the writer word is unchanged",
            "move-waits-for-writing": "a move waits for writing to be clear",
            "writing-before-check": "writing, then the check of ownership",
        },
    ),
    *controls(
        "gpu_ownership",
        DEATH,
        A,
        {
            "event-before-slot-word": "† the slot's event is recorded, then its word stored",
            "takeover-before-writer-word": "† takeover page, then writer word",
            "release-after-poison": "† poison, then the events are recorded again",
        },
    ),
    *controls(
        "gpu_ownership",
        DEATH_MOVE,
        A,
        {
            "adopt-highest": "† the highest number used is adopted",
            "highest-used": "† numbers are never reused",
        },
    ),
    *controls(
        "gpu_ownership",
        "-DVM=2 -DREADS=1 -DTRIES=1 -DMAX_DROPS=0",
        A,
        {
            "move-waits-for-fences": "† a move waits until the slots' events are complete",
        },
    ),
    *controls(
        "gpu_ownership",
        DEATH + " -DSTREAMS=2",
        A,
        {
            "poison-all": "† all numbers above the standing one are poisoned",
            "wait-for-current": "ordered behind the current version's write fence",
        },
    ),
    *controls(
        "gpu_ownership",
        DEATH + " -DVERSIONS",
        A,
        {
            "handed-out": "a slot is handed out before its stream works on it",
            "torn-has-no-version": "what was handed out has no version after a death",
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
        SLEEP_LATE,
        E,
        {
            "subscriber-event": "a new subscriber bumps the event count",
            "entry-before-event-count": "the subscriber's entry, then the event count",
            "event-count-before-list": "the event count is loaded, then who has subscribed",
        },
    ),
    *controls(
        "sleep",
        SLEEP_MOVE,
        E,
        {
            "writer-word-before-event-count": "† writer word, then event count",
            "move-event": "a move bumps the event count",
            "event-count-first": "† the event count, then the writer's count",
            "wake-who-asks": "the end of a write wakes who asks for ownership",
            "flag-before-count": "† the flag of the write, then the count of its end",
            "counts-before-asking": "† expected counts, then the question",
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
        SINGLE,
        A,
        {
            "take-back-wakes": "† a mark taken back at a deadline wakes",
            "drop-wakes": "† a drop wakes",
            "drop-clears": "† a dropped slot has no version, slots = 1",
            "handed-out": "a death after the hand-out leaves no version",
            "restore": "a death before the hand-out restores",
            "handed-out-first": "HANDED_OUT is set before the first byte",
            "writer-event": "a new writer word bumps the event count",
            "takeover-names-lost": "the takeover row names what an only slot has lost",
        },
    ),
    *controls(
        "lock",
        LOCK,
        A,
        {
            "writing-before-check": "writing, then the check of the writer word",
            "check-of-moving": "no write begins while the lock moves",
            "moving-before-look": "the daemon sets moving, then looks at writing",
            "look-at-writing": "no offer while its owner writes",
            "adopt-before-confirm": "† the row is copied before it counts",
            "cancel-clears-moving": "a move that is cancelled lets the owner go on",
            "gone-cancels": "who is gone keeps no place",
            "offer-ends-with-owner": "† an offer of a row ends when its owner leaves",
            "takeover": "the takeover row has what a gone owner wrote last",
        },
    ),
    *controls(
        "lock",
        LOCK_OF_THREE,
        A,
        {
            "confirm-by-whom": "only the process whose place it is confirms",
        },
    ),
    *controls(
        "host",
        HOST_MOVES,
        A,
        {
            "hold": "a hold is announced before the check",
            "check": "the slot word is checked after the hold",
            "check-of-mark": "a marked slot fails the check",
            "recheck-of-writer-word": "† acquire: the writer word is unchanged",
            "mark": "a slot is marked before the scan",
            "scan": "a slot that is held is not written",
            "highest-used": "† numbers are never reused, also after a drop",
            "adopt-highest": "† the highest number used is adopted",
            "adopt-publication": "what is current is adopted",
        },
    ),
    *controls(
        "host",
        f"{HOST_MOVES} -DWANTED=1",
        A,
        {
            "take-back": "a mark that was not handed out is taken back",
            "mark-means-retry": "† a mere mark means retry, not gone",
            "drop-clears": "† a dropped slot has no version",
        },
    ),
    *controls(
        "host",
        f"{HOST_MOVES} -DWANTED=2",
        A,
        {
            "given-up-looks-at-slots": "† a number under way is not gone",
            "slot-word-before-publication": "† slot word, then publication",
        },
    ),
    *controls(
        "host",
        "",
        A,
        {
            "takeover-before-writer-word": "† the takeover row is complete before it counts",
            "takeover-highest": "the takeover row goes on with the numbers",
            "generation": "† the same row in another tenure is another writer word",
        },
    ),
    *controls(
        "host",
        "-DWANTED=2",
        A,
        {
            "poison": "the number of a torn write is poisoned",
            "poison-before-writer-word": "† poison, then the writer word",
        },
    ),
    *controls(
        "host",
        f"{HOST_TWICE} -DWANTED=2",
        A,
        {
            "handed-out": "what is handed out says so",
            "handed-out-before-bytes": "† handed out, then the first byte",
            "number-before-handed-out": "† the number is on record, then handed out",
            "mark-alone-stands": "† a mark alone has torn nothing",
        },
    ),
    *controls(
        "host",
        f"{HOST_TWICE} -DWANTED=1",
        A,
        {
            "torn-has-no-version": "what a death has torn has no version",
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
    *controls(
        "replicas",
        "",
        A,
        {
            "flag-before-publication": "the home says first that a version may stand elsewhere",
            "ownership-of-home": "who writes anywhere owns the home",
            "number-of-home": "and has its number from there",
            "source-complete": "a copy begins when its source is complete",
            "lost-number": "a number that was lost on a device does not come back to it",
            "still-newest": "† a new number is for what is the newest version still",
            "compare": "what is acquired is compared with what was looked for",
            "keep-newest": "a replica that has what the home has not is kept",
        },
    ),
    *controls(
        "replicas",
        "-DTURNS=3 -DMAX_DEATHS=0",
        E,
        {
            "at-once": "† who holds a version tries to write at once, or lets it go first",
            "slot-without-number": "† who waits for a slot has no number meanwhile",
        },
    ),
]

# A control of overflow.pml may leave out two rules, either of which is enough.
CONTROLS += [
    *controls(
        "overflow",
        "",
        A,
        {
            "reader-check": "a reader looks whether its slot exists, after its hold",
            "writer-check": "a writer looks whether its slot exists, after its mark",
            "look-at-holds": "a slot that is held is not taken away",
            "closing-before-look": "first the mark that the slot closes, then the look",
            "place-before-count": "the place of an added slot, then the count",
            "version-above-current": "a slot between the two stores of a publish is in use",
        },
    ),
    *controls(
        "overflow",
        "-DGPU",
        A,
        {
            "look-at-work": "a slot is not taken away before the reads that were let go are over",
            "holds-before-work": "the holds, then the events: a read records, then lets go",
            "record-before-clear": "a read records its event, then clears its hold",
        },
    ),
    *controls(
        "overflow",
        "-DWANTED=3",
        A,
        {
            "closing-mark": "a slot that closes is not gone: its versions may come back",
            "exists-before-word": "the slot exists, then its word: a new slot has no version",
            "look-at-word": "no slot is added whose word has a version: the request may be late",
        },
    ),
    *controls(
        "overflow",
        "-DWANTED=3 -DOMIT_LOOK_AT_WORD",
        A,
        {
            "clear": "the writer clears the words of slots that do not exist",
        },
    ),
    *controls(
        "overflow",
        "-DWANTED=1",
        A,
        {
            "adopt-clears": "so does the new writer: its row has what an earlier tenure left",
        },
    ),
]
