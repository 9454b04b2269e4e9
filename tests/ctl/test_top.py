"""`memleasectl top`: on terminals of all sizes, and without one."""

import os
import re
import signal
import termios
import time

import pytest
from conftest import until
from running import Publisher, Terminal

ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"


@pytest.fixture
def publisher(daemon):
    publisher = Publisher(daemon, "sim/density")
    yield publisher
    publisher.end()


@pytest.fixture
def terminal(daemon, publisher):
    """Start `top` on a terminal; wait for its first screen."""
    opened = []

    def start(*args, **size):
        opened.append(Terminal(daemon, "top", "--interval", 0.1, *args, **size))
        opened[-1].until(lambda frame: any("sim/" in line for line in frame), "its first screen")
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def test_once_has_the_rates_of_arrays_sessions_and_devices(daemon, publisher):
    top = daemon.json("top", "--interval", 0.1)
    (array,) = top["arrays"]
    assert array.pop("bytes") >= 3 * 8000
    assert array == {
        "name": "sim/density", "versions_per_s": 0, "bytes_per_s": 0, "version": 0,
        "open_sessions": 1, "writer_session": None, "writer_pid": None, "device": "host",
    }  # fmt: skip
    publisher.publish(5)
    (array,) = daemon.json("top", "--interval", 0.1)["arrays"]
    assert (array["version"], array["writer_pid"]) == (5, publisher.pid)
    (session,) = top["sessions"]
    assert (session["pid"], session["arrays_open"]) == (publisher.pid, 1)
    (device,) = top["devices"]
    assert (device["device"], device["arrays"]) == ("host", 1)
    assert (top["total_arrays"], top["total_sessions"]) == (1, 1)


def test_a_rate_is_what_was_published_in_the_time(terminal, publisher):
    top = terminal("--sort", "version")
    publisher.publish(500)
    top.until(lambda f: any("sim/" in line and " 0/s" not in line for line in f), "a rate")
    top.until(lambda f: any("sim/" in line and " 0/s" in line for line in f), "none any more")


def test_without_a_terminal_it_answers_once(daemon, publisher):
    text = daemon.ctl("top", "--interval", "0.1").stdout
    assert "\x1b" not in text
    assert "sim/density" in text
    assert {"DEVICE", "SESSION", "ARRAY"} <= {line.split()[0] for line in text.splitlines() if line}


def test_the_terminal_is_as_before_when_it_ends(terminal):
    top = terminal()
    top.press("q")
    assert top.end() == 0
    assert top.written.startswith(ENTER)
    assert top.written.endswith(LEAVE)
    assert "\x1b[?25h" in top.written.rpartition("\x1b[J")[2], "the cursor is there again"
    assert termios.tcgetattr(top.fd) == top.modes


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_nor_does_a_signal_leave_it_otherwise(terminal, number):
    top = terminal()
    top.process.send_signal(number)
    assert top.end() == 0
    assert top.written.endswith(LEAVE)
    assert termios.tcgetattr(top.fd) == top.modes


def test_ctrl_c_ends_it(terminal):
    top = terminal()
    top.press("\x03")
    assert top.end() == 0
    assert top.written.endswith(LEAVE)


def test_nor_does_the_end_of_the_daemon(terminal, daemon):
    top = terminal()
    daemon.signal(signal.SIGKILL)
    assert top.end() == 4
    assert top.written.endswith(LEAVE)
    assert "[ML" in top.process.stderr.read()


def test_while_it_is_stopped_the_terminal_is_the_shells(terminal):
    top = terminal()
    top.press("\x1a")  # Ctrl-Z
    until(lambda: top.read(0.1) is False and top.written.endswith(LEAVE), "it has left the screen")
    assert termios.tcgetattr(top.fd) == top.modes
    os.kill(top.process.pid, signal.SIGCONT)
    top.until(lambda frame: any("sim/" in line for line in frame), "it is back")
    assert top.written.count(ENTER) == 2
    top.press("q")
    assert top.end() == 0


