"""The report of a run: report.json, and report.md of it, both written after each finding."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import report_page


def parsed(line: str) -> dict[str, Any]:
    """Return the JSON object that a line of output is; an empty one if it is another line."""
    with contextlib.suppress(ValueError):
        found = json.loads(line) if line.startswith("{") else {}
        return found if isinstance(found, dict) else {}
    return {}


def tell(line: str) -> None:
    """Print it, if anybody still listens: the run goes on, and the report has it all."""
    try:
        print(line, flush=True)
    except OSError:  # a pipe's or a terminal's other end has gone
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)


_KEPT = ("facts", "notes", "answers", "results", "why", "figures", "parts")


class Report:
    """All that a run has found out until now. Threads may tell it things at once.

    With `goes_on` it keeps what an earlier run has left in the folder.
    """

    def __init__(self, folder: Path, goes_on: bool = False) -> None:
        self.facts: dict[str, Any] = {}
        self.notes: list[str] = []  # what is missing here, or went another way than planned
        self.answers: dict[str, Any] = {}
        self.results: dict[str, str] = {}
        self.why: dict[str, str] = {}
        self.figures: dict[str, Any] = {}
        self.parts: dict[str, dict[str, Any]] = {}
        self._noted: set[str] = set()
        self._lock = threading.RLock()
        self.date = datetime.datetime.now(datetime.UTC).date().isoformat()
        self._start = time.monotonic()
        self.folder = self._made(folder)
        if goes_on:
            self._load()
        self.write()

    def _made(self, folder: Path) -> Path:
        """Make the folder; where it cannot be written to, another one, and say so."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return folder
        except OSError as error:
            made = Path(tempfile.mkdtemp(prefix="memlease-report-"))
            self.say(f"the report is in {made}, as {folder} cannot be written to: {error}")
            return made

    def _load(self) -> None:
        try:
            data = json.loads((self.folder / "report.json").read_text())
            kept = {name: {**data.get(name, {})} for name in set(_KEPT) - {"facts", "notes"}}
            report_page.page({**data, **kept, "notes": []}, {})
        except FileNotFoundError:
            return
        except Exception as error:  # whatever else may be in such a file
            self.say(f"report.json in {self.folder} is replaced, as it is no report: {error!r}")
            return
        for name, found in kept.items():
            setattr(self, name, found)

    def say(self, line: str) -> None:
        """Note a line about the run itself."""
        tell(line)
        if line not in self.notes:
            self.notes.append(line)

    def note(self, test: str, result: str, why: str = "") -> None:
        """Keep a test's result; in one run a failure after a success counts."""
        with self._lock:
            if test in self._noted and self.results[test] == "failed":
                return
            self._noted.add(test)
            self.results[test] = result
            self.why.pop(test, None)
            if why:
                self.why[test] = why
            self.write()

    def forget(self, program: str) -> None:
        """Let a program's checks count once more, as it is run again."""
        with self._lock:
            self._noted = {it for it in self._noted if not it.startswith(f"{program}::")}

    def take(self, line: str) -> bool:
        """Keep what a part's program has said; false if it is no such JSON line (say.py)."""
        said = parsed(line)
        match said:
            case {"check": str(name), "result": "passed" | "failed" | "skipped" as result}:
                self.note(name, result, str(said.get("why", "")))
                return True
            case {"answer": str(name), "is": found}:
                with self._lock:
                    self.answers[name] = found
            case {"figure": str(name), "is": found}:
                with self._lock:
                    self.figures[name] = found
            case _:
                return False
        self.write()
        return True

    def write(self) -> None:
        """Write both files."""
        with self._lock:
            data = {
                "date": self.date,
                "gpu": "unknown",
                "driver": "unknown",
                "cuda": "unknown",
                **self.facts,
                "seconds": round(time.monotonic() - self._start, 1),
                **{name: getattr(self, name) for name in _KEPT},
            }
            del data["facts"]
            for name, text in (
                ("report.json", json.dumps(data, indent=2) + "\n"),
                ("report.md", report_page.page(data, self.facts)),
            ):
                new = self.folder / f".{name}"
                new.write_text(text)
                new.replace(self.folder / name)  # never half a report
