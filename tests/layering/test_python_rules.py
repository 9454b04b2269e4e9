"""The Python package keeps its order, and the checker sees each way to break it."""

from __future__ import annotations

import unittest
from pathlib import Path

import python_rules
from planting import planted

ROOT = Path(__file__).resolve().parents[2]

# file -> its text, and a part of what must be said about it
PLANTED = {
    "python/memlease/errors.py": (
        "from memlease import _core\nfrom memlease.array import Array\n",
        ":2: ",
    ),
    "python/memlease/array.py": ("def f():\n    from memlease.client import connect\n", ":2: "),
    "python/memlease/dtypes.py": ("from memlease import layouts\n", "may not import layouts"),
    "python/memlease/layouts.py": ("from . import sources\n", "may not import sources"),
    "python/memlease/stream.py": ("import memlease.client\n", "may not import client"),
    "python/memlease/client.py": ("import memlease\n", "may not import __init__"),
    "python/memlease/helpers.py": ("", "has no place in the order"),
    "python/bindings/a.cc": ('py::module_::import("memlease.errors");\n', "import the package"),
    "python/bindings/b.h": ('PyImport_ImportModule("memlease");\n', "import the package"),
}
INNOCENT = {
    "python/memlease/sources.py": "import os\nfrom memlease import _core, dtypes\n",
    "python/bindings/good.cc": 'py::module_::import("numpy");\n',
}


class PythonRules(unittest.TestCase):
    def test_the_package_keeps_them(self) -> None:
        found = list(python_rules.violations(ROOT))
        assert found == [], "\n" + "\n".join(found)

    def test_the_package_was_looked_at(self) -> None:
        there = {path.stem for path in (ROOT / "python/memlease").glob("*.py")}
        assert there == set(python_rules.ORDER) - {"_core"}

    def test_each_planted_violation_is_found(self) -> None:
        texts = {name: text for name, (text, _) in PLANTED.items()} | INNOCENT
        with planted(texts) as root:
            found = dict.fromkeys(PLANTED, "nothing")
            for violation in python_rules.violations(root):
                name = violation.partition(":")[0]
                assert name in PLANTED, f"the innocent are accused: {violation}"
                found[name] = violation
        for name, (_, expected) in PLANTED.items():
            with self.subTest(name):
                assert expected in found[name]


if __name__ == "__main__":
    unittest.main()
