"""A real Prometheus, with the documented configuration and the rules, scrapes a real daemon.

What the dashboard and the rules ask for is asked of it. No time is looked at but that it answers.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import memlease
import pytest
import yaml
from conftest import DEADLINE_S, Daemon, clean_environment, program_of_prometheus, until

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy/prometheus"
DASHBOARD = json.loads((DEPLOY / "dashboard.json").read_text())
# Whoever has the page copies this; here the port is one that is free, and the steps are short.
DOCUMENTED = re.search(
    r"```yaml\n(scrape_configs:.*?)```", (ROOT / "docs/metrics.md").read_text(), re.DOTALL
)[1]
STEP = "200ms"
# At least two scrapes: the daemon looks again once a second at most.
RATE_INTERVAL = "10s"


class Prometheus:
    """It and its data, in a folder; asked by its HTTP interface."""

    def __init__(self, folder, target):
        assert DOCUMENTED.count("127.0.0.1:9464") == 1
        settings = yaml.safe_load(DOCUMENTED.replace("127.0.0.1:9464", target))
        settings["global"] = {"scrape_interval": STEP, "evaluation_interval": STEP}
        settings["global"]["scrape_timeout"] = STEP
        shutil.copy(DEPLOY / "alerts.yml", folder)
        settings["rule_files"] = ["alerts.yml"]
        (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
        self._log = folder / "log"
        # Its port is known from its log: it takes one that is free.
        command = [
            program_of_prometheus("prometheus"), "--config.file=prometheus.yml",
            "--storage.tsdb.path=data", "--web.listen-address=127.0.0.1:0",
        ]  # fmt: skip
        environment = {k: v for k, v in clean_environment().items() if k != "LD_PRELOAD"}
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=environment,
            )  # fmt: skip
        self._address = None
        until(self._serves, "Prometheus serves", self.process)

    def _serves(self):
        found = re.search(r'msg="Listening on" address=(\S+)', self.log())
        if found is None:
            return False
        self._address = found[1]
        with contextlib.suppress(urllib.error.URLError):
            urllib.request.urlopen(f"http://{self._address}/-/ready", timeout=DEADLINE_S).close()
            return True
        return False

    def log(self):
        return self._log.read_text()

    def ask(self, path, **parameters):
        url = f"http://{self._address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:
                said = json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from None
        assert said["status"] == "success"
        assert not said.get("warnings")
        return said["data"]

    def query(self, expression):
        """Return [(labels, value)]."""
        result = self.ask("query", query=expression)["result"]
        return [(one["metric"], float(one["value"][1])) for one in result]

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(DEADLINE_S)


class Work:
    """Everything that a panel shows goes on beside the test: versions, waits, refused calls."""

    def __init__(self, directory):
        self._directory = directory
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        with (
            contextlib.suppress(memlease.DaemonLost),
            memlease.connect(self._directory, start=False) as here,
        ):
            u = here.create("u", shape=(4,), dtype="f4")
            while not self._end.wait(0.02):
                u.put(1)
                with contextlib.suppress(memlease.Timeout):
                    u.read(newer_than=u.version, timeout=0.001)
                with contextlib.suppress(memlease.NotFound):
                    here.open("there/is/none")

    def end(self):
        self._end.set()
        self._thread.join(DEADLINE_S)


@pytest.fixture(scope="module")
def scraped(tmp_path_factory):
    """Start a daemon at work, and a Prometheus that has scraped it a few times."""
    folder = tmp_path_factory.mktemp("prometheus")
    with contextlib.ExitStack() as stack:
        log_path = folder / "daemon.log"
        with log_path.open("wb") as log:
            daemon = Daemon(folder / "run", "--metrics", "127.0.0.1:0", stderr=log)
        stack.callback(daemon.end)
        target = re.search(r"metrics served.*address=(\S+)", log_path.read_text())[1]
        work = Work(daemon.directory)
        stack.callback(work.end)
        prometheus = Prometheus(folder, target)
        stack.callback(prometheus.end)
        until(
            lambda: prometheus.query("rate(memlease_versions_total[10s]) > 0"),
            f"two scrapes that differ: {prometheus.log()}", prometheus.process,
        )  # fmt: skip
        prometheus.target = target
        prometheus.daemon = daemon
        yield prometheus


def test_prometheus_takes_the_daemon_for_one_that_is_up(scraped):
    [(labels, value)] = scraped.query("up")
    assert value == 1
    assert (labels["job"], labels["instance"]) == ("memlease", scraped.target)
    [target] = scraped.ask("targets", state="active")["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")


def test_it_has_each_series_that_the_daemon_emits(scraped):
    text = scraped.daemon.ctl("metrics").stdout
    emitted = re.findall(r"^([a-z_]+(?:\{.*?\})?) \S+$", text, re.M)
    assert len(emitted) > 70
    [(_, count)] = scraped.query('count({job="memlease",__name__=~"memlease_.*|process_.*"})')
    assert count == len(emitted)
    assert scraped.query("scrape_samples_scraped")[0][1] == len(emitted)


PANELS = [
    (panel["title"], target["expr"]) for panel in DASHBOARD["panels"] for target in panel["targets"]
]


def filled_in(expression):
    """Return it as Grafana asks it, with all instances chosen."""
    filled = expression.replace("$instance", ".*").replace("$__rate_interval", RATE_INTERVAL)
    assert "$" not in filled, "a variable that the dashboard does not have"
    return filled


@pytest.mark.parametrize(("panel", "expression"), PANELS)
def test_each_panel_of_the_dashboard_has_something_to_show(scraped, panel, expression):
    until(lambda: scraped.query(filled_in(expression)), f"{panel} is not empty")


def test_the_dashboards_choice_of_instances_has_the_daemon(scraped):
    [variable] = [v for v in DASHBOARD["templating"]["list"] if v["name"] == "instance"]
    series = re.fullmatch(r"label_values\((.*), instance\)", variable["definition"])[1]
    assert scraped.ask("label/instance/values", **{"match[]": series}) == [scraped.target]


def test_the_rules_are_evaluated_without_a_complaint(scraped):
    def rules():
        [group] = scraped.ask("rules")["groups"]
        return group["rules"]

    until(lambda: all(rule["health"] != "unknown" for rule in rules()), "each was evaluated once")
    written = yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"][0]["rules"]
    assert {rule["name"] for rule in rules()} == {rule["alert"] for rule in written}
    assert [(rule["name"], rule["lastError"]) for rule in rules() if rule["health"] != "ok"] == []
    assert {rule["name"] for rule in rules() if rule["state"] != "inactive"} == set()


def test_an_expression_that_is_wrong_is_found(scraped):
    """A control."""
    with pytest.raises(AssertionError, match="parse error"):
        scraped.query("rate(memlease_versions_total)[")
    assert scraped.query("memlease_nothing_total") == []


def test_an_alert_comes_when_the_daemon_is_killed(scraped):
    """The last test, as it is."""
    os.kill(scraped.daemon.process.pid, signal.SIGKILL)
    until(lambda: scraped.query("up")[0][1] == 0, "it is seen to be down")

    def alert():
        [found] = [a for a in scraped.ask("alerts")["alerts"] if
                   a["labels"]["alertname"] == "MemleaseDown"] or [None]  # fmt: skip
        return found

    until(lambda: alert() and alert()["state"] == "pending", "it waits for its two minutes")
    assert alert()["annotations"]["summary"].startswith(f"memleased on {scraped.target} ")