@pytest.mark.parametrize(("rows", "columns"), [(24, 80), (10, 20), (3, 20), (1, 1), (50, 200)])
def test_it_fits_into_the_terminal(terminal, daemon, rows, columns):
    top = Terminal(daemon, "top", "--interval", 0.1, rows=rows, columns=columns)
    frame = top.until(lambda frame: True, "a screen")
    assert len(frame) <= rows
    assert all(len(line.replace("\x1b[1m", "").replace("\x1b[0m", "")) <= columns for line in frame)
    if columns == 20 and rows == 10:
        assert any(line.startswith("~m/density") or "sim/density" in line for line in frame), frame
        assert any(line.endswith("/s") for line in frame), frame
    top.press("q")
    assert top.end() == 0
    top.close()


def test_it_follows_the_windows_size(terminal):
    top = terminal()
    top.until(lambda frame: len(frame) == 24, "a whole screen")
    top.resize(12, 30)
    frame = top.until(lambda frame: len(frame) == 12, "a smaller one")
    assert all(len(line.replace("\x1b[1m", "").replace("\x1b[0m", "")) <= 30 for line in frame)


def test_keys_choose_what_is_shown(terminal):
    top = terminal()
    for key, title in [("s", "SESSION"), ("d", "DEVICE"), ("a", "ARRAY")]:
        top.press(key)
        top.until(lambda frame, title=title: any(title in line for line in frame), title)


def test_what_it_cannot_sort_by_is_an_error_of_use(daemon):
    result = daemon.ctl("top", "--sort", "colour")
    assert result.returncode == 2
    assert "rate" in result.stderr


def test_a_daemon_that_does_not_answer_keeps_nobody_in_it(terminal, daemon):
    top = terminal()
    daemon.signal(signal.SIGSTOP)
    top.until(lambda frame: "does not answer" in frame[0], "it says so")
    top.press("q")
    assert top.end() == 0
    daemon.signal(signal.SIGCONT)


@pytest.mark.no_asan  # about time
def test_nobody_waits_for_a_daemon_that_hangs_to_leave(terminal, daemon):
    def seconds_to_leave():
        top = terminal()
        daemon.signal(signal.SIGSTOP)
        top.until(lambda frame: "does not answer" in frame[0], "it says so")
        time.sleep(0.3)  # longer than its interval: it asks again, and waits for two seconds
        begin = time.monotonic()
        top.press("q")
        assert top.end() == 0
        took = time.monotonic() - begin
        daemon.signal(signal.SIGCONT)
        return took

    assert min(seconds_to_leave() for _ in range(3)) < 0.5


def test_the_last_line_of_a_usual_terminal_is_whole(terminal):
    frame = terminal().until(lambda frame: len(frame) == 24, "a whole screen")
    assert frame[-2:] == [
        "q quit  a arrays  s sessions  d devices",
        "sort: r rate  w bandwidth  b bytes  v version  o open  n name",
    ]
    wide = terminal(columns=120).until(lambda frame: len(frame) == 24, "a whole screen")
    assert wide[-1].startswith("q quit")
    assert wide[-1].endswith("n name")


def test_narrow_terminals_have_all_of_the_help(daemon):
    top = Terminal(daemon, "top", "--interval", 0.1, columns=20)
    frame = top.until(lambda frame: len(frame) == 24, "a whole screen")
    top.close()
    assert frame[-7:] == [
        "q quit  a arrays",
        "s sessions",
        "d devices",
        "sort: r rate",
        "w bandwidth  b bytes",
        "v version  o open",
        "n name",
    ]


def test_its_first_screen_has_rates(terminal, daemon, publisher):
    print(10**9, file=publisher.process.stdin, flush=True)  # goes on until it is killed
    until(lambda: daemon.json("info", "sim/density")["version"] > 0, "it publishes")
    [summary, *_] = terminal().frames()[0]
    assert re.match(r"1 array, [^,]*, 1 session, (?!0/s)", summary), summary


def test_its_summary_counts_in_english(terminal, daemon):
    frame = terminal().until(lambda frame: "array" in frame[0], "its summary")
    assert re.match(r"1 array, .*, 1 session, ", frame[0]), frame[0]
    other = Publisher(daemon, "sim/pressure")
    top = terminal()
    frame = top.until(lambda frame: frame[0].startswith("2 arrays"), "two of them")
    assert ", 2 sessions, " in frame[0]
    other.end()
