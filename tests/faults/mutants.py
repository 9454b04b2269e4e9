"""Small changes of a program, each of which a test should find."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

_FILES = ("wire/*.cc", "server/core/*.cc", "client/slots/*.cc")
# What stands in the place of what. With spaces around, as the formatter leaves operators.
_EXCHANGES = (
    (r"(?<= )==(?= )", "!="),
    (r"(?<= )!=(?= )", "=="),
    (r"(?<= )<=(?= )", "<"),
    (r"(?<= )>=(?= )", ">"),
    (r"(?<= )<(?= )", "<="),
    (r"(?<= )>(?= )", ">="),
    (r"(?<= )&&(?= )", "||"),
    (r"(?<= )\|\|(?= )", "&&"),
    (r"(?<=[\w)] )\+(?= )", "-"),
    (r"(?<=[\w)] )-(?= )", "+"),
    (r"\btrue\b", "false"),
    (r"\bfalse\b", "true"),
    (r"\bcontinue;", "break;"),
    (r"(?<=[ (])!(?=[\w(])", ""),
    (r"(?<=[ (,])0(?=[;,)])", "1"),
    (r"(?<=[ (,])1(?=[;,)])", "2"),
)
# A statement that is left out: a call, or an assignment.
_STATEMENT = re.compile(
    r"^ +(?!return|assert|static_assert|delete|using|case|default|throw|std::move)"
    r"[\w.>()\[\]*-]+(\(.*\)| [-+|]?= .*);$"
)
_NOT_CODE = re.compile(
    r"^\s*(//|#|assert|static_assert|constexpr|namespace|crash_point|using)|leaves_out|fmt::format"
)


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One change of a line."""

    file: str
    line: int  # from 1
    old: str
    new: str

    def text(self, root: Path) -> str:
        """Return the file's text with it."""
        lines = (root / self.file).read_text().splitlines(keepends=True)
        lines[self.line - 1] = self.new + "\n"
        return "".join(lines)

    def __str__(self) -> str:
        """Name it: where, and what becomes of what."""
        return f"{self.file}:{self.line}: {self.old.strip()}  =>  {self.new.strip() or '(nothing)'}"


def of_line(line: str) -> list[str]:
    """Return what may become of a line of code. Texts and comments stay."""
    if _NOT_CODE.search(line):
        return []
    code = line.split("//")[0]
    quotes = [(it.start(), it.end()) for it in re.finditer(r'"(\\.|[^"\\])*"', code)]
    made = []
    for pattern, other in _EXCHANGES:
        for it in re.finditer(pattern, code):
            if not any(start <= it.start() < end for start, end in quotes):
                made.append(line[: it.start()] + other + line[it.end() :])
    if _STATEMENT.match(line):
        made.append("")
    return made


def every(root: Path) -> list[Mutant]:
    """Return all mutants of the files, in their order."""
    found = []
    for pattern in _FILES:
        for path in sorted(root.glob(pattern)):
            name = str(path.relative_to(root))
            for number, line in enumerate(path.read_text().splitlines(), 1):
                found += [Mutant(name, number, line, new) for new in of_line(line)]
    return found
