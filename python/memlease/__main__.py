"""``python -m memlease``: ``show-config``, or any command of memleasectl, as ``doctor``."""

import os
import sys

from memlease.programs import control, show_config


def main(arguments: list[str]) -> None:
    """Run one command."""
    if arguments == ["show-config"]:
        show_config()
        return
    program = control()
    os.execv(program, [program, *arguments])


main(sys.argv[1:])
