"""What a forked child may do with what its parent has opened."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

# Forking happens in a process of its own: pytest's may have the threads of other libraries.
IN_FORK = """
import contextlib, os, sys, threading, warnings
import memlease
import numpy as np

warnings.simplefilter("ignore", memlease.LeasesAtFork)
client = memlease.connect(start=False)
array = client.open("a")
follower = array.follow()

def in_fork(call):
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            code = call()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def code_of(call):
    try:
        call()
    except memlease.Error as error:
        return int(error.code.removeprefix("ML"))
    return 0

"""
LEASED = """
lease = array.read()
view = lease.array
"""


def run_forking(code, *, start=LEASED, stderr=""):
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", IN_FORK + start + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == stderr
    return result.stdout


@pytest.mark.parametrize(
    "call",
    [
        "client.list() == ['a']",
        "client.session_id == 0 and client.exists('a') and client.session_id > 0",
        "int(client.open('a').get().sum()) == 6",
        "array.read().array.tolist() == [0, 1, 2, 3]",
        "array.version == 1",
        "array.put(np.arange(4)) == array.version > 1",
        "array.update().publish() == array.version > 1",
        "next(follower).array[3] == 3",
        "next(array.follow()).version == 1",
        "array.name == 'a' and array.shape == (4,) and 'int64[4]' in repr(array)",
    ],
)
def test_arrays_and_clients_open_themselves_again_in_a_forked_child(memlease_client, call):
    memlease_client.put("a", np.arange(4))
    code = f"""
    def child():
        return 7 if {call} else 8
    print(in_fork(child))
    print(in_fork(lambda: in_fork(child)))  # a grandchild
    print(in_fork(lambda: code_of(array.read) + in_fork(lambda: code_of(array.read)) + 7))
    # The parent goes on as before.
    print(lease[3], array.put(np.arange(4)) > 1, client.list())
    """
    assert run_forking(code) == "7\n7\n7\n3 True ['a']\n"


def test_a_forked_child_may_connect_by_itself(memlease_client):
    memlease_client.put("a", np.arange(4))
    code = """
    def child():
        with memlease.connect(start=False) as mine:
            return int(mine.get("a").sum())
    print([in_fork(child) for _ in range(5)], lease[3])
    """
    assert run_forking(code) == "[6, 6, 6, 6, 6] 3\n"


def test_many_forked_processes_connect_in_one_instant(memlease_client):
    memlease_client.put("a", np.arange(4))
    code = """
    gate, opener = os.pipe()
    def child():
        os.close(opener)
        os.read(gate, 1)
        with memlease.connect(start=False, timeout=60) as mine:
            return int(mine.session_id > 0)
    def fork():
        pid = os.fork()
        if pid == 0:
            code = 99
            try:
                code = child()
            finally:
                os._exit(code)
        return pid
    children = [fork() for _ in range(64)]
    os.close(opener)
    print({os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children}, lease[3])
    """
    assert run_forking(code) == "{1} 3\n"


@pytest.mark.parametrize(
    "call", ["lease.array", "memoryview(lease)", "lease.__dlpack__(max_version=(1, 0))", "lease[0]"]
)
def test_leases_of_the_parent_raise_in_a_forked_child(memlease_client, call):
    memlease_client.put("a", np.arange(4))
    code = f"""
    lease = array.read()  # without a view
    def child():
        array.read()
        try:
            {call}
        except memlease.ForkedClient as error:
            return 7 if "arrays and clients open themselves again" in error.hint else 8
        return 9
    print(in_fork(child), lease[3])
    """
    assert run_forking(code) == "7 3\n"


def test_a_write_of_the_parent_is_not_published_by_a_forked_child(memlease_client):
    memlease_client.put("a", np.arange(4))
    code = """
    lease = array.write()
    def child():
        return code_of(lease.publish) + 10 * code_of(lease.drop) + array.read().version
    print(in_fork(child))
    lease[...] = 5
    print(lease.publish(), array.get().tolist())
    """
    assert run_forking(code) == f"{13 + 1}\n2 [5, 5, 5, 5]\n"


def test_threads_of_a_forked_child_open_an_array_at_once(memlease_client):
    memlease_client.put("a", np.arange(4))
    code = """
    def child():
        together = threading.Barrier(8)
        sums = []
        def use():
            together.wait()
            sums.append(int(array.get().sum()))
        threads = [threading.Thread(target=use) for _ in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        array.close()
        return 7 if sums == [6] * 8 and code_of(array.read) == 14 else 8
    print([in_fork(child) for _ in range(10)] == [7] * 10)
    """
    assert run_forking(code) == "True\n"


@pytest.mark.no_asan  # whose allocator may be locked by a thread that the child has not
def test_children_are_forked_while_threads_of_the_parent_are_at_work(memlease_client):
    memlease_client.put("a", np.arange(4))
    code = """
    done = threading.Event()
    def write():
        while not done.is_set(): array.put(np.arange(4))
    def read():
        own = array.follow(timeout=0.1)
        while not done.is_set():
            with contextlib.suppress(memlease.Timeout): next(own)  # the writer has ended
    def open_and_close():
        while not done.is_set(): client.open("a").close()
    threads = [threading.Thread(target=work) for work in (write, read, open_and_close)]
    for thread in threads: thread.start()
    def child():
        return 7 if next(follower).array.tolist() == [0, 1, 2, 3] and array.update(wait=30) else 8
    codes = [in_fork(child) for _ in range(20)]
    done.set()
    for thread in threads: thread.join()
    print(codes == [7] * 20)
    """
    assert run_forking(code, start="") == "True\n"


def test_a_follower_that_a_thread_of_the_parent_waits_in_is_free_in_a_forked_child(memlease_client):
    memlease_client.put("a", np.arange(4))
    code = """
    next(follower)
    waits = threading.Event()
    def wait():
        waits.set()
        for lease in follower: pass
    thread = threading.Thread(target=wait)
    thread.start()
    waits.wait()
    def child():
        array.put(np.arange(4))
        return next(follower).version
    print([in_fork(child) for _ in range(5)])
    follower.close()
    thread.join()
    """
    assert run_forking(code, start="") == "[2, 3, 4, 5, 6]\n"


def test_a_follower_goes_on_in_a_forked_child(memlease_client):
    array = memlease_client.put("a", np.arange(4))
    array.put(np.arange(4))
    code = """
    print(next(follower).version)
    reading, writing = os.pipe()
    def child():
        os.read(reading, 1)
        return next(follower).version * 10 + follower.seen
    def parent():
        for _ in range(3): array.put(np.arange(4))
        os.write(writing, b"x")
    starter = threading.Timer(0, parent)
    os.register_at_fork(after_in_parent=starter.start)
    print(in_fork(child), follower.seen)
    """
    assert run_forking(code, start="") == "2\n52 1\n"


def test_what_was_closed_stays_closed_in_a_forked_child(memlease_client):
    memlease_client.put("a", np.arange(4))
    code = """
    closed = client.open("a")
    closed.close()
    other = memlease.connect(start=False)
    of_other = other.open("a")
    other.close()
    print(in_fork(lambda: code_of(closed.read)), in_fork(lambda: code_of(of_other.read)),
          in_fork(lambda: code_of(other.list)))
    def child():
        client.close()
        return code_of(array.read)
    print(in_fork(child), array.read().version)
    def child():
        own = client.open("a")
        lease = array.read()
        client.close()
        return code_of(own.read) + code_of(array.read) + int(lease[3])
    print(in_fork(child), array.read().version)
    """
    assert run_forking(code) == "14 14 14\n14 1\n31 1\n"


def test_a_forked_child_finds_the_same_array_or_none(memlease_client):
    memlease_client.put("a", np.arange(4))
    code = """
    for name, again in (("b", False), ("c", True)):
        other = client.put(name, np.arange(3))
        other.withdraw()
        if again: client.put(name, np.arange(3))
        def child():
            try:
                other.read()
            except memlease.Withdrawn as error:
                return 7 if ("another one of that name" in str(error)) is again else 8
            return 9
        print(in_fork(child))
    """
    assert run_forking(code) == "7\n7\n"


def test_an_array_of_another_daemon_is_not_the_same(memlease_client, tmp_path):
    memlease_client.put("a", np.arange(4))
    code = f"""
    from memlease.testing import Daemon, Path
    place = os.environ["MEMLEASE_DIR"] + "-other", Path({str(tmp_path / "log")!r})
    first = Daemon(*place)
    other = first.connect().put("b", np.arange(4))
    first.kill()
    second = Daemon(*place)
    def child():
        same = second.connect().put("b", np.arange(4)).id == other.id
        return code_of(other.read) if same else 99
    print(in_fork(child))
    second.stop()
    """
    assert run_forking(code) == "16\n"


def test_the_end_of_a_forked_child_releases_nothing_of_the_parent(memlease_client):
    array = memlease_client.create("a", shape=4, dtype="i8", slots=1, fill=1)
    code = """
    def child():
        global lease, view, follower, array, client
        array.read()
        del lease, view, follower, array, client
        return 7
    print(in_fork(child))
    try:
        array.write(wait=0)
    except memlease.Busy:
        print("held")
    """
    assert run_forking(code) == "7\nheld\n"
    assert array.version == 1


def test_a_forked_child_may_end_a_lease_whose_array_lives(memlease_client):
    memlease_client.put("a", np.arange(4))
    code = """
    own = array.read()
    kept = own.array
    def child():
        own.release()
        return 7
    print(in_fork(child), kept[3], own[3])
    """
    assert run_forking(code) == "7 3 3\n"


@pytest.mark.parametrize("before", ["", "array.read().array, client.put('b', np.arange(4)).read()"])
def test_a_view_of_the_parent_faults_in_a_forked_child(memlease_client, monkeypatch, before):
    # Where ASan's runtime is loaded it would turn the signal into an exit.
    monkeypatch.setenv("ASAN_OPTIONS", os.environ.get("ASAN_OPTIONS", "") + ":handle_segv=0")
    monkeypatch.setenv("MEMLEASE_EXPLAIN_FAULTS", "1")
    memlease_client.put("a", np.arange(4))
    code = f"""
    def child():
        used = [{before}]  # whose pages come elsewhere
        return int(view[3])
    print(in_fork(child), view[3])
    """
    said = (
        "memlease: used a view of 'a' that belongs to the parent process: views do not live on in "
        "a forked child; open the array there\n"
    )
    assert run_forking(code, stderr=said) == "-11 3\n"


POOLS = """
import concurrent.futures, multiprocessing

def work(i):
    with array.read() as lease:
        return int(lease[i])
"""


@pytest.mark.parametrize(
    "code",
    [
        "with multiprocessing.get_context('fork').Pool(3) as pool: print(pool.map(work, range(4)))",
        "with concurrent.futures.ProcessPoolExecutor(3, multiprocessing.get_context('fork')) as"
        " pool: print(list(pool.map(work, range(4))))",
    ],
    ids=["Pool", "ProcessPoolExecutor"],
)
def test_pools_of_forked_workers_use_an_array_of_their_parent(memlease_client, code):
    memlease_client.put("a", np.arange(4))
    assert run_forking(POOLS + code) == "[0, 1, 2, 3]\n"


def test_a_fork_with_leases_is_warned_of_once(memlease_client):
    memlease_client.put("a", np.arange(4))
    code = """
    warnings.resetwarnings()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        in_fork(lambda: 0)
        print(len(caught))
        lease = array.read()
        view = lease.array
        lease.release()  # the view keeps the slot
        caught.clear()
        in_fork(lambda: 0)
        in_fork(lambda: 0)
        print([warning.category.__name__ for warning in caught], caught[0].filename)
        del lease, view
    """
    assert run_forking(code, start="") == "0\n['LeasesAtFork'] <string>\n"


def test_a_program_on_a_terminal_of_its_own_is_not_warned_of(memlease_client):
    memlease_client.put("a", np.arange(4))
    code = """
    import pty
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pid, terminal = pty.fork()  # as IPython's !command
        if pid == 0:
            os.execv("/bin/true", ["true"])
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), len(caught))
        os.close(terminal)
        in_fork(lambda: 0)
        print([warning.category.__name__ for warning in caught])
        del lease, view
    """
    assert run_forking(code) == "0 0\n['LeasesAtFork']\n"
