"""What the daemon tells Prometheus, judged by Prometheus' own tool; rules and dashboard by it."""

import concurrent.futures
import contextlib
import http.client
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import time
import urllib.request
from pathlib import Path

import memlease
import pytest
from conftest import DEADLINE_S, Daemon, ctl, program_of_prometheus, until

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy/prometheus/alerts.yml"
DASHBOARD = ROOT / "deploy/prometheus/dashboard.json"


def promtool(*arguments, text=None):
    """Run Prometheus' judge, which must be content."""
    result = subprocess.run(
        [program_of_prometheus("promtool"), *arguments],
        input=text, capture_output=True, text=True, check=False, cwd=ROOT, timeout=DEADLINE_S,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    assert not result.stderr.strip(), result.stderr
    return result.stdout


SAMPLE = re.compile(r"^([a-z_:]+)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'([a-z]+)="((?:[^"\\]|\\.)*)"')


def samples(text):
    """[(name, labels, value)] of all series."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    found = [SAMPLE.match(line) for line in lines]
    assert all(found), "a line is no sample"
    return [(m[1], dict(LABEL.findall(m[2] or "")), float(m[3])) for m in found]


def value(text, name, **labels):
    """Return the one sample of this name with these labels among its own."""
    [one] = [
        v for n, has, v in samples(text) if n == name and labels.items() <= has.items()
    ]  # fmt: skip
    return one


def metrics(daemon):
    result = daemon.ctl("metrics")
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_promtool_finds_nothing_to_complain_about(daemon, client):
    promtool("check", "metrics", text=metrics(daemon))


def test_json_has_the_same_text(daemon):
    def without_process(text):
        return [line for line in text.splitlines() if not line.startswith("process_")]

    both = daemon.json("metrics")["text"], metrics(daemon)
    assert without_process(both[0]) == without_process(both[1])


def test_metrics_tell_what_a_client_does(daemon, client):
    text = metrics(daemon)
    assert value(text, "memlease_arrays", device="host", state="named") == 1
    assert value(text, "memlease_array_bytes", device="host", state="named") == 3 * 128
    assert value(text, "memlease_memory_bytes", device="host", state="used") == 3 * 256
    assert value(text, "memlease_kept_bytes") == 0
    assert value(text, "memlease_held_slots", device="host") == 1
    assert value(text, "memlease_held_bytes", device="host") == 128
    assert value(text, "memlease_sessions", state="connected") == 1
    assert value(text, "memlease_versions_total") == 2
    assert value(text, "memlease_reclaimed_arrays_total", reason="held_a_slot") == 0
    client.end()
    until(
        lambda: value(metrics(daemon), "memlease_sessions", state="connected") == 0,
        "the process is gone",
    )
    text = metrics(daemon)
    assert value(text, "memlease_held_bytes", device="host") == 0
    assert value(text, "memlease_reclaimed_arrays_total", reason="held_a_slot") == 1
    assert value(text, "memlease_versions_total") == 2, "it outlives the writer"


def test_waits_skips_and_writes_without_a_slot_are_counted(daemon):
    with memlease.connect(daemon.directory, start=False) as here:
        u = here.create("u", shape=(4,), dtype="f4", slots=2, max_slots=2)
        follower = u.follow()
        for step in range(6):
            with u.write() as w:
                w[...] = step
            if step in (0, 5):
                next(follower).release()
        with pytest.raises(memlease.Timeout):
            u.read(newer_than=6, timeout=0.02)
        with u.read() as held, u.write() as w:
            w[...] = 7
            w.publish()
            with u.read():
                assert held.version == 6
                with pytest.warns(memlease.ViewAlive):
                    assert u.try_write() is None
                with pytest.raises(memlease.NoFreeSlot):
                    u.write(0.02)
        text = metrics(daemon)
    assert value(text, "memlease_versions_skipped_total") == 4
    assert value(text, "memlease_writes_without_slot_total") == 2
    assert value(text, "memlease_wait_seconds_count", kind="version") == 1
    assert value(text, "memlease_wait_seconds_bucket", kind="version", le="0.01") == 0
    assert value(text, "memlease_wait_seconds_bucket", kind="version", le="10") == 1
    assert 0.02 <= value(text, "memlease_wait_seconds_sum", kind="version") < DEADLINE_S
    assert value(text, "memlease_wait_seconds_count", kind="slot") == 1
    after = metrics(daemon)
    assert value(after, "memlease_versions_skipped_total") == 4, "counts outlive the session"


def test_empty_writes_are_counted_and_outlive_their_writer(daemon):
    with memlease.connect(daemon.directory, start=False) as here:
        u = here.create("u", shape=(4,), dtype="f4", lifetime="persistent")
        with u.write():
            pass
        u.write().drop()
        u.put([1, 2, 3, 4])
        assert daemon.json("info", "u")["empty_writes"] == 2
        u.close()
    assert daemon.json("info", "u")["empty_writes"] == 2
    assert value(metrics(daemon), "memlease_empty_writes_total") == 2


def test_refused_calls_are_counted_by_code(daemon):
    assert daemon.ctl("withdraw", "there/is/none").returncode == 3
    with memlease.connect(daemon.directory, start=False) as here:
        for _ in range(2):
            with pytest.raises(memlease.NotFound):
                here.open("there/is/none")
    text = metrics(daemon)
    assert value(text, "memlease_call_errors_total", code="NotFound") == 3
    assert value(text, "memlease_call_errors_total", code="OutOfMemory") == 0


def test_series_do_not_grow_with_arrays(daemon):
    before = len(samples(metrics(daemon)))
    with memlease.connect(daemon.directory, start=False) as here:
        for i in range(300):
            here.create(f"many/{i}", shape=(4,), dtype="f4")
        text = metrics(daemon)
    assert value(text, "memlease_arrays", device="host", state="named") == 300
    assert len(samples(text)) == before
    # With the host and eight GPUs.
    assert before + 8 * sum("host" in labels.values() for _, labels, _ in samples(text)) <= 200


# ---- The page in docs.


def test_the_page_lists_what_there_is(daemon):
    page = (ROOT / "docs/metrics.md").read_text()
    listed = {}
    for name, labels, _ in re.findall(r"^\| `([a-z_]+)` \| (.*?) ?\| (.*) \|$", page, re.M):
        listed[name] = set(re.findall(r"`([a-z]+)`", labels))
    emitted = {}
    text = metrics(daemon)
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
    for name, labels, _ in samples(text):
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        name = base if kinds.get(base) == "histogram" else name
        emitted.setdefault(name, set()).update(set(labels) - {"le"})
    assert listed == emitted
    [counted] = re.findall(r"(\d+), and (\d+) for each device", page)
    host = sum("host" in labels.values() for _, labels, _ in samples(text))
    assert tuple(map(int, counted)) == (len(samples(text)) - host, host)


# ---- Rules and dashboard: by names and values that are emitted.

SELECTOR = re.compile(r"\b((?:memlease|process)_[a-z_]+)\b(?:\{([^}]*)\})?")
MATCHER = re.compile(r'([a-z]+)(=~|=)"([^"]*)"')


def check_expression(expression, emitted):
    """Each selector finds a series, by each of the values that it names."""
    found = SELECTOR.findall(expression)
    for name, matchers in found:
        for label, how, wanted in MATCHER.findall(matchers):
            if label in ("job", "instance"):
                continue
            for one in wanted.split("|") if how == "=~" else [wanted]:
                assert any(n == name and labels.get(label) == one for n, labels, _ in emitted), (
                    f"nobody emits {name} with {label}={one}"
                )
        assert any(n == name for n, _, _ in emitted), f"nobody emits {name}"
    return len(found)


def expressions_of_rules():
    text = RULES.read_text()
    folded = re.sub(r">-\n +", "", text)
    return re.findall(r"^ +expr: (.*(?:\n {10}\S.*)*)", folded, re.M)


def test_alerts_are_rules_that_promtool_takes():
    assert "SUCCESS" in promtool("check", "rules", str(RULES))


def test_alerts_fire_and_fall_silent():
    assert "SUCCESS" in promtool("test", "rules", "tests/ctl/alerts_test.yml")


def test_alerts_ask_for_what_is_emitted(daemon):
    emitted = samples(metrics(daemon))
    expressions = expressions_of_rules()
    assert len(expressions) == RULES.read_text().count("- alert:")
    # `up` is Prometheus' own.
    assert sum(check_expression(one, emitted) > 0 for one in expressions) == len(expressions) - 1


def test_alerts_tell_to_type_what_there_is():
    commands = set(re.findall(r"^  ([a-z]+)  ", ctl("--help").stdout, re.M))
    assert {"holders", "doctor"} <= commands
    typed = set(re.findall(r"memleasectl ([a-z]+)", RULES.read_text())) - {"cannot"}
    assert {"holders", "ls"} <= typed <= commands


def test_a_daemon_whose_directory_has_gone_is_told_of_by_its_port_and_its_log(directory):
    """And memleasectl does not find it, so the alert names other helpers."""
    log_path = directory / "log"
    with log_path.open("wb") as log:
        daemon = Daemon(directory / "run", "--metrics", "127.0.0.1:0", stderr=log)
    try:
        shutil.rmtree(daemon.directory)
        until(lambda: "is gone: nobody new can connect" in log_path.read_text(), "it sees that")
        with urllib.request.urlopen(f"http://{served(log_path)}/metrics") as answer:
            text = answer.read().decode()
        assert value(text, "memlease_degraded", mechanism="directory") > 0
        doctor = daemon.ctl("doctor", "--json")
        found = {check["name"]: check["result"] for check in json.loads(doctor.stdout)["checks"]}
        assert "failed" in (found["directory"], found.get("control_socket"))
    finally:
        daemon.end()


def test_every_alert_is_tried():
    names = set(re.findall(r"- alert: (\w+)", RULES.read_text()))
    tried = (ROOT / "tests/ctl/alerts_test.yml").read_text()
    assert set(re.findall(r'alertname="(\w+)"', tried)) == names


def test_the_dashboard_shows_what_is_emitted(daemon):
    emitted = samples(metrics(daemon))
    board = json.loads(DASHBOARD.read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    asked += [v["definition"] for v in board["templating"]["list"] if "definition" in v]
    assert len(asked) > 20
    for expression in asked:
        assert check_expression(expression, emitted) > 0, expression
    places = [tuple(panel["gridPos"].values()) for panel in board["panels"]]
    assert len(set(places)) == len(places)


def mechanisms_asked_for(expression, emitted):
    """Return which of those that are emitted."""
    there = {labels["mechanism"] for name, labels, _ in emitted if name == "memlease_degraded"}
    assert len(there) > 1
    [(_, matchers)] = SELECTOR.findall(expression)
    for label, how, wanted in MATCHER.findall(matchers):
        if label == "mechanism":
            there &= set(wanted.split("|") if how == "=~" else [wanted])
    return there


def test_the_dashboard_leaves_out_no_mechanism_that_a_daemon_does_without(daemon):
    emitted = samples(metrics(daemon))
    all_of_them = mechanisms_asked_for("memlease_degraded{}", emitted)
    [target] = [
        target
        for panel in json.loads(DASHBOARD.read_text())["panels"]
        for target in panel["targets"]
        if "memlease_degraded" in target["expr"]
    ]
    assert mechanisms_asked_for(target["expr"], emitted) == all_of_them
    assert target["expr"].startswith("sum by (mechanism) (")
    assert target["legendFormat"] == "{{mechanism}}"
    narrow = 'memlease_degraded{job="memlease",mechanism="directory"}'
    assert mechanisms_asked_for(narrow, emitted) == {"directory"}, "a control"


def test_what_nobody_emits_is_found(daemon):
    emitted = samples(metrics(daemon))
    for wrong in (
        "rate(memlease_nothing_total[5m])",
        'memlease_arrays{state="lost"}',
        'memlease_degraded{mechanism=~"directory|engine"}',
        "memlease_arrays{kind=\"slot\"}",
    ):  # fmt: skip
        with pytest.raises(AssertionError, match="nobody emits"):
            check_expression(wrong, emitted)


# ---- Served.


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a UNIX socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=DEADLINE_S)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(DEADLINE_S)
        self.sock.connect(self.path)


def get(directory, target="/metrics"):
    connection = UnixConnection(f"{directory}/metrics.sock")
    connection.request("GET", target)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, text


def served(daemon_log):
    """Return the address that the log tells."""
    found = re.search(r"metrics served.*address=(\S+)", daemon_log.read_text())
    return found and found[1]


def test_by_default_nothing_is_served(daemon):
    assert not (Path(daemon.directory) / "metrics.sock").exists()


@pytest.mark.parametrize("daemon", [("--metrics", "unix")], indirect=True)
def test_a_socket_serves_what_memleasectl_prints(daemon, client):
    status, text = get(daemon.directory)
    assert status == 200
    promtool("check", "metrics", text=text)
    assert value(text, "memlease_held_bytes", device="host") == 128
    assert get(daemon.directory, "/")[0] == 404
    mode = (Path(daemon.directory) / "metrics.sock").stat().st_mode & 0o777
    assert mode == 0o600


@pytest.mark.parametrize("daemon", [("--metrics", "unix")], indirect=True)
def test_a_scrape_that_hangs_does_no_harm(daemon):
    hanging = []
    for _ in range(30):
        one = socket.socket(socket.AF_UNIX)
        one.connect(f"{daemon.directory}/metrics.sock")
        one.sendall(b"GET /metrics HTTP/1.1\r\n")
        hanging.append(one)
    assert get(daemon.directory)[0] == 200
    with memlease.connect(daemon.directory, start=False) as here:
        here.create("u", shape=(4,), dtype="f4")
    for one in hanging:
        one.settimeout(DEADLINE_S)
        with contextlib.suppress(ConnectionResetError), one:
            assert one.recv(1) == b"", "it is let go"


def test_a_port_serves_prometheus_and_a_second_daemon_goes_on_without(start_daemon, tmp_path):
    def log_of(name, *options):
        path = tmp_path / name
        directory = tmp_path / f"run-{name}"
        with path.open("wb") as log:
            process = subprocess.Popen(
                [shutil.which("memleased", path=os.environ.get("MEMLEASE_BIN")), "--directory",
                 directory, *options],
                stdout=log, stderr=log,
            )  # fmt: skip
        until(lambda: ctl("-d", directory, "health").returncode == 0, "it answers", process)
        return path, process

    first, one = log_of("first", "--metrics", "127.0.0.1:0")
    try:
        address = served(first)
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=DEADLINE_S) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert value(answer.read().decode(), "memlease_draining") == 0
        second, other = log_of("second", "--metrics", address)
        try:
            assert "metrics are not served" in second.read_text()
            assert "Another program has the port" in second.read_text()
        finally:
            other.kill()
            other.wait(DEADLINE_S)
    finally:
        one.kill()
        one.wait(DEADLINE_S)


def test_scrapes_do_not_keep_an_idle_daemon_alive(directory, start_daemon):
    daemon = start_daemon("--idle-exit-s", "1", "--metrics", "unix")
    end = time.monotonic() + DEADLINE_S
    while daemon.process.poll() is None and time.monotonic() < end:
        try:
            get(daemon.directory)
        except (OSError, http.client.HTTPException):
            daemon.process.wait(DEADLINE_S)
    assert daemon.process.returncode == 0


def timed(call, *arguments, **options):
    """Return the seconds that a call takes, and its result."""
    begin = time.perf_counter()
    result = call(*arguments, **options)
    return time.perf_counter() - begin, result


@pytest.mark.no_asan  # about time
def test_metrics_of_many_arrays_are_quick_and_hold_up_no_create(daemon):
    """Ten thousand arrays; figures for a quiet machine are in docs/performance.md."""
    with memlease.connect(daemon.directory, start=False) as here:
        for i in range(10_000):
            here.create(f"many/{i}", shape=(4,), dtype="f4", lifetime="persistent")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            asking = pool.submit(lambda: [timed(metrics, daemon) for _ in range(5)])
            creates = []
            while not asking.done():
                name = f"more/{len(creates)}"
                creates.append(timed(here.create, name, shape=(4,), dtype="f4")[0])
            scrapes, texts = zip(*asking.result(), strict=True)
    assert value(texts[-1], "memlease_arrays", device="host", state="named") >= 10_000
    assert statistics.median(creates) < 0.1
    assert statistics.median(scrapes) < 2, "with the start of memleasectl"
