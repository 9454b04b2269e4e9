"""What the benchmarks are for: each goal is a ratio to a floor or rival of the same run."""

from dataclasses import dataclass

import rivals


@dataclass(frozen=True)
class Goal:
    """`measured` <= `most` * `floor` + `plus`. Series are named program/series.

    Without `floor`, `plus` alone is the limit. Without `most` and `plus` there is no limit: the
    figures are shown beside each other.
    """

    what: str
    measured: str
    floor: str = ""
    most: float | None = None
    plus: float = 0.0
    unit: str = "ns"  # of the series and of `plus`: ns, B, calls or /s
    spread: bool = False  # show the smallest and the largest block's ratio, too


MS = 1e6
NONE = 1e-3  # calls: fewer than one in a thousand

GOALS = [
    Goal("read + release : one atomic RMW", "hold/hold", "hold/rmw", 3),
    Goal("the same, the protocol alone", "protocol/hold", "protocol/rmw"),
    Goal("write + publish, the protocol alone : RMW", "protocol/publish", "protocol/rmw"),
    Goal("read + release : the protocol alone", "hold/hold", "protocol/hold"),
    Goal("the same, serialised", "hold/hold.serial", "hold/rmw.serial", 3),
    Goal("the same, over 1024 arrays", "hold/hold.1024", "hold/rmw", 3),
    Goal("try_read without news: 20 ns", "hold/try_read", plus=20),
    Goal("one process per CPU : one process", "hold/hold.all", "hold/hold", 1.3),
    Goal("read + release : copying a shared_ptr", "hold/hold", "hold/shared_ptr", 3),
    Goal("read + release : small call to the daemon", "hold/hold", "create/call.p50", 1e-4),
    *(
        Goal(
            f"write {size} beside 3 readers that keep : alone",
            f"keep/beside.{size}",
            f"keep/alone.{size}",
            1.05,
        )
        for size in ("64KiB", "8MiB")
    ),
    Goal("read, pin, release : read, release", "keep/pin", "keep/hold"),
    Goal("publish 4 KiB over a pin: 5 us", "keep/protect.4KiB", plus=5e3),
    Goal("publish 64 MiB over a pin : filling them", "keep/protect.64MiB", "keep/fill.64MiB", 0.5),
    Goal("the same and writable again : filling", "keep/protect.whole.64MiB", "keep/fill.64MiB"),
    *(
        Goal(
            f"{loop} over a view : over a pointer", f"views/{loop}.view", f"views/{loop}.raw", 1.05
        )
        for loop in ("stencil", "axpy", "sum")
    ),
    *(
        Goal(
            f"{loop} over an indexer : over a pointer",
            f"views/{loop}.indexer",
            f"views/{loop}.raw",
            1.05,
        )
        for loop in ("stencil", "axpy", "sum")
    ),
    Goal("stencil over a span : over a pointer", "views/stencil.span", "views/stencil.raw"),
    Goal("add_index_tuple, 64 MiB : STREAM's scale", "kernels/add.lease", "kernels/scale", 1 / 0.9),
    Goal("the same : in private memory", "kernels/add.lease", "kernels/add.private", 1.05),
    Goal("fill of 64 MiB : STREAM's scale", "kernels/fill.lease", "kernels/scale"),
    Goal("copy of 64 MiB : one thread's memcpy", "kernels/copy.lease", "kernels/memcpy"),
    *(
        Goal(f"{call} of 64 MiB : one thread's memcpy", f"copies/{call}", "copies/memcpy", 1.1)
        for call in ("get", "put", "update")
    ),
    Goal("hot p50 : raw spin", "publish/memlease.hot.p50", "publish/spin.hot.p50", 1.5),
    Goal("hot p99 : raw spin", "publish/memlease.hot.p99", "publish/spin.hot.p99", 2),
    Goal(
        "half a round trip, hot p50 : raw spin",
        "publish/memlease.hot.half_round_trip.p50",
        "publish/spin.hot.half_round_trip.p50",
        1.5,
    ),
    Goal(
        "4 KiB written and summed, hot p50 : raw spin, too",
        "publish/memlease.4KiB.hot.p50",
        "publish/spin.4KiB.hot.p50",
        1.5,
    ),
    Goal("cold p50 : bare futex", "publish/memlease.cold.p50", "publish/futex.cold.p50", 1.2),
    Goal(
        "same CPU p50 : bare futex",
        "publish/memlease.same_cpu.p50",
        "publish/futex.same_cpu.p50",
        1.5,
    ),
    Goal("hot p50 : eventfd", "publish/memlease.hot.p50", "publish/eventfd.hot.p50"),
    Goal("hot p50 : UNIX socket", "publish/memlease.hot.p50", "publish/socket.hot.p50"),
    Goal("write + publish, no waiter : RMW", "publish/memlease.nobody_waits", "publish/rmw", 3),
    *(
        Goal(
            f"publisher wakes {n} : one FUTEX_WAKE",
            f"fanout/memlease.{n}.publisher.p50",
            f"fanout/futex.{n}.publisher.p50",
            1.1,
        )
        for n in (1, 2, 4, 8, 16, 48)
    ),
    Goal(
        "publisher wakes 48 : 48 eventfds",
        "fanout/memlease.48.publisher.p50",
        "fanout/eventfd.48.publisher.p50",
        1,
    ),
    *(
        Goal(f"write + publish, each of {n} that wait for nothing", f"fanout/each_of_{n}", plus=5)
        for n in (8, 48)
    ),
    Goal(
        "last of 48 readers : by FUTEX_WAKE",
        "fanout/memlease.48.last_reader.p50",
        "fanout/futex.48.last_reader.p50",
    ),
    *(
        Goal(
            f"{n} processes connect at once : in turn",
            f"connect/at_once.{n}",
            f"connect/in_turn.{n}",
            2,
        )
        for n in (64, 200)
    ),
    Goal("first open of 4 KiB : fd + call", "open/open.first.4KiB", "open/descriptor+call", 1.3),
    Goal("first open, 1 GiB : 4 KiB", "open/open.first.1GiB", "open/open.first.4KiB", 1.3),
    Goal(
        "first open of 1 MiB, all read : fd, too",
        "open/open.first.1MiB.read",
        "open/descriptor.1MiB.read",
    ),
    Goal(
        "first open of 1 GiB, all read : fd, too",
        "open/open.first.1GiB.read",
        "open/descriptor.1GiB.read",
        1.3,
    ),
    Goal("open again : one atomic RMW", "open/open.again", "open/rmw", 50),
    Goal("create p50 : small call", "create/create.p50", "create/call.p50", 1.3),
    Goal("the same, beside another", "create/beside.p50", "create/beside.call.p50", 1.3),
    *(
        Goal(
            f"sum of {size} from another : of one's own",
            f"bytes/memlease.sum.{size}",
            f"bytes/local.sum.{size}",
            1.05,
        )
        for size in ("1MiB", "16MiB", "1GiB")
    ),
    *(
        Goal(
            f"{size} of one's own, two in turn : one",
            f"bytes/local.sum.{size}",
            f"bytes/local.sum_of_one.{size}",
        )
        for size in ("1MiB", "16MiB", "1GiB")
    ),
    *(
        Goal(
            f"get and sum {size} : gRPC, 1 MiB chunks",
            f"bytes/memlease.get_and_sum.{size}",
            f"bytes/grpc.get_and_sum.{size}",
            1 / 3,
        )
        for size in ("1MiB", "16MiB", "1GiB")
    ),
    Goal("get 1 GiB : gRPC", "bytes/memlease.get.1GiB", "bytes/grpc.get.1GiB", 1 / 3),
    Goal("read().release() : no-op C call", "py/hold", "py/noop", 3),
    Goal("with read() : no-op C call", "py/with", "py/noop", 8),
    Goal("try_read without news: 100 ns", "py/try_read", plus=100),
    Goal("put an array of 4 KiB: 2 us", "py/put", plus=2e3),
    Goal("get an array of 4 KiB: 2 us", "py/get", plus=2e3),
    Goal("put 4 KiB by a name, no handle kept: 10 us", "py/put.by_name", plus=1e4),
    Goal("get 4 KiB by a name, no handle kept: 10 us", "py/get.by_name", plus=1e4),
    Goal("with read(), a view : shared_memory", "py/with.view", "py/shared_memory.attach", 0.02),
    Goal(
        "with read(), 4 KiB summed : shared_memory, too",
        "py/with.sum",
        "py/shared_memory.attach.sum",
    ),
    Goal("round trip : torch.multiprocessing", "py/round_trip", "py/torch.round_trip", 1),
    *(
        Goal(
            f"get and sum 16 MiB : {label}",
            "py_bytes/memlease.get_and_sum.16MiB",
            f"py_bytes/{rival}.get_and_sum.16MiB",
            most,
        )
        for label, rival, most in (
            ("shared_memory", "shared_memory", 1),
            ("torch.multiprocessing", "torch", 1),
            ("multiprocessing.Pipe", "pipe", 1 / 3),
        )
    ),
    *(
        Goal(
            f"fill, hand over, sum {size} : {kind.label}",
            f"rivals/{rivals.beside(rival)}.hand_over.{size}",
            f"rivals/{rival}.hand_over.{size}",
            spread=True,
        )
        for rival, kind in rivals.KINDS.items()
        if kind.package != "memlease"
        for size in rivals.SIZES
    ),
    Goal("memory for one array: 400 B", "scale/bytes.array", plus=400, unit="B"),
    Goal("the same, its creator's too: 1.2 KiB", "scale/bytes.array.both", plus=1229, unit="B"),
    Goal("memory for one idle session: 64 KiB", "scale/bytes.session", plus=65536, unit="B"),
    *(
        Goal(
            f"{call} {q}, many {others} : few",
            f"scale/{call}.many_{others}.{q}",
            f"scale/{call}.few_{others}.{q}",
            most,
        )
        for call in ("create", "open")
        for others in ("arrays", "sessions")
        for q, most in (("p50", 2), ("p99", None))
    ),
    Goal("withdraw by name among many arrays : few", "many/withdraw.many", "many/withdraw.few", 2),
    Goal("close one of many arrays : small call", "many/close", "many/call", 1 / 8),
    Goal("slowest of 20,000 small calls: 20 ms", "many/call.slowest", plus=20 * MS),
    Goal("write of 0.2 ms beside another's, now and then, p99", "writers/turn.2.p99", plus=10 * MS),
    Goal("the same, p50", "writers/turn.2.p50"),
    Goal("the same beside 15 others', p99", "writers/turn.16.p99"),
    *(
        Goal(f"waiting writer woken, {size} touched, {q}", f"crash/writer.{size}.{q}", plus=plus)
        for size in ("0", "1GiB")
        for q, plus in (("p50", 0), ("p99", 5 * MS), ("max", 0))
    ),
    *(
        Goal(
            f"{what}, {size} touched, {q} : pidfd",
            f"crash/{series}.{size}.{q}",
            f"crash/pidfd.{size}.{q}",
            most,
            plus=plus,
        )
        for what, series, size in (
            ("name free", "unnamed", "0"),
            ("name free", "unnamed", "1GiB"),
            ("memory back at the system", "freed", "1GiB"),
        )
        for q, most, plus in (("p50", 1, 5 * MS), ("p99", None, 0), ("max", None, 0))
    ),
    Goal("mass death: longest delay of another's call", "deaths/beside", plus=5 * MS),
    Goal("the same : nobody dies", "deaths/beside", "deaths/alone"),
    Goal("daemon's CPU, no session: 1 ms", "idle/cpu.0_sessions", plus=1 * MS),
    Goal("the same, 50 idle sessions", "idle/cpu.50_sessions", plus=1 * MS),
    Goal("the same, 50 waiting for a name", "idle/cpu.50_waiting", plus=1 * MS),
    Goal("the same, 50 waiting for a version", "idle/cpu.50_following", plus=1 * MS),
    *(
        Goal(f"wake-ups of each, {who}", f"idle/wakeups.{series}", plus=1, unit="/s")
        for who, series in (
            ("50 waiting for a name", "50_waiting"),
            ("50 waiting for a version", "50_following"),
            ("20 waiting for a slot", "20_for_a_slot"),
            ("20 waiting for another's write", "20_for_a_write"),
        )
    ),
    Goal("daemon's start until it serves: 50 ms", "start/serves", plus=50 * MS),
    Goal("the same : memleased --version", "start/serves", "start/version"),
    *(
        Goal(f"{what} of 65,536 arrays: 0.3 s", f"list/{what}", plus=300 * MS)
        for what in ("list", "ls", "ls --json", "holders", "status")
    ),
    *(
        Goal(
            f"create {q} beside endless ls : alone",
            f"list/create.beside.{q}",
            f"list/create.alone.{q}",
            most,
        )
        for q, most in (("p50", 2), ("p99", None))
    ),
    *(
        Goal(
            f"CPU of {whose}, 10,000 arrays, {what} : a core",
            f"top/{process}.{state}",
            f"top/time.{state}",
            1 / 20,
        )
        for state, what in (("idle", "idle"), ("published", "all published"))
        for process, whose in (("top", "top at 2 Hz"), ("daemon", "the daemon meanwhile"))
    ),
    Goal("scrape of 10,000 arrays p50: 20 ms", "metrics/scrape.p50", plus=20 * MS),
    *(
        Goal(
            f"create {q} beside endless scrapes : alone",
            f"metrics/create.beside.{q}",
            f"metrics/create.alone.{q}",
            most,
        )
        for q, most in (("p50", 2), ("p99", None))
    ),
    *(
        goal
        for lease, whose in (("write", "a write, two readers"), ("read", "a read"))
        for goal in (
            Goal(
                f"order {whose} : least by the rules",
                f"gpu_calls/{lease}.order",
                f"gpu_calls/{lease}.least",
                1,
                unit="calls",
            ),
            Goal(
                f"look at streams and contexts, {whose}", f"gpu_calls/{lease}.checks", unit="calls"
            ),
            Goal(
                f"wait on the host, {whose}",
                f"gpu_calls/{lease}.host_waits",
                plus=NONE,
                unit="calls",
            ),
            Goal(f"call the daemon, {whose}", f"gpu_calls/{lease}.daemon", plus=NONE, unit="calls"),
        )
    ),
    *(
        Goal(
            f"{what}, a current replica's read",
            f"gpu_calls/replica.{series}",
            plus=NONE,
            unit="calls",
        )
        for what, series in (
            ("copy", "copies"),
            ("call CUDA", "cuda"),
            ("call the daemon", "daemon"),
        )
    ),
    *(
        Goal(f"wake-ups of each, {who}", f"gpu_calls/wakeups.{where}", plus=1, unit="/s")
        for who, where in (
            ("20 waiting for a GPU's version", "gpu"),
            ("20 waiting for a replica's", "replica"),
        )
    ),
    Goal("open a segment, a process", "gpu_calls/segment.opens", plus=1, unit="calls"),
]
