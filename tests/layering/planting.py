"""A tree of files of a test's own."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path


@contextlib.contextmanager
def planted(texts: Mapping[str, str]) -> Iterator[Path]:
    """Write each file's text, by its path from the root; gives the root, and removes it."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, text in texts.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        yield root
