"""The table of docs/containers.md: made by trying every cell.

python tests/integration/namespaces/matrix.py           # tries all and writes the table
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from cells import SIDES, WORKS, Cell, Found, all_cells, try_cell
from spaces import NAMES

PAGE = Path(__file__).parents[3] / "docs/containers.md"
BEGIN = "<!-- Written by tests/integration/namespaces/matrix.py. -->\n"
END = "<!-- End of the table. -->\n"
TITLES = {
    "clients": "clients in their own",
    "daemon": "daemon in its own",
    "each": "each in its own",
}


def text_of(found: Found) -> str:
    """Return a cell of the table."""
    if found == Found(WORKS, WORKS, WORKS):
        return "host, GPU"
    if found == Found(WORKS, WORKS, "Unsupported"):
        return "host, GPU by driver"
    if found == Found(WORKS, "Unsupported", "Unsupported"):
        return "host"
    return f"host {found.host}, GPU {found.gpu} or {found.strict_gpu}"


def name_of(private: frozenset[str]) -> str:
    return ", ".join(name for name in NAMES if name in private) or "none"


def table_of(texts: Mapping[Cell, str]) -> str:
    rows = [["private namespaces", *(TITLES[side] for side in SIDES)], ["---"] * (1 + len(SIDES))]
    for private, cells in itertools.groupby(all_cells(), lambda cell: cell.private):
        rows.append([name_of(private), *(texts[cell] for cell in cells)])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def written() -> dict[Cell, str]:
    """Return what the page says."""
    table = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    rows = [re.split(r" *\| *", line.strip("| \n")) for line in table.splitlines()[2:]]
    return {
        Cell(side, frozenset(private.split(", ")) - {"none"}): text
        for private, *texts in rows
        for side, text in zip(SIDES, texts, strict=True)
    }


def write(table: str) -> None:
    before, _, rest = PAGE.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(before + BEGIN + table + END + after)


def try_all(threads: int = 4) -> dict[Cell, Future[Found]]:
    """Start on all; each cell has its result once it is there."""
    pool = ThreadPoolExecutor(threads)
    tried = {cell: pool.submit(try_cell, cell) for cell in all_cells()}
    pool.shutdown(wait=False)
    return tried


if __name__ == "__main__":
    write(table_of({cell: text_of(future.result()) for cell, future in try_all().items()}))
