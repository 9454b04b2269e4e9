"""The daemon's directory, or its sockets, removed, moved or replaced while it runs."""

import os
import shutil
import subprocess
import sys

import pytest
from memlease import testing


def remove(directory):
    shutil.rmtree(directory)


def move(directory):
    os.rename(directory, f"{directory}-aside")


def replace(directory):
    move(directory)
    os.mkdir(directory, 0o700)


def remove_sockets(directory):
    for name in ("attach.sock", "control.sock"):
        os.unlink(f"{directory}/{name}")


class Peer:
    """A process of a user's, which is told what to evaluate."""

    CODE = """if True:
    import memlease, numpy as np, os, sys

    def rest():  # a fork ends gRPC, as some time without a call does: the next call connects again
        if os.fork() == 0:
            os._exit(0)
        os.wait()

    def in_a_child(ask):
        read, write = os.pipe()
        if os.fork() == 0:
            os.write(write, said_to(ask).encode())
            os._exit(0)
        os.close(write)
        os.wait()
        return os.read(read, 10_000).decode()

    def said_to(ask):
        try:
            return repr(ask())
        except memlease.Error as error:
            return f"{type(error).__name__}: {error}"

    print("ready", flush=True)
    for line in sys.stdin:
        print(said_to(lambda: eval(line, globals())), flush=True)
    """

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.CODE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout.readline() == "ready\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        assert self.process.wait(20) == 0
        self.process.stdout.close()

    def ask(self, expression):
        self.process.stdin.write(f"{expression}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().rstrip("\n")


@pytest.fixture
def peers(memlease_daemon):
    """Run a process that has an array, and one that has opened it and not used it yet."""
    with Peer() as maker, Peer() as user:
        for peer, get in ((maker, "create('a', 3, 'f4', fill=1)"), (user, "open('a')")):
            peer.ask("(client := memlease.connect(start=False))")
            assert "memlease.Array 'a'" in peer.ask(f"(a := client.{get})")
        yield maker, user
    os.makedirs(memlease_daemon.directory, mode=0o700, exist_ok=True)  # looked into at the end


@pytest.mark.parametrize("lose", [remove, move, replace, remove_sockets])
def test_who_is_connected_goes_on_with_all_calls(memlease_daemon, peers, lose):
    maker, user = peers
    lose(memlease_daemon.directory)
    for peer in peers:
        assert peer.ask("rest()") == "None"
    # A first read and a first write, each of which makes a call.
    assert user.ask("a.get().tolist()") == "[1.0, 1.0, 1.0]"
    assert user.ask("a.put(np.full(3, 2, 'f4'))") == "2"
    assert maker.ask("a.get().tolist()") == "[2.0, 2.0, 2.0]"
    assert maker.ask("client.put('b', np.ones(3)).version") == "1"
    assert user.ask("client.get('b').tolist()") == "[1.0, 1.0, 1.0]"
    assert maker.ask("client.withdraw('b')") == "None"
    for peer in peers:
        assert peer.ask("client.list()") == "['a']"
        assert peer.ask("memlease.connect(start=False).list()") == "['a']", "it is connected"
    # Nobody else finds this daemon, and each is told so.
    with Peer() as late:
        said = late.ask("memlease.connect(start=False)")
    assert said.startswith("DaemonUnavailable: no daemon answers in ")
    assert "DaemonUnavailable: no daemon" in maker.ask("in_a_child(lambda: a.get().tolist())")


@pytest.mark.parametrize("lose", [remove, move])
def test_another_daemon_there_serves_who_comes_then(memlease_daemon, peers, lose, tmp_path):
    maker, user = peers
    lose(memlease_daemon.directory)
    second = testing.Daemon(memlease_daemon.directory, tmp_path / "log")
    try:
        with Peer() as late:
            late.ask("(client := memlease.connect(start=False))")
            assert late.ask("client.put('second', np.ones(3)).version") == "1"
            for peer in peers:
                assert peer.ask("rest()") == "None"
                assert peer.ask("client.list()") == "['a']"
            assert user.ask("a.get().tolist()") == "[1.0, 1.0, 1.0]"
            assert maker.ask("a.put(np.full(3, 2, 'f4'))") == "2"
            # The first one ends, which is said at once. Then the second one is found.
            memlease_daemon.process.terminate()
            memlease_daemon.process.wait(30)
            for peer in peers:
                said = peer.ask("client.list()")
                assert said.startswith("DaemonLost: ")
                assert "Connect again" in said
                assert peer.ask("memlease.connect(start=False).list()") == "['second']"
    finally:
        second.stop()
