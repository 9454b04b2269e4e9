"""The rules of rules.toml, and the tests that name them."""

from __future__ import annotations

import ast
import dataclasses
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"

MENTION = re.compile(r"\bR-[A-Z]+-\d+")
# "R-CAI-2, 10; R-SYNC-5: what the test shows"
_HEAD = re.compile(r"(R-[A-Z]+-\d+(?:[,;]\s(?:R-[A-Z]+-)?\d+)*):\s")
_NUMBER = re.compile(r"(?:(R-[A-Z]+)-)?(\d+)")
_CPP_TEST = re.compile(r"((?:^//.*\n)*)^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", re.M)


@dataclasses.dataclass(frozen=True)
class Rule:
    text: str
    source: list[str]
    hardware: str
    open: bool = False  # memlease does not do this yet


@dataclasses.dataclass(frozen=True)
class Test:
    file: Path
    name: str  # the function's, or GoogleTest's full name
    rules: list[str]

    @property
    def id(self) -> str:
        """As results have it, without parameters."""
        if self.file.suffix == ".py":
            return f"{self.file.relative_to(ROOT)}::{self.name}"
        return self.name


def load() -> tuple[dict[str, Rule], dict[str, str]]:
    """Return the rules by their ids, and the sources' addresses by their names."""
    tables = tomllib.loads((Path(__file__).parent / "rules.toml").read_text())
    sources = tables.pop("sources")
    return {name: Rule(**table) for name, table in tables.items()}, sources


def named_by(text: str) -> list[str]:
    """Return the rules at the beginning of a docstring or comment."""
    head = _HEAD.match(text)
    found, family = [], ""
    for written, number in _NUMBER.findall(head[1]) if head else ():
        family = written or family
        found.append(f"{family}-{number}")
    return found


def _described(file: Path) -> Iterator[tuple[str, str]]:
    """Each test's name and what its docstring or comment says."""
    code = file.read_text()
    if file.suffix == ".py":
        for node in ast.parse(code).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield node.name, ast.get_docstring(node) or ""
    else:
        for comment, suite, name in _CPP_TEST.findall(code):
            yield f"{suite}.{name}", re.sub(r"^// ?", "", comment, flags=re.M)


def files() -> list[Path]:
    """All that may hold tests."""
    return sorted(
        file for kind in ("py", "cc") for file in TESTS.rglob(f"test_*.{kind}") if file.is_file()
    )


def tests() -> list[Test]:
    """All tests that name a rule, in the order of their files."""
    found = [
        Test(file, name, named)
        for file in files()
        for name, text in _described(file)
        if (named := named_by(text))
    ]
    ours = Path(__file__).parent
    return sorted(found, key=lambda test: (test.file.parent != ours, test.file))
