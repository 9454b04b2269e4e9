"""Which tests are not for the build that is tested (MEMLEASE_BUILD_DIR)."""

import os
from pathlib import Path


def pytest_collection_modifyitems(config, items):
    """Leave the tests of a private gRPC out where the build links the system's."""
    cache = Path(os.environ.get("MEMLEASE_BUILD_DIR", ""), "CMakeCache.txt")
    if not cache.is_file() or "\nMEMLEASE_GRPC:STRING=shared\n" not in cache.read_text():
        return
    others = [it for it in items if it.get_closest_marker("private_grpc") is not None]
    items[:] = [it for it in items if it.get_closest_marker("private_grpc") is None]
    config.hook.pytest_deselected(items=others)
