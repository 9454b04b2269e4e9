"""The report of a run: report.json and report.md, both rewritten after each part."""

from __future__ import annotations

import collections
import datetime
import json
import time
from pathlib import Path
from typing import Any


class Report:
    """All that a run has found out until now."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.facts: dict[str, Any] = {}
        self.answers: dict[str, Any] = {}
        self.results: dict[str, str] = {}
        self.why: dict[str, str] = {}  # a result that is not "passed"
        self.figures: dict[str, Any] = {}
        self.parts: dict[str, dict[str, Any]] = {}
        self._start = time.monotonic()
        self.write()

    def note(self, test: str, result: str, why: str = "") -> None:
        """Keep a test's result; a failure after a success counts."""
        if self.results.get(test) != "failed":
            self.results[test] = result
        if why:
            self.why[test] = why

    def write(self) -> None:
        """Write both files."""
        data = {
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "gpu": "unknown",
            "driver": "unknown",
            "cuda": "unknown",
            **self.facts,
            "seconds": round(time.monotonic() - self._start, 1),
            "parts": self.parts,
            "answers": self.answers,
            "results": self.results,
            "why": self.why,
            "figures": self.figures,
        }
        for name, text in (
            ("report.json", json.dumps(data, indent=2) + "\n"),
            ("report.md", self._page(data)),
        ):
            new = self.folder / f".{name}"
            new.write_text(text)
            new.replace(self.folder / name)  # never half a report

    def _page(self, data: dict[str, Any]) -> str:
        lines = [f"# memlease on {data['gpu']}, {data['date']}", ""]
        lines += _table(("fact", "value"), _flat(self.facts))
        lines += ["## Parts", ""]
        rows = [(name, it["state"], it.get("seconds", "")) for name, it in self.parts.items()]
        lines += _table(("part", "state", "s"), rows)
        lines += [f"{name}: {it['why']}\n" for name, it in self.parts.items() if it.get("why")]
        lines += ["## Answers", "", *_table(("question", "answer"), _flat(self.answers))]
        lines += ["## Figures", "", *_table(("figure", "value"), _flat(self.figures))]
        counts = collections.Counter(self.results.values())
        told = ", ".join(f"{count} {result}" for result, count in sorted(counts.items()))
        lines += ["## Tests", "", told, ""]
        reasons = collections.Counter(
            self.why.get(test, "") for test, it in self.results.items() if it == "skipped"
        )
        lines += [f"- {count} skipped ({why})" for why, count in reasons.most_common()]
        for test, result in self.results.items():
            if result == "failed":
                lines += ["", f"### failed: {test}", "", "```", self.why.get(test, ""), "```"]
        return "\n".join(lines) + "\n"


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
