"""What the benchmarks are for: each goal is a ratio to a floor or rival of the same run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    """`measured` / `floor` <= `most`, both being series of `program`.

    With `extra_ms`, floor + extra_ms is the limit instead.
    """

    program: str
    what: str
    measured: str
    floor: str
    most: float
    extra_ms: float = 0.0


GOALS = [
    Goal("bench_hold", "read + release : one atomic RMW", "hold", "rmw", 3),
    Goal("bench_hold", "the same, serialised", "hold.serial", "rmw.serial", 3),
    Goal("bench_hold", "the same, over 1024 arrays", "hold.1024", "rmw", 3),
    Goal("bench_hold", "one process per CPU : one process", "hold.all", "hold", 1.3),
    Goal("bench_hold", "read + release : copying a shared_ptr", "hold", "shared_ptr", 3),
    Goal("bench_create", "small call to the daemon : read + release", "hold", "call", 1e-4),
    Goal("bench_publish", "hot p50 : raw spin p50", "memlease.hot.p50", "spin.hot.p50", 1.5),
    Goal("bench_publish", "hot p99 : raw spin p99", "memlease.hot.p99", "spin.hot.p99", 2),
    Goal("bench_publish", "cold p50 : bare futex", "memlease.cold.p50", "futex.cold.p50", 1.2),
    Goal(
        "bench_publish",
        "same CPU p50 : bare futex",
        "memlease.same_cpu.p50",
        "futex.same_cpu.p50",
        1.5,
    ),
    Goal("bench_publish", "write + publish, no waiter : RMW", "memlease.nobody_waits", "rmw", 3),
    Goal(
        "bench_open", "first open of 4 KiB : fd + call", "open.first.4KiB", "descriptor+call", 1.3
    ),
    Goal("bench_open", "first open, 1 GiB : 4 KiB", "open.first.1GiB", "open.first.4KiB", 1.3),
    Goal("bench_open", "open again : one atomic RMW", "open.again", "rmw", 50),
    Goal("bench_create", "create p50 : small call", "create.1_live.p50", "call.1_live.p50", 1.3),
    Goal(
        "bench_create",
        "create among many : among 1000",
        "create.many_live.p50",
        "create.1000_live.p50",
        1.2,
    ),
    Goal("bench_py", "read().release() : no-op C call", "hold", "noop", 3),
    Goal("bench_py", "with read() : no-op C call", "with", "noop", 8),
    Goal(
        "bench_py", "with read(), a view : shared_memory", "with.view", "shared_memory.attach", 0.02
    ),
    Goal("bench_py", "round trip : torch.multiprocessing", "round_trip", "torch.round_trip", 1),
    Goal("bench_crash", "waiting writer woken, 0 touched: 5 ms", "writer.0", "nothing", 0, 5),
    Goal("bench_crash", "the same, 1 GiB touched", "writer.1GiB", "nothing", 0, 5),
    Goal("bench_crash", "memory free, 0 touched: pidfd + 5 ms", "freed.0", "pidfd.0", 1, 5),
    Goal("bench_crash", "the same, 1 GiB touched", "freed.1GiB", "pidfd.1GiB", 1, 5),
    Goal("bench_idle", "daemon's CPU, no session: 1 ms", "cpu.0_sessions", "nothing", 0, 1),
    Goal("bench_idle", "the same, 50 idle sessions", "cpu.50_sessions", "nothing", 0, 1),
]
