"""The units of deploy/systemd, as far as that can be seen without starting them.

./dev prove systemd starts them. What is missing here fails: install Debian's systemd.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import program

UNITS = Path(__file__).parents[2] / "deploy/systemd"


# Without a sanitizer's libraries, which this environment may preload: --user runs generators of
# other packages, and gpgconf hangs with ASan's.
def analyze(*arguments, **environment):
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]} | environment
    return subprocess.run(
        ["systemd-analyze", *map(str, arguments)],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip


def exposure(root):
    result = analyze("security", "--offline=yes", f"--root={root}", "memleased.service")
    [figure] = re.findall(r"Overall exposure level for memleased.service: (\d+\.\d)", result.stdout)
    return float(figure)


def test_what_the_system_unit_may_do_is_little(tmp_path):
    units = tmp_path / "etc/systemd/system"
    units.mkdir(parents=True)
    shutil.copy(UNITS / "system/memleased.service", units)
    assert exposure(tmp_path) <= 1.0
    shutil.copytree(UNITS / "system/memleased.service.d", units / "memleased.service.d")
    assert 0.0 < exposure(tmp_path) <= 1.2


@pytest.mark.parametrize("manager", ["system", "user"])
def test_systemd_finds_nothing_wrong(tmp_path, manager):
    units = tmp_path / manager
    shutil.copytree(UNITS / manager, units)
    service = units / "memleased.service"
    text = service.read_text()
    assert "ExecStart=memleased " in text
    service.write_text(text.replace("ExecStart=memleased ", f"ExecStart={program('memleased')} "))
    for unit in (service, units / "memleased.socket"):
        options = (f"--{manager}", "--man=no", "--recursive-errors=no")
        result = analyze("verify", *options, unit, XDG_RUNTIME_DIR=str(tmp_path))
        assert (result.returncode, result.stderr) == (0, "")


def test_a_mistake_in_a_unit_is_found(tmp_path):
    unit = tmp_path / "memleased.service"
    text = (UNITS / "system/memleased.service").read_text()
    unit.write_text(text.replace("ProtectHome=yes", "ProtectHomes=yes"))
    assert "ProtectHomes" in analyze("verify", "--man=no", "--recursive-errors=no", unit).stderr


def settings(text, key):
    return re.findall(rf"^{key}=(.*)$", text, re.M)


def test_the_units_agree_with_the_daemon():
    service = (UNITS / "system/memleased.service").read_text()
    # As docs/man/memleased.8.scd has them.
    assert settings(service, "RestartPreventExitStatus") == ["73 78"]
    assert int(settings(service, "TimeoutStopSec")[0]) > 25 + 2 * 5, "the drain, and what is around"
    for manager in ("system", "user"):
        command = settings((UNITS / manager / "memleased.service").read_text(), "ExecStart")[0]
        options = command.split()[1:]
        checked = [program("memleased"), *options, "--check-config"]
        checked = [option.replace("%t", "/run/user/1000") for option in checked]
        assert subprocess.run(checked, capture_output=True, check=False).returncode == 0
