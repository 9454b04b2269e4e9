"""Arrays that are put and got by their names, again and again, and nobody keeps a handle."""

import json
import subprocess
import sys
import threading

import memlease
import numpy as np
import pytest
from memlease import recent


@pytest.fixture
def elsewhere(memlease_daemon):
    """Return what runs Python code in another process, which has `client` and NumPy."""

    def run(code):
        begin = "import memlease, numpy as np; client = memlease.connect(); "
        subprocess.run([sys.executable, "-c", begin + code], check=True, timeout=60)

    return run


def array_bytes():
    """Return how many bytes arrays take, those included that have no name any more."""
    status = ["memleasectl", "status", "--json"]
    quotas = json.loads(subprocess.check_output(status, timeout=60))["quotas"]
    return sum(quota["bytes"] for quota in quotas)


def calls_of(client, call):
    """Return how many calls of the daemon it makes."""
    before = client.calls
    call()
    return client.calls - before


def test_the_next_time_calls_nobody(memlease_client):
    memlease_client.put("a", np.zeros(4))
    memlease_client.get("a")

    def steps():
        for step in range(10):
            memlease_client.put("a", np.full(4, float(step)))
            assert memlease_client.get("a")[0] == step

    assert calls_of(memlease_client, steps) == 0


def test_so_does_a_reader_of_what_another_process_puts(memlease_client, elsewhere):
    elsewhere("client.put('a', np.arange(4.0), lifetime='persistent')")
    memlease_client.get("a")
    assert calls_of(memlease_client, lambda: memlease_client.get("a")) == 0


def test_what_was_used_last_is_kept(memlease_client):
    names = [f"a/{number}" for number in range(recent.MOST + 1)]
    for name in names:
        memlease_client.put(name, [1.0])
        memlease_client.get(name)
        memlease_client.put(names[1], [2.0])
    assert calls_of(memlease_client, lambda: memlease_client.get(names[1])) == 0
    assert calls_of(memlease_client, lambda: memlease_client.get(names[-1])) == 0
    assert calls_of(memlease_client, lambda: memlease_client.get(names[0])) > 0


def test_nothing_is_kept_of_what_is_withdrawn(memlease_client, elsewhere):
    memlease_client.put("a", np.zeros(1000))
    memlease_client.get("a")
    assert array_bytes() != 0
    elsewhere("client.withdraw('a')")
    assert array_bytes() == 0


def test_an_array_that_took_the_name_is_found(memlease_client, elsewhere):
    memlease_client.put("a", np.zeros(4))
    elsewhere("client.withdraw('a'); client.put('a', np.arange(3), lifetime='persistent')")
    for _ in range(2):
        assert memlease_client.get("a").tolist() == [0, 1, 2]
    elsewhere("client.withdraw('a')")
    with pytest.raises(memlease.NotFound):
        memlease_client.get("a")
    memlease_client.put("a", [4.5])
    assert memlease_client.get("a").tolist() == [4.5]


def test_a_handle_that_is_closed_is_another(memlease_client):
    memlease_client.put("a", [1.0]).close()
    memlease_client.put("a", [2.0]).close()
    assert memlease_client.get("a").tolist() == [2.0]


def test_another_writer_need_not_wait(memlease_client, elsewhere):
    memlease_client.put("a", [1.0])
    elsewhere("client.put('a', [2.0]); client.put('a', [3.0])")
    memlease_client.put("a", [4.0])
    assert memlease_client.get("a").tolist() == [4.0]


def test_a_forked_child_keeps_its_own(memlease_client, elsewhere):
    memlease_client.put("a", np.zeros(4), lifetime="persistent")
    elsewhere(
        "import os; client.get('a'); child = os.fork()\n"
        "client.get('a'); before = client.calls; client.get('a')\n"
        "assert client.calls == before\n"
        "if child: assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0"
    )


def test_threads_share_a_client(memlease_client):
    failed = []

    def work(first):
        try:
            for number in range(3 * recent.MOST):
                name = f"a/{(7 * number + first) % (2 * recent.MOST)}"
                memlease_client.put(name, [float(number)])
                memlease_client.get(name)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
