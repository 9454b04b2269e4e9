"""``python -m memlease``: ``show-config``, or any command of memleasectl, as ``doctor``."""

import sys

from memlease import programs

if sys.argv[1:] == ["show-config"]:
    programs.show_config()
else:
    programs.memleasectl()
