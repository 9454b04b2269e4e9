"""`memleasectl watch`: each version of an array, as it comes."""

import json
import signal

import pytest
from conftest import until
from running import Publisher, Running


@pytest.fixture
def publisher(daemon):
    publisher = Publisher(daemon, "sim/u")
    yield publisher
    publisher.end()


def watchers(daemon):
    """Count who reads sim/u."""
    return daemon.json("info", "sim/u")["subscribers"]


@pytest.fixture
def watch(daemon, publisher):
    """Watch sim/u, of which two versions have been published, and see the second."""
    assert publisher.publish(2) == 2
    running = Running(daemon, "watch", "sim/u", "--json")
    first = running.object()
    assert first["version"] == 2
    assert first["unix_ms"] is None, "since when it stands there nobody knows"
    assert first["writer_pid"] == publisher.pid
    yield running
    running.process.kill()
    running.end()


def test_each_version_is_a_line(watch, publisher):
    for version in (3, 4, 5):
        assert publisher.publish() == version
        seen = watch.object()
        assert seen["version"] == version
        assert seen["skipped"] == 0
        assert seen["writer_pid"] == publisher.pid
        assert seen["after_s"] > 0
        if version == 3:
            assert seen["rate_per_s"] is None, "how long the one before stood there nobody knows"
        else:
            assert seen["rate_per_s"] > 0
        assert seen["unix_ms"] > 0


def test_what_comes_too_fast_is_counted(watch, publisher):
    last = publisher.publish(5000)
    seen = watch.object()
    versions = 1 + seen["skipped"]
    while seen["version"] < last:
        seen = watch.object()
        versions += 1 + seen["skipped"]
    assert versions == 5000


def test_it_ends_with_the_array(daemon, watch):
    daemon.ctl("withdraw", "sim/u")
    code, out, err = watch.end()
    assert (code, json.loads(out), err) == (0, {"withdrawn": "sim/u"}, "")


def test_the_end_is_said_on_a_terminal_too(daemon, publisher):
    running = Running(daemon, "watch", "sim/u")
    publisher.publish()
    assert running.line().split()[0] == "VERSION"
    assert running.line().split()[0] == "1"
    daemon.ctl("withdraw", "sim/u")
    code, out, err = running.end()
    assert (code, out) == (0, "")
    assert "'sim/u' has been withdrawn" in err


def test_titles_stand_over_their_numbers(daemon, publisher):
    running = Running(daemon, "watch", "sim/u")
    publisher.publish()
    titles, first = running.line(), running.line()
    publisher.publish()
    second = running.line()
    running.process.kill()
    running.end()
    for title in ("VERSION", "AFTER", "SKIPPED", "RATE", "WRITER"):
        end = titles.index(title) + len(title)
        assert " " not in (first[end - 1], second[end - 1]), titles + first + second
        assert (first[end], second[end]) == (" ", " "), titles + first + second


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_leaves_as_a_reader_should_when_it_is_interrupted(daemon, watch, number):
    assert watchers(daemon) == 1
    watch.process.send_signal(number)
    assert watch.end() == (0, "", "")
    assert watchers(daemon) == 0
    assert "died" not in {event["event"] for event in daemon.json("events")["events"]}


def test_it_ends_when_nobody_reads_it(daemon, watch, publisher):
    watch.process.stdout.close()
    watch.process.stdout = None

    def has_ended():
        publisher.publish()
        return watch.process.poll() is not None

    until(has_ended, "it notices that its pipe is closed")
    assert watch.process.stderr.read() == ""
    assert watch.process.returncode == -signal.SIGPIPE


def test_it_holds_nothing(daemon, watch, publisher):
    publisher.publish()
    assert watch.object()["version"] == 3
    mine = [h for h in daemon.json("holders", "sim/u")["holders"] if h["pid"] == watch.process.pid]
    assert [h["versions"] for h in mine] == [[]]


def test_what_there_is_not_is_an_error(daemon):
    assert daemon.ctl("watch", "none").returncode == 3
    assert daemon.ctl("watch", "a//b").returncode == 2


def test_a_daemon_that_dies_is_an_error(daemon, watch):
    daemon.signal(signal.SIGKILL)
    code, _, err = watch.end()
    assert code == 4
    assert json.loads(err)["error"]["name"] == "DaemonLost"
