"""A service manager for one test: starts the daemon as systemd does, and hears what it says."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from conftest import DEADLINE_S, clean_environment, ctl, program

# Passed sockets are descriptors 3 and up, and only the process itself knows its pid before exec.
ACTIVATOR = """
import fcntl, os, sys
count = int(sys.argv[1])
aside = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 100) for fd in sys.argv[2:2 + count]]
for number, fd in enumerate(aside):
    os.dup2(fd, 3 + number)
os.closerange(3 + count, 200)
os.environ["LISTEN_PID"] = str(os.getpid())
os.execv(sys.argv[2 + count], sys.argv[2 + count:])
"""


class Service:
    """A daemon that a service manager has started; `folder` is empty and this test's own."""

    def __init__(self, folder, *options, sockets=(), **environment):
        self.directory = folder / "run"
        self.log_path = folder / "log"
        self._notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        address = folder / "notify"
        address.unlink(missing_ok=True)
        self._notices.bind(str(address))
        self.heard = []
        environment = {"NOTIFY_SOCKET": str(address)} | environment
        command = [program("memleased"), "--directory", str(self.directory), *options]
        fds = [s.fileno() for s in sockets]
        if sockets:
            command = [sys.executable, "-c", ACTIVATOR, str(len(fds)), *map(str, fds), *command]
            environment = {"LISTEN_FDS": str(len(fds))} | environment
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=fds,
                env=clean_environment(**environment),
            )  # fmt: skip

    def log(self):
        return self.log_path.read_text()

    def hear(self, wanted, deadline_s=DEADLINE_S):
        """Return the next message with these words, and None if it does not come in time."""
        end = time.monotonic() + deadline_s
        while (left := end - time.monotonic()) > 0:
            self._notices.settimeout(left)
            try:
                message = self._notices.recv(4096).decode()
            except TimeoutError:
                break
            self.heard.append(message)
            if wanted in message:
                return message
        return None

    def must_hear(self, wanted):
        message = self.hear(wanted)
        assert message, f"not heard: {wanted}; but {self.heard}; the log:\n{self.log()}"
        return message

    def open_files(self):
        return list(Path(f"/proc/{self.process.pid}/fd").iterdir())

    def stop(self):
        """Let it do nothing more, until SIGCONT."""
        self.signal(signal.SIGSTOP)
        os.waitpid(self.process.pid, os.WUNTRACED)

    def signal(self, number):
        self.process.send_signal(number)

    def ctl(self, *args, **kwargs):
        return ctl("--directory", self.directory, *args, **kwargs)

    def wait(self):
        return self.process.wait(DEADLINE_S)

    def end(self):
        self._notices.close()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(DEADLINE_S)


def listening_sockets(directory):
    """Return attach.sock and control.sock, bound and listening, as a unit of sockets makes them."""
    directory.mkdir(mode=0o755)
    made = []
    for name, kind in (
        ("attach.sock", socket.SOCK_SEQPACKET),
        ("control.sock", socket.SOCK_STREAM),
    ):
        one = socket.socket(socket.AF_UNIX, kind)
        one.bind(str(directory / name))
        one.listen(16)
        made.append(one)
    return made


def wake_ups(pid):
    """Count how often the threads of a process have begun to wait."""
    count = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        [slept] = re.findall(r"^voluntary_ctxt_switches:\s*(\d+)", status.read_text(), re.M)
        count += int(slept)
    return count
