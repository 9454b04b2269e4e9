"""The parts of a run, in their order. Each has a share of the time and ends in the report."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence

import cpp_tests
import demo
import limited
import prepare
import python_tests
import scripts
from report import tell
from run_state import Run

_ONE_CHECK_S = 40  # of questions and figures
_ONE_JOURNEY_S = 90


class UnfitError(RuntimeError):
    """Nothing that follows would tell anything."""


@dataclasses.dataclass(frozen=True)
class Part:
    """One part.

    Attributes
    ----------
    what
        Does it within a number of seconds; whatever it raises is in the report.
    budget_s
        Its share, as seconds of a run of 570. It may use what earlier parts have left.
    """

    name: str
    what: Callable[[Run, float], None]
    budget_s: float


def _cuda_works(run: Run, limit_s: float) -> bool:
    return scripts.ask(run, "smoke.py", limit_s, limit_s / 2) or bool(run.stopped)


def _smoke(run: Run, limit_s: float) -> None:
    """Ask whether CUDA works; where the prebuilt kernels do not, build them here and ask again."""
    end = time.monotonic() + limit_s
    if _cuda_works(run, limit_s):
        return
    results = run.report.results
    if results.get("smoke::kernel") == "failed" and not run.stand_in:
        run.report.say(f"the test kernels do not run: {run.report.why['smoke::kernel']}")
        if prepare.rebuild_kernels(run, end - time.monotonic()):
            run.report.forget("smoke")
            if _cuda_works(run, end - time.monotonic()):
                return
    failed = [it for it in results if it.startswith("smoke::") and results[it] == "failed"]
    raise UnfitError("; ".join(f"{it}: {run.report.why[it]}" for it in failed))


def _answers(run: Run, limit_s: float) -> None:
    scripts.ask(run, "probes.py", limit_s, _ONE_CHECK_S)


def _journey(run: Run, limit_s: float) -> None:
    scripts.ask(run, "journey.py", limit_s, _ONE_JOURNEY_S)


def _figures(run: Run, limit_s: float) -> None:
    scripts.ask(run, "figures.py", limit_s, _ONE_CHECK_S)


PARTS = (
    Part("smoke", _smoke, 40),
    Part("answers", _answers, 80),
    Part("journey", _journey, 120),
    Part("figures", _figures, 50),
    Part("cpp", cpp_tests.run_all, 130),
    Part("python", python_tests.run_all, 130),
    Part("demo", demo.run, 50),
)


def selected(only: Sequence[str], first: str | None) -> tuple[Part, ...]:
    """Return the parts that are asked for, in their order."""
    names = [it.name for it in PARTS]
    start = names.index(first) if first else 0
    return tuple(it for it in PARTS[start:] if not only or it.name in only)


def go(run: Run, parts: Sequence[Part]) -> None:
    """Run them. A part that fails does not keep the next from running; an UnfitError does."""
    unfit = ""
    for nth, part in enumerate(parts):
        share = part.budget_s / sum(it.budget_s for it in parts[nth:])
        if run.stopped or unfit:
            why = unfit or f"the run was ended by {run.stopped}"
            run.report.parts[part.name] = {"state": "not run", "why": why}
        else:
            unfit = _go(run, part, share * (run.end - time.monotonic()))
    run.report.write()


def _go(run: Run, part: Part, limit_s: float) -> str:
    """Run one; return why those that follow make no sense, if so."""
    start = time.monotonic()
    note = run.report.parts[part.name] = {"state": "running"}
    run.report.write()
    unfit = ""
    if limit_s < 1:
        note["state"] = "no time left"
    else:
        try:
            part.what(run, limit_s)
            note["state"] = "done"
        except Exception as error:
            note.update(state="failed", why=f"{error}" or repr(error))
            unfit = f"{part.name} has failed" if isinstance(error, UnfitError) else ""
        if run.stopped:  # and that is why
            note.clear()
            note["state"] = f"ended by {run.stopped}"
        note["seconds"] = round(time.monotonic() - start, 1)
    run.report.write()
    tell(f"{part.name}: {note['state']}, {note.get('seconds', 0)} s")
    return unfit


def stop(run: Run, signal_name: str) -> None:
    """End a run, from a signal handler: all its commands, and then its parts."""
    if not run.stopped:
        run.stopped = signal_name
        limited.stop()
