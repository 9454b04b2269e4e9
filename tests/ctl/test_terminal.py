"""What memleasectl writes to a terminal."""

import os
import pty
import subprocess

from conftest import clean_environment, program


def on_terminal(daemon, *args, **env):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [program("memleasectl"), "--directory", daemon.directory, *args],
        stdout=theirs, env=clean_environment(**env),
    )  # fmt: skip
    os.close(theirs)
    text = b""
    while True:
        try:
            chunk = os.read(ours, 65536)
        except OSError:  # how Linux says that the other end is closed
            break
        if not chunk:
            break
        text += chunk
    os.close(ours)
    assert process.wait() == 0
    return text.decode().replace("\r\n", "\n")


def test_sizes_and_ages_are_rounded(daemon, client):
    text = on_terminal(daemon, "ls")
    assert " s ago" in text
    assert "iB" in text or " B" in text


def test_colors_unless_told_otherwise(daemon):
    assert "\x1b[1m" in on_terminal(daemon, "ls")
    assert "\x1b" not in on_terminal(daemon, "ls", "--no-color")
    assert "\x1b" not in on_terminal(daemon, "ls", NO_COLOR="1")


def test_json_is_the_same_everywhere(daemon, client):
    assert on_terminal(daemon, "ls", "--json") == daemon.ctl("ls", "--json").stdout
