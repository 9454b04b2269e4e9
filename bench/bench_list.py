"""What lists of many arrays take, the start of memleasectl included, and whether a create waits."""

import functools
import time
from collections.abc import Callable

import ctl
import effort
import memlease


def took_ns(call: Callable[[], object]) -> int:
    """Nanoseconds of one call."""
    begin = time.perf_counter_ns()
    call()
    return time.perf_counter_ns() - begin


def main() -> None:
    """Measure and print."""
    directory = effort.directory()
    arrays = effort.pick(65_536, 65_536, 20)
    rounds = effort.pick(1000, 300, 3)
    series: dict[str, list[float]] = {}
    with memlease.connect(directory, start=False) as client:

        def create(name: str) -> memlease.Array:
            return client.create(name, shape=64, dtype="u1", slots=1, attributes={"units": "K"})

        def create_ns() -> list[int]:
            samples = []
            for _ in range(rounds):
                begin = time.perf_counter_ns()
                array = create("bench/list/one")
                samples.append(time.perf_counter_ns() - begin)
                array.withdraw()
            return samples

        kept = [create(f"bench/list/{number}") for number in range(arrays)]
        for _ in range(effort.blocks()):
            series.setdefault("list", []).append(took_ns(client.list))
            for command in ("ls", "ls --json", "holders", "status"):
                asked = functools.partial(ctl.run, directory, *command.split())
                series.setdefault(command, []).append(took_ns(asked))
            effort.add_distribution(series, "create.alone", create_ns())
            with ctl.without_end(directory, "ls"):
                effort.add_distribution(series, "create.beside", create_ns())
        assert len(kept) == arrays
    effort.print_report("bench_list", series, {"arrays": str(arrays)})


if __name__ == "__main__":
    main()
