"""Makes report.md, for people, of the data of report.json."""

from __future__ import annotations

import collections
from typing import Any


def page(data: dict[str, Any], facts: dict[str, Any]) -> str:
    """Return all of it."""
    lines = [f"# memlease on {data['gpu']}, {data['date']}", ""]
    lines += [f"- {note}" for note in data["notes"]]
    lines += ["", "## Parts", ""]
    rows = [(name, it["state"], it.get("seconds", "")) for name, it in data["parts"].items()]
    lines += _table(("part", "state", "s"), rows)
    lines += [f"{name}: {it['why']}\n" for name, it in data["parts"].items() if it.get("why")]
    lines += ["## Machine", "", *_table(("fact", "value"), _flat(facts))]
    lines += ["## Answers", "", *_table(("question", "answer"), _flat(data["answers"]))]
    lines += ["## Figures", "", *_table(("figure", "value"), _flat(data["figures"]))]
    return "\n".join([*lines, *_tests(data["results"], data["why"])]) + "\n"


def _tests(results: dict[str, str], why: dict[str, str]) -> list[str]:
    counts = collections.Counter(results.values())
    told = ", ".join(f"{count} {result}" for result, count in sorted(counts.items()))
    lines = ["## Tests", "", told, ""]
    rows = [(name, results[name], why[name]) for name in why if results[name] == "passed"]
    lines += _table(("passed", "result", "found"), rows) if rows else []
    reasons = collections.Counter(
        why.get(test, "") for test, it in results.items() if it == "skipped"
    )
    lines += [f"- {count} skipped ({why})" for why, count in reasons.most_common()]
    for test, result in results.items():
        if result == "failed":
            lines += ["", f"### failed: {test}", "", "```", why.get(test, ""), "```"]
    return lines


def _flat(data: dict[str, Any], before: str = "") -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for key, value in data.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{before}{key}: ")
        else:
            rows.append((before + key, value))
    return rows


def _table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for row in rows:
        cells = [str(cell).replace("|", "\\|").replace("\n", " ") for cell in row]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]
