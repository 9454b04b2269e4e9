"""Whether a C++ test names each step that the code lets tests leave out (wire/hooks/test_hooks.h).

The test that names a step leaves it out, and must fail to keep its promise then: a step that no
test names could go unseen. A play of tests/client/slots that leaves one out by itself counts like
the code.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

CODE = ("client", "server", "wire", "cuda", "python/bindings")
TESTS = ("tests",)

CALL = re.compile(r"\bleaves_out\(([^()]*)\)")
TEXT = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
# How the tests of several processes tell one of them.
COMMAND = "leave_out "


@dataclasses.dataclass(frozen=True)
class Step:
    file: str
    line: int
    name: str


def steps(root: Path) -> Iterator[Step]:
    """Each place at which a step can be left out; a call may choose between two."""
    for file, text in _sources(root, CODE + TESTS):
        for call in CALL.finditer(text):
            line = text.count("\n", 0, call.start()) + 1
            for name in TEXT.findall(call[1]):
                yield Step(file, line, name)


def named(root: Path) -> set[str]:
    """Return what the tests say, apart from the steps that they can leave out themselves."""
    said: set[str] = set()
    for _, text in _sources(root, TESTS):
        for literal in TEXT.findall(CALL.sub("", text)):
            said.add(literal.removeprefix(COMMAND))
    return said


def violations(root: Path) -> Iterator[str]:
    said = named(root)
    for step in steps(root):
        if step.name not in said:
            yield f'{step.file}:{step.line}: no test leaves out "{step.name}"'


def _sources(root: Path, folders: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in {".h", ".cc"}:
                lines = (line.partition("//")[0] for line in path.read_text().splitlines())
                yield path.relative_to(root).as_posix(), "\n".join(lines)
