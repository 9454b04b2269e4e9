"""Programs beside a test: a writer that publishes on demand, memleasectl while it goes on."""

import json
import os
import pty
import select
import subprocess
import sys
import termios
import time
from fcntl import ioctl
from struct import pack

from conftest import DEADLINE_S, clean_environment, program

# Publishes as many versions as each line says, and answers with the last one's number.
PUBLISHER = """
import sys, memlease
client = memlease.connect(sys.argv[1], start=False)
field = client.create(sys.argv[2], shape=1000, dtype="f8")
print(0, flush=True)
for line in sys.stdin:
    for _ in range(int(line)):
        version = field.put(0)
    print(version, flush=True)
"""


class Publisher:
    def __init__(self, daemon, name):
        self.process = subprocess.Popen(
            [sys.executable, "-c", PUBLISHER, daemon.directory, name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=clean_environment(),
        )  # fmt: skip
        self.pid = self.process.pid
        assert self.process.stdout.readline() == "0\n"

    def publish(self, count=1):
        print(count, file=self.process.stdin, flush=True)
        return int(self.process.stdout.readline())

    def end(self):
        self.process.kill()
        self.process.communicate(timeout=DEADLINE_S)


class Running:
    """A memleasectl that goes on, and what it writes."""

    def __init__(self, daemon, *args):
        self.process = subprocess.Popen(
            [program("memleasectl"), "--directory", daemon.directory, *map(str, args)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment(),
        )  # fmt: skip

    def line(self):
        return self.process.stdout.readline()

    def object(self):
        return json.loads(self.line())

    def end(self):
        """Return its exit code, what it still had to say, and its errors."""
        try:
            out, err = self.process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return self.process.returncode, out, err


class Terminal:
    """A memleasectl on a terminal of its own."""

    def __init__(self, daemon, *args, rows=24, columns=80):
        self.fd, theirs = pty.openpty()
        self.resize(rows, columns)
        self.modes = termios.tcgetattr(self.fd)
        self.written = ""
        self.process = subprocess.Popen(
            [program("memleasectl"), "--directory", daemon.directory, *map(str, args)],
            stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, text=True,
            env=clean_environment(), start_new_session=True,
            preexec_fn=lambda: ioctl(theirs, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(theirs)

    def resize(self, rows, columns):
        ioctl(self.fd, termios.TIOCSWINSZ, pack("HHHH", rows, columns, 0, 0))

    def press(self, keys):
        os.write(self.fd, keys.encode())

    def frames(self):
        """Return the screens that have been drawn in full, each as its lines."""
        drawn = self.written.split("\x1b[H")[1:]
        whole = [frame.partition("\x1b[J")[0] for frame in drawn if "\x1b[J" in frame]
        return [
            # A terminal makes "\r\r\n" of "\r\n".
            [line.rstrip("\r").removeprefix("\x1b[K") for line in frame.split("\n")]
            for frame in whole
        ]

    def until(self, condition, what):
        """Read until that is true of the last screen; return it."""
        end = time.monotonic() + DEADLINE_S
        seen = len(self.frames())
        while True:
            for frame in self.frames()[seen:]:
                if condition(frame):
                    return frame
            assert time.monotonic() < end, f"not within {DEADLINE_S} s: {what}\n{self.written}"
            self.read(end - time.monotonic())

    def read(self, timeout_s):
        ready, _, _ = select.select([self.fd], [], [], timeout_s)
        if not ready:
            return False
        try:
            text = os.read(self.fd, 65536).decode()
        except OSError:  # how Linux says that the other end is closed
            return False
        self.written += text
        return bool(text)

    def end(self):
        """Wait for its end; return the exit code."""
        while self.read(DEADLINE_S):
            pass
        return self.process.wait(DEADLINE_S)

    def close(self):
        self.process.kill()
        self.process.communicate(timeout=DEADLINE_S)
        os.close(self.fd)
