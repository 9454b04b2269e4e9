"""Can each fault be planted, and are mutants programs? What they come to is for ./dev prove."""

from __future__ import annotations

import unittest

import copy_of_tree
import faults
import mutants


class Planted(unittest.TestCase):
    """The faults of planted.toml."""

    def test_each_stands_once_in_its_file(self) -> None:
        for fault in faults.planted():
            text = (copy_of_tree.ROOT / fault["file"]).read_text()
            assert text.count(fault["old"]) == 1, fault["what"]
            assert fault["old"] != fault["new"], fault["what"]
            assert fault["programs"], fault["what"]

    def test_there_are_many_and_each_has_its_words(self) -> None:
        words = [fault["what"] for fault in faults.planted()]
        assert len(set(words)) >= 40
        assert len(set(words)) == len(words)


class Mutants(unittest.TestCase):
    """The changes at random."""

    def test_a_line_becomes_others(self) -> None:
        assert mutants.of_line("  if (a == b && !c) return false;  // a < b") == [
            "  if (a != b && !c) return false;  // a < b",
            "  if (a == b || !c) return false;  // a < b",
            "  if (a == b && !c) return true;  // a < b",
            "  if (a == b && c) return false;  // a < b",
        ]
        assert mutants.of_line("  board.slots.store(x);") == [""]

    def test_texts_comments_and_types_stay(self) -> None:
        for line in (
            "// a == b",
            '  return refused("a == b");',
            "std::vector<int> of(std::span<const int> them) {",
            "  assert(a == b);",
        ):
            assert mutants.of_line(line) == [], line

    def test_each_is_another_text_of_its_file(self) -> None:
        every = mutants.every(copy_of_tree.ROOT)
        assert len(every) > 1000
        for mutant in every[:: len(every) // 20]:
            text = (copy_of_tree.ROOT / mutant.file).read_text()
            assert mutant.text(copy_of_tree.ROOT) != text, str(mutant)


if __name__ == "__main__":
    unittest.main()
