"""The manual page and --help name the same commands and options."""

import re
from pathlib import Path

from conftest import ctl

MANUAL = Path(__file__).parents[2] / "docs/man/memleasectl.1.scd"


def test_the_manual_names_what_help_names():
    help_text = ctl("--help").stdout
    manual = MANUAL.read_text()
    commands = set(re.findall(r"^  ([a-z]+)  ", help_text.split("Subcommands:")[1], re.M))
    help_text += "".join(ctl(command, "--help").stdout for command in commands)
    options = set(re.findall(r"(?<![\w-])--[a-z-]+", help_text))
    assert {"--json", "--directory"} <= options
    assert {"ls", "doctor"} <= commands
    assert set(re.findall(r"(?<![\w-])--[a-z-]+", manual)) == options
    section = manual.split("# COMMANDS")[1].split("# OPTIONS")[0]
    assert set(re.findall(r"^\*([a-z]+)\*", section, re.M)) == commands


def test_the_manual_names_each_exit_code():
    section = MANUAL.read_text().split("# EXIT STATUS")[1].split("\n# ")[0]
    assert re.findall(r"^\*(\d)\*", section, re.M) == list("0123456")
