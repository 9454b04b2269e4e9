"""Completion in bash: offers what --help names, and what the daemon has."""

import os
import pty
import re
import select
import subprocess
import time
from pathlib import Path

import pytest
from conftest import DEADLINE_S, clean_environment, ctl, program

SCRIPT = Path(__file__).parents[2] / "deploy/completion/memlease.bash"
# What bash does when TAB is pressed at the end of a line.
COMPLETE = """
source "$1"; shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_memlease "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def complete(name, *words, **options):
    """Return what is offered for the last word; bash makes three of --option=value."""
    path = name if isinstance(name, Path) else program(name)
    command = ["bash", "--norc", "-uc", COMPLETE, "bash", SCRIPT, path, *words]
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=DEADLINE_S, check=True,
        env=clean_environment(), **options,
    )  # fmt: skip
    assert ended.stderr == ""
    return set(ended.stdout.split())


def options_in(text):
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", text))


@pytest.mark.no_asan  # runs bash, and --help
def test_the_programs_options_and_commands_are_offered():
    help_text = ctl("--help").stdout
    commands = set(re.findall(r"^  ([a-z]+)  ", help_text.split("Subcommands:")[1], re.M))
    assert complete("memleasectl", "") == commands
    assert complete("memleasectl", "--json", "he") == {"health"}
    for command in commands:
        own = options_in(ctl(command, "--help").stdout)
        assert complete("memleasectl", command, "-") == options_in(help_text) | own
    daemon = subprocess.check_output([program("memleased"), "--help"], text=True)
    named = options_in(daemon.split("Options:")[1].split("Each option")[0])
    assert {"--warm-bytes", "--print-config", "-h"} <= named
    assert complete("memleased", "-") == named


@pytest.mark.parametrize("before", [["--log-level"], ["--log-level", "="]], ids=["apart", "equals"])
def test_values_are_offered_where_there_is_a_list_of_them(before):
    assert complete("memleased", *before, "") == {"debug", "info", "warning", "error"}
    assert complete("memleased", *before, "w") == {"warning"}
    assert complete("memleased", "--warm-bytes", "") == set()


def test_a_value_that_has_just_begun_with_its_equals_sign_is_offered():
    assert complete("memleased", "--huge-pages", "=") == {"auto", "never"}


def test_values_are_offered_that_help_has_in_braces(tmp_path):
    stand_in = tmp_path / "program"
    stand_in.write_text("#!/bin/sh\nprintf 'Options:\\n  -s,--sort KEY:{name,bytes}  By what\\n'\n")
    stand_in.chmod(0o755)
    assert complete(stand_in, "--sort", "") == {"name", "bytes"}
    assert complete(stand_in, "-s", "n") == {"name"}


def test_folders_and_files_are_offered(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    assert complete("memleasectl", "-d", "f", cwd=tmp_path) == {"folder"}
    assert complete("memleased", "--config", "f", cwd=tmp_path) == {"folder", "file"}


def test_arrays_and_sessions_come_from_the_daemon(daemon, client):
    at = ["--directory", daemon.directory]
    assert complete("memleasectl", *at, "info", "") == {"sim/u"}
    assert complete("memleasectl", "-d", daemon.directory, "withdraw", "sim") == {"sim/u"}
    assert complete("memleasectl", "--directory", "=", daemon.directory, "ls", "x") == set()
    assert complete("memleasectl", *at, "evict", "") == {str(client.session)}
    assert complete("memleasectl", *at, "status", "") == set()


def test_without_a_daemon_nothing_is_offered(tmp_path):
    assert complete("memleasectl", "--directory", str(tmp_path), "info", "") == set()


def test_a_terminal_completes_what_is_typed():
    """A real bash with a terminal: TAB makes --vers an option, which the program then knows."""
    pid, terminal = pty.fork()
    if pid == 0:
        path = f"{Path(program('memleasectl')).parent}:/usr/bin:/bin"
        environment = {"PATH": path, "TERM": "dumb", "HOME": "/nonexistent", "PS1": "$ "}
        os.execve("/bin/bash", ["bash", "--norc", "--noprofile", "-i"], environment)
    try:
        os.write(terminal, f"source '{SCRIPT}'\nmemleasectl --vers\t\n".encode())
        said, end = b"", time.monotonic() + DEADLINE_S
        while not re.search(rb"^memleasectl \d+\.\d+\.\d+", said, re.M):
            left = end - time.monotonic()
            assert select.select([terminal], [], [], max(left, 0))[0], said
            said += os.read(terminal, 4096)
    finally:
        os.write(terminal, b"exit\n")
        os.waitpid(pid, 0)
        os.close(terminal)
