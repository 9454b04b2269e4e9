"""Each rule of the models has a control in C++ or a reason, and the checker sees one without."""

from __future__ import annotations

import re
import unittest
from collections import Counter
from pathlib import Path

import model_rules
import step_rules
from step_rules import Step

ROOT = Path(__file__).resolve().parents[2]


class ModelRules(unittest.TestCase):
    def test_each_rule_has_a_step_or_a_reason(self) -> None:
        found = list(
            model_rules.violations(
                model_rules.STEPS,
                model_rules.WITHOUT,
                model_rules.PLAYS_ALONE,
                model_rules.rules(),
                list(step_rules.steps(ROOT)),
            )
        )
        assert found == [], "\n" + "\n".join(found)

    def test_the_models_were_looked_at(self) -> None:
        assert {"hold", "poison", "wake-who-asks", "keep-newest"} <= model_rules.rules()

    def test_the_readme_counts_the_rules_of_each_model(self) -> None:
        of_each = Counter(run.model for run in model_rules.CONTROLS)
        text = (ROOT / "tests/model/README.md").read_text()
        rows = re.findall(r"^\| (`\w+\.pml`[^|]*)\|.*\| (\d*)[^|]*\|$", text, re.MULTILINE)
        for models, count in rows:
            names = re.findall(r"`(\w+)\.pml`", models)
            assert int(count or 0) == sum(of_each[name] for name in names), models
        assert len(rows) > 10

    def test_each_planted_violation_is_found(self) -> None:
        code = [Step("client/slots/a.cc", 1, name) for name in ("ruled", "played", "nobody's")]
        found = list(
            model_rules.violations(
                dict.fromkeys(("kept", "both", "renamed"), ("ruled",)) | {"stale": ("gone",)},
                {"excused": "a reason", "both": "a reason"},
                dict.fromkeys(("played", "ruled", "lost"), "a reason"),
                {"kept", "both", "excused", "stale", "new"},
                code,
            )
        )
        assert found == [
            "new: C++ leaves out no step for it, and no reason is given",
            "both: it has a step, and a reason to have none",
            "renamed: no model leaves it out",
            'stale: nothing leaves out "gone"',
            '"nobody\'s": it is no rule of a model, and no reason is given',
            '"lost": nothing in client/slots leaves it out, or it is a rule of a model',
            '"ruled": nothing in client/slots leaves it out, or it is a rule of a model',
        ], found


if __name__ == "__main__":
    unittest.main()
