"""Which module of the Python package may import which: one order, so that arrows point one way.

Imports inside of functions count, too. The bindings import nothing of the package: it gives them
what they call, by `set_package_parts`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

# Each module may import those before it.
ORDER = [
    "_core",
    "errors",
    "arguments",
    "attributes",
    "caller",
    "closing",
    "asynchronous",
    "forks",
    "faults",
    "opt_outs",
    "programs",
    "stream",
    "dtypes",
    "devices",
    "layouts",
    "interfaces",
    "interface_fields",
    "host_sources",
    "cuda_sources",
    "usm_runtime",
    "usm_sources",
    "usm_exports",
    "conversions",
    "sources",
    "array",
    "waiting",
    "releasing",
    "filling",
    "recent",
    "client",
    "mem_array",
    "references",
    "testing",
    "__main__",
    "__init__",
]

FROM_BINDINGS = re.compile(r'[Ii]mport(?:_?Module)?\w*\(\s*"memlease\b')


def violations(root: Path) -> Iterator[str]:
    for path in sorted((root / "python/memlease").glob("*.py")):
        name = f"python/memlease/{path.name}"
        if path.stem not in ORDER:
            yield f"{name}: has no place in the order: give it one in python_rules.py"
            continue
        before = ORDER[: ORDER.index(path.stem)]
        for line, module in imports_of(ast.parse(path.read_text())):
            if module not in before:
                yield f"{name}:{line}: {path.stem} may not import {module}, which comes after it"
    for path in sorted((root / "python/bindings").glob("*.[ch]*")):
        for line, text in enumerate(path.read_text().splitlines(), 1):
            if FROM_BINDINGS.search(text):
                yield f"python/bindings/{path.name}:{line}: the bindings import the package"


def imports_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Find the modules of the package that a module imports, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            origin = "memlease" if node.level else node.module or ""
            names = [f"{origin}.{alias.name}" for alias in node.names]
            if origin.startswith("memlease."):
                names = [origin]
        else:
            continue
        for name in names:
            package, _, module = name.partition(".")
            if package == "memlease":
                yield node.lineno, module.partition(".")[0] or "__init__"
