"""Whether each rule of the models has a control in C++, too, or a reason why it has none.

tests/model/controls.py leaves each rule out of a model. The tables here name the step that C++
leaves out for it, and step_rules.py sees that a test names it. Models that share a rule share its
step.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "model"))
from controls import CONTROLS
from step_rules import Step

# Models of what a GPU's streams do: their plays are tests/device/test_device_races.cc.
OF_GPUS = {"fences", "gpu_ownership"}

# rule -> the steps of client/, server/ or a play that are left out for it
STEPS: dict[str, tuple[str, ...]] = {
    # who holds what
    "check": ("check the slot word",),
    "check-of-mark": ("check the slot word",),
    "count": ("count the holds",),
    "given-up-looks-at-slots": ("look for a write under way",),
    "hold": ("announce the hold",),
    "leave-waits-for-holds": ("see what a session holds",),
    "list-after-mark": ("read the list again",),
    "mark-means-retry": ("wait for a mark",),
    "marked-means-retry": ("wait for a mark",),
    "recheck-of-writer-word": ("check the writer word",),
    "subscribe-first": ("list the subscriber",),
    "tombstone": ("an entry stays where it is",),
    "undo-decrements": ("undo one hold",),
    "unmapped-holds": ("count a row that cannot be seen", "count a chunk that cannot be seen"),
    "wait-for-holds": ("see what a session holds",),
    "wait-for-writing": ("see a write under way",),
    # a write
    "drop-clears": ("clear the dropped slot",),
    "handed-out": ("hand the slot out",),
    "handed-out-before-bytes": ("hand-out before the bytes",),
    "handed-out-first": ("hand-out before the bytes",),
    "highest-used": ("use up the number",),
    "mark": ("mark the slot",),
    "mark-before-scan": ("mark the slot",),
    "number-before-handed-out": ("number before the hand-out",),
    "scan": ("look at the holds",),
    "slot-word-before-publication": ("slot word before publication",),
    "take-back": ("take the mark back",),
    # sleep
    "clear-before-wanted": ("clear the hold before the look",),
    "count-of-sleepers": ("count the sleepers",),
    "counts-before-asking": ("counts before the question",),
    "drop-wakes": ("count the end of a write",),
    "entry-before-event-count": ("entry before the event count",),
    "event-count-before-list": ("event count before the list",),
    "event-count-first": ("event count first",),
    "expected-first": ("take the counts first",),
    "flag-before-count": ("flag before count",),
    "move-event": ("count the change",),
    "publication-before-count": ("publication before count",),
    "recheck": ("look again before the sleep",),
    "release-count": ("wake the writer", "want a slot"),
    "removal-event": ("count the change",),
    "scan-again": ("look again before sleeping",),
    "subscriber-event": ("count the subscriber",),
    "take-back-wakes": ("count the end of a write",),
    "undo-wakes": ("wake the writer",),
    "wake-who-asks": ("wake who asks",),
    "writer-event": ("count the change",),
    "writer-word-before-event-count": ("writer word before event count",),
    # ownership
    "adopt-before-confirm": ("adopt the row before it counts",),
    "adopt-highest": ("adopt the highest number",),
    "adopt-publication": ("adopt the publication",),
    "cancel-clears-moving": ("let the owner go on",),
    "check-of-moving": ("check the writer word",),
    "confirm-by-whom": ("look who confirms",),
    "gone-cancels": ("cancel for who is gone",),
    "look-at-writing": ("look at the flag",),
    "moving-before-look": ("moving before the look", "set moving"),
    "offer-ends-with-owner": ("end the offer with its owner",),
    "writing-before-check": ("flag the write",),
    # a writer's death
    "generation": ("count the generation",),
    "mark-alone-stands": ("a mere mark stands",),
    "poison": ("poison",),
    "poison-before-writer-word": ("poison before the writer word",),
    "restore": ("a mere mark stands",),
    "takeover": ("takeover",),
    "takeover-before-writer-word": ("takeover row before the writer word",),
    "takeover-highest": ("hand the numbers on",),
    "takeover-names-lost": ("name what an only slot has lost",),
    "torn-has-no-version": ("torn bytes have no version",),
    # slots that come and go
    "adopt-clears": ("clear what does not exist",),
    "clear": ("clear what does not exist",),
    "closing-before-look": ("close before the look",),
    "closing-mark": ("look at a slot that closes",),
    "exists-before-word": ("existence before the word",),
    "look-at-holds": ("see who holds an added slot",),
    "look-at-word": ("look at the word of a new slot",),
    "place-before-count": ("place before the count",),
    "reader-check": ("look whether the slot exists",),
    "version-above-current": ("see a publish under way",),
    "writer-check": ("look whether the slot exists",),
    # two places of one array
    "flag-before-publication": ("say that versions are elsewhere",),
    "lost-number": ("look at what is poisoned",),
    "slot-without-number": ("wait for a slot without a number",),
}

_EVENTS = "of a GPU's work: tests/server/core/test_slot_growth_devices.cc has tests, no control"
_COPIES = "tests/device/test_replica_storm.cc kills processes in the middle of copies, no control"

# rule -> why C++ has no control of it
WITHOUT: dict[str, str] = {
    "fence-before-clear": _EVENTS,
    "holds-before-fences": _EVENTS,
    "holds-before-work": _EVENTS,
    "look-at-work": _EVENTS,
    "record-before-clear": _EVENTS,
    "wait-for-read-fences": _EVENTS,
    "wait-for-write-fences": _EVENTS,
    "ownership-of-home": "tests/device/test_replicas.cc has a test, no control; the flag and the "
    "look of claim_number() have both, in tests/client/slots/test_slot_steps.cc",
    "number-of-home": "tests/client/arrays/test_replicas.cc has a test, no control",
    "keep-newest": "tests/server/core/test_replicas.cc has a test, no control",
    "source-complete": _COPIES,
    "still-newest": _COPIES,
    "compare": _COPIES,
    "at-once": "tests/device/test_replica_storm.cc has processes copy at once, no control",
}

# step of client/slots -> what no model knows of, and plays alone prove
PLAYS_ALONE: dict[str, str] = {
    "go on above what is poisoned": "a writer that lies about the highest number",
    "look again after some writes": "which of several free slots is taken",
    "look again where none seems free": "how long a look at the added slots is believed",
    "look whose board it is": "a board that is another array's by now",
    "look whose row it was": "a former writer's row that is another array's by now",
    "order streaming stores": "stores that x86 does not order",
    "say that it only copies": "whom has_writer() takes for a writer",
}


def rules() -> set[str]:
    """Return the rules that the models leave out, apart from those about GPUs alone."""
    return {
        run.name.removeprefix(f"{run.model}-without-")
        for run in CONTROLS
        if run.model not in OF_GPUS
    }


def violations(
    steps: Mapping[str, tuple[str, ...]],
    without: Mapping[str, str],
    plays_alone: Mapping[str, str],
    rules: set[str],
    code: Collection[Step],
) -> Iterator[str]:
    """Each rule that has not one of the two, and each name in the tables that means nothing."""
    for rule in sorted(rules - steps.keys() - without.keys()):
        yield f"{rule}: C++ leaves out no step for it, and no reason is given"
    for rule in sorted(steps.keys() & without.keys()):
        yield f"{rule}: it has a step, and a reason to have none"
    for rule in sorted((steps.keys() | without.keys()) - rules):
        yield f"{rule}: no model leaves it out"
    left_out = {step.name for step in code}
    for rule, names in steps.items():
        for name in sorted(set(names) - left_out):
            yield f'{rule}: nothing leaves out "{name}"'
    of_rules = {name for names in steps.values() for name in names}
    of_slots = {step.name for step in code if step.file.startswith("client/slots/")}
    for name in sorted(of_slots - of_rules - plays_alone.keys()):
        yield f'"{name}": it is no rule of a model, and no reason is given'
    for name in sorted(plays_alone.keys() - (of_slots - of_rules)):
        yield f'"{name}": nothing in client/slots leaves it out, or it is a rule of a model'
