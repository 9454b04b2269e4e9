"""A bar on a terminal, a line every tenth elsewhere."""

import sys

WIDTH = 40


class Progress:
    def __init__(self, duration_s: float):
        self._duration_s = duration_s
        self._terminal = sys.stdout.isatty()
        self._tenth = -1

    def show(self, time_s: float, version: int) -> None:
        done = time_s / self._duration_s
        percent = f"{int(done * 100):3d}%"  # 100 only at the end
        minutes = int(time_s // 60)
        text = f"{minutes // 60} h {minutes % 60:02d} min  version {version:,}"
        if self._terminal:
            filled = int(done * WIDTH)
            bar = f"\r  [{'█' * filled}{'·' * (WIDTH - filled)}] {percent}  {text}"
            print(f"{bar}\033[K", end="", flush=True)
        elif int(done * 10) > self._tenth:
            self._tenth = int(done * 10)
            print(f"  {percent}  {text}", flush=True)

    def say(self, text: str) -> None:
        """Print a line of its own, above the bar."""
        print(f"\r\033[K  {text}" if self._terminal else f"        {text}", flush=True)

    def end(self) -> None:
        if self._terminal:
            print()
