"""Each step that can be left out is named by a test, and the checker sees one that is not."""

from __future__ import annotations

import unittest
from pathlib import Path

import step_rules
from planting import planted

ROOT = Path(__file__).resolve().parents[2]

INNOCENT = {
    "client/good.cc": """
if (!leaves_out("first")) go();
if (leaves_out(read ? "second"
                    : "third")) continue;
if (internal::leaves_out("fourth")) continue;
return leaves_out(step);  // leaves_out("a comment")
""",
    "tests/test_good.cc": """
const Step kSteps[] = {{"IsDone", "first", play}, {"IsToo", "second", play}};
writer.is_ok("leave_out third");
leave_out("fourth");
if (leaves_out("fifth")) return;
const Step kOthers[] = {{"IsHere", "fifth", play}};
""",
}
# file -> its text, and what must be said about it
PLANTED = {
    "server/a.cc": (
        '\nif (leaves_out("nobody\'s")) return;\n',
        ':2: no test leaves out "nobody\'s"',
    ),
    "client/b.h": (
        'const bool it = leaves_out(\n    "of a comment");\n',
        ':1: no test leaves out "of a comment"',
    ),
    "tests/c.cc": (
        '// "of a comment"\nif (leaves_out("a play\'s")) return;\n',
        ':2: no test leaves out "a play\'s"',
    ),
}


class StepRules(unittest.TestCase):
    def test_each_step_is_named_by_a_test(self) -> None:
        found = list(step_rules.violations(ROOT))
        assert found == [], "\n" + "\n".join(found)

    def test_the_tree_was_looked_at(self) -> None:
        there = {step.name for step in step_rules.steps(ROOT)}
        assert {
            "announce the hold",  # of the client
            "poison",  # of the daemon
            "wait for writers",  # one of two
            "undo one hold",  # of a play
        } <= there
        assert len(there) >= 60

    def test_each_planted_violation_is_found(self) -> None:
        with planted({name: text for name, (text, _) in PLANTED.items()} | INNOCENT) as root:
            found = list(step_rules.violations(root))
        for name, (_, wanted) in PLANTED.items():
            assert any(it.startswith(name) and wanted in it for it in found), (name, found)
        assert len(found) == len(PLANTED), found


if __name__ == "__main__":
    unittest.main()
