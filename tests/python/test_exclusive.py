"""Arrays whose writer is one process alone."""

import subprocess
import sys

import memlease
import pytest

TRY = """
import sys, memlease
array = memlease.connect(sys.argv[1]).open("mine")
try:
    array.put(2)
except PermissionError as error:
    print(error)
"""


def written_elsewhere(client):
    """Try it, and return what the other process says."""
    command = [sys.executable, "-c", TRY, client.directory]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return run.stdout


def test_another_process_is_told_who_the_writer_is(memlease_client):
    array = memlease_client.create("mine", 3, "f4", writer="exclusive", lifetime="persistent")
    assert array.writer == "exclusive"
    said = written_elsewhere(memlease_client)
    assert said.startswith("'mine' has an exclusive writer: pid ")
    assert "[ML004]" in said
    array.put(1)
    assert "exclusive writer" in written_elsewhere(memlease_client)
    assert array.get().tolist() == [1, 1, 1]
    array.close()
    assert written_elsewhere(memlease_client) == ""
    memlease_client.withdraw("mine")


def test_by_default_it_is_whoever_writes_next(memlease_client):
    array = memlease_client.create("mine", 3, "f4", lifetime="persistent")
    assert array.writer == "any"
    assert written_elsewhere(memlease_client) == ""
    memlease_client.withdraw("mine")


def test_other_words_are_refused(memlease_client):
    with pytest.raises(memlease.InvalidArgument, match="give 'any' or 'exclusive'"):
        memlease_client.create("mine", 3, "f4", writer="me")
