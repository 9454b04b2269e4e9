"""``python -m memlease``: ``show-config``, ``prefix``, or any command of memleasectl."""

import sys

from memlease import programs

if sys.argv[1:] == ["show-config"]:
    programs.show_config()
elif sys.argv[1:] == ["prefix"]:
    print(programs.prefix())
else:
    programs.memleasectl()
