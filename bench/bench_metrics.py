"""What a scrape of a daemon with many arrays takes, and whether a create waits for it.

A scrape is one over HTTP, as Prometheus does, and more than a second after the last one: in between
the daemon answers with what it has. Those that a create meets come by memleasectl, one after the
other, as it is not served from that.
"""

import http.client
import socket
import time

import ctl
import effort
import memlease


def scrape_ns(directory: str) -> int:
    """Nanoseconds from the connection until the text is there."""
    begin = time.perf_counter_ns()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(f"{directory}/metrics.sock")
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        text = answer.read()
    took = time.perf_counter_ns() - begin
    assert answer.status == 200
    assert b"memlease_arrays{" in text
    return took


def create_ns(client: memlease.Client, rounds: int) -> list[int]:
    """Nanoseconds of single creates."""
    samples = []
    for _ in range(rounds):
        begin = time.perf_counter_ns()
        array = client.create("bench/metrics/one", shape=64, dtype="u1")
        samples.append(time.perf_counter_ns() - begin)
        array.withdraw()
    return samples


def main() -> None:
    """Measure and print."""
    directory = effort.directory()
    arrays = effort.pick(10_000, 10_000, 20)
    scrapes, rounds = effort.pick(5, 2, 1), effort.pick(1000, 300, 3)
    pause_s = effort.pick(1.1, 1.1, 0.0)
    series: dict[str, list[float]] = {}
    with memlease.connect(directory, start=False) as client:
        kept = [
            client.create(f"bench/metrics/{number}", shape=64, dtype="u1")
            for number in range(arrays)
        ]
        for _ in range(effort.blocks()):
            samples = []
            for _ in range(scrapes):
                time.sleep(pause_s)
                samples.append(scrape_ns(directory))
            effort.add_distribution(series, "scrape", samples)
            effort.add_distribution(series, "create.alone", create_ns(client, rounds))
            with ctl.without_end(directory, "metrics"):
                effort.add_distribution(series, "create.beside", create_ns(client, rounds))
        assert len(kept) == arrays
    effort.print_report("bench_metrics", series, {"arrays": str(arrays)})


if __name__ == "__main__":
    main()
