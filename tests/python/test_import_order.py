"""memlease beside other libraries that bring a gRPC, abseil or protobuf of their own, and fork.

See docs/decisions/0001-grpc-in-client-processes.md.
"""

import os
import subprocess
import sys
import textwrap

import pytest

PREAMBLE = """
    import os, sys, threading, time

    def use_memlease():
        with memlease.connect() as client:
            assert not client.exists("nothing/of-this-name")
"""

# library -> (import, one real call)
OTHERS = {
    "grpcio": (
        "import grpc",
        """
        from concurrent import futures

        class Echo(grpc.GenericRpcHandler):
            def service(self, details):
                return grpc.unary_unary_rpc_method_handler(lambda request, context: request)

        server = grpc.server(futures.ThreadPoolExecutor(1), handlers=(Echo(),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            assert channel.unary_unary("/a.B/C")(b"x", timeout=20) == b"x"
        server.stop(0).wait()
        """,
    ),
    "torch": (
        "import torch, torch.distributed",
        """
        store = torch.distributed.TCPStore("127.0.0.1", 0, 1, True)
        store.set("key", "value")
        assert store.get("key") == b"value" and torch.ones(3).sum() == 3
        """,
    ),
    "pyarrow.flight": (
        "import pyarrow, pyarrow.flight as flight",
        """
        class Server(flight.FlightServerBase):
            def do_get(self, context, ticket):
                return flight.RecordBatchStream(pyarrow.table({"a": [1, 2]}))

        with Server("grpc://127.0.0.1:0") as server:
            with flight.connect(f"grpc://127.0.0.1:{server.port}") as client:
                assert client.do_get(flight.Ticket(b"")).read_all().num_rows == 2
        """,
    ),
    "jax": (
        "import jax",
        "assert float(jax.jit(lambda x: x * 2)(3.0)) == 6",
    ),
    "ray": (
        "import ray",
        """
        ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR",
                 object_store_memory=80_000_000)
        assert ray.get(ray.remote(lambda x: x + 1).remote(1), timeout=100) == 2
        ray.shutdown()
        """,
    ),
}


# A process that hangs says where.
HANGS = "import faulthandler; faulthandler.dump_traceback_later(150, exit=True)\n"


def run(program):
    """Run a program in a fresh process; a crash also at its exit shows in the return code."""
    result = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", HANGS + program],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == "done\n"


# Sanitized builds take the shared gRPC, and ASan would be loaded into all that Ray starts, too.
@pytest.mark.no_asan
@pytest.mark.parametrize("memlease_first", [True, False], ids=["memlease_first", "memlease_last"])
@pytest.mark.parametrize("other", OTHERS)
def test_works_beside(other, memlease_first, memlease_daemon):
    imports, call = OTHERS[other]
    steps = ["import memlease", imports] if memlease_first else [imports, "import memlease"]
    calls = ["use_memlease()", textwrap.dedent(call)]
    calls = calls if memlease_first else calls[::-1]
    # The sleep outlasts the time for which the client keeps gRPC up after a call.
    last = ["use_memlease()", "time.sleep(0.4)", "use_memlease()", "print('done')"]
    run("\n".join([*steps, textwrap.dedent(PREAMBLE), *calls, *last]))


FORKS = """
    import memlease

    stop, failures = threading.Event(), []

    def keep_calling():
        while not stop.is_set():
            try:
                use_memlease()
            except Exception as error:
                failures.append(error)

    threads = [threading.Thread(target=keep_calling, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(100):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                for _ in range(5):
                    use_memlease()
                code = 0
            finally:
                os._exit(code)
        for _ in range(5):  # while the child does the same
            use_memlease()
        assert os.waitpid(child, 0)[1] == 0
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures, failures
    print("done")
"""


FORKS_BESIDE_A_WAIT = """
    import memlease

    with memlease.connect() as client:
        waiting = threading.Thread(target=client.wait_for, args=("late",))
        waiting.start()
        for _ in range(5):
            time.sleep(0.12)  # longer than a wait goes without a look at signals
            child = os.fork()
            if child == 0:
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        client.create("late", shape=1, dtype="u1")
        waiting.join()
    print("done")
"""


def test_a_fork_beside_a_wait(memlease_daemon):
    """The thread that forks has the GIL, and the one that waits may ask for it."""
    run(textwrap.dedent(PREAMBLE + FORKS_BESIDE_A_WAIT))


# GCC 12's ASan leaves its allocator's locks to a forked child as another thread held them.
@pytest.mark.no_asan
def test_parent_and_child_of_a_fork_call_at_the_same_time(memlease_daemon):
    run(textwrap.dedent(PREAMBLE + FORKS))
