"""The cost of `unlabel serve`: latency and throughput beside going upstream directly.

Upstream and filter are processes of their own on this machine, which their client shares. Requests
have 8 rows, answers 8 x 100 confidences; both ways take turns, on connections that stay open. One
upstream is that of the tests, whose model costs next to nothing: it shows the filter at its worst.
The other is MLServer with a scikit-learn model, where it is installed, as by `make test-serve`.

    python benchmarks/serve.py [--requests N] [--rounds N] [--out FILE.json]
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from servers import (
    FEATURES,
    LABELS,
    Answer,
    Process,
    ask,
    connected,
    free_port,
    inference,
    start_filter,
    start_mlserver,
    start_upstream,
)
from unlabel import OutputFilter
from workload import confidences, machine

ROWS, REMOVED, CLIENTS = 8, 10, 16
WARM_UP = 300
SMALL, MLSERVER = "small", "MLServer"
THROUGHPUT_S = 3.0
BARS = {"added_median_ms": 3.0, "added_p99_ms": 8.0, "throughput_ratio": 0.5}
LIBRARIES = ["httptools", "msgspec", "uvloop"]


def latencies(ports: dict[str, int], request: bytes, requests: int) -> dict[str, list[float]]:
    """Time requests one at a time, both ways taking turns; in milliseconds."""
    times: dict[str, list[float]] = {way: [] for way in ports}
    with ExitStack() as stack:
        open_to = {way: stack.enter_context(connected(port)) for way, port in ports.items()}
        for number in range(WARM_UP + requests):
            for way, connection in open_to.items():
                start = time.perf_counter()
                answer = ask(connection, request)
                if number >= WARM_UP:
                    times[way].append((time.perf_counter() - start) * 1e3)
                assert answer.status == 200, answer.received
    return times


def throughput(port: int, request: bytes, seconds: float) -> float:
    """Count the requests per second of clients that each wait for their answer."""
    answers = 0
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        for _ in range(CLIENTS):
            connection = stack.enter_context(connected(port))
            selector.register(connection, selectors.EVENT_READ, Answer())
            connection.sendall(request)
        start = time.perf_counter()
        while time.perf_counter() - start < seconds:
            for key, _ in selector.select():
                if key.data.feed(key.fileobj.recv(1 << 18)):  # type: ignore[union-attr]
                    assert key.data.status == 200, key.data.received
                    answers += 1
                    selector.modify(key.fileobj, selectors.EVENT_READ, Answer())
                    key.fileobj.sendall(request)  # type: ignore[union-attr]
        return answers / (time.perf_counter() - start)


def measure(ways: dict[str, Process], request: bytes, requests: int, rounds: int) -> dict[str, Any]:
    """Measure one kind of request in rounds, so that their spread is known."""
    ports = {way: server.port for way, server in ways.items()}
    by_round = [latencies(ports, request, requests) for _ in range(rounds)]
    per_second: dict[str, list[float]] = {way: [] for way in ports}
    filter_us = []
    for _ in range(rounds):
        for way, port in ports.items():
            before = ways["filtered"].processor_seconds()
            per_second[way].append(throughput(port, request, THROUGHPUT_S))
        used = ways["filtered"].processor_seconds() - before
        filter_us.append(used / (per_second["filtered"][-1] * THROUGHPUT_S) * 1e6)
    quantiles = {
        way: {
            "median_ms": [float(np.quantile(times[way], 0.5)) for times in by_round],
            "p99_ms": [float(np.quantile(times[way], 0.99)) for times in by_round],
        }
        for way in ports
    }
    return {
        "requests_per_round": requests,
        "by_round": quantiles,
        "requests_per_second_by_round": per_second,
        "filter_processor_us_per_request_by_round": filter_us,
        **{f"added_{each}": added(quantiles, each) for each in ("median_ms", "p99_ms")},
        "throughput_ratio": statistics.median(per_second["filtered"])
        / statistics.median(per_second["direct"]),
    }


def added(quantiles: dict[str, dict[str, list[float]]], name: str) -> float:
    """Subtract the direct way's time, in the median round of each."""
    return statistics.median(quantiles["filtered"][name]) - statistics.median(
        quantiles["direct"][name]
    )


def check_answers(ways: dict[str, Process], request: bytes, fitted: OutputFilter) -> None:
    """Refuse to time a server that gives other numbers than `apply`."""
    given = {}
    for way, server in ways.items():
        with connected(server.port) as connection:
            given[way] = ask(connection, request).confidences()
    np.testing.assert_array_equal(given["filtered"], fitted.apply(given["direct"]))


def run(upstream: str, requests: int, rounds: int) -> Iterator[dict[str, Any]]:
    """Start an upstream and the filter in front of it, and measure each format."""
    rows, truth = confidences(np.random.default_rng(0), 2000, len(LABELS))
    names = [LABELS[i] for i in truth]
    fitted = OutputFilter.fit(rows, names, classes=LABELS, remove=LABELS[:REMOVED])
    features = np.random.default_rng(1).normal(size=(ROWS, FEATURES))
    servers: list[Process] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fitted.save(folder / "f.safetensors")
        try:
            if upstream == MLSERVER:
                servers.append(start_mlserver(folder))
                formats, output = [False], "predict_proba"  # MLServer does not speak binary
            else:
                servers.append(start_upstream(folder, free_port()))
                formats, output = [False, True], "probabilities"
            servers.append(start_filter(folder, servers[0].port, folder / "f.safetensors"))
            ways = dict(zip(["direct", "filtered"], servers, strict=True))
            for binary in formats:
                request = inference(features, binary=binary, output=output)
                check_answers(ways, request, fitted)
                about = {"upstream": upstream, "format": "binary" if binary else "JSON"}
                yield about | measure(ways, request, requests, rounds)
        finally:
            for server in servers:
                server.kill()


def show(result: dict[str, Any]) -> None:
    what = f"{result['upstream']:9} {result['format']:7}"
    for way, quantiles in result["by_round"].items():
        cells = [spread(values) for values in quantiles.values()]
        cells.append(spread(result["requests_per_second_by_round"][way], digits=0))
        print(f"{what} {way:9} {cells[0]:>22} {cells[1]:>22} {cells[2]:>24}")
    used = spread(result["filter_processor_us_per_request_by_round"], digits=0)
    print(f"{what} the filter's time on the processor, us per request: {used}")
    for name, bar in BARS.items():
        held = result[name] >= bar if name == "throughput_ratio" else result[name] <= bar
        words = "held" if held else "NOT HELD"
        print(f"{what} {name} {result[name]:.2f} (bar {bar:g}: {words})", flush=True)


def spread(values: list[float], digits: int = 2) -> str:
    middle, least, most = statistics.median(values), min(values), max(values)
    return f"{middle:,.{digits}f} ({least:,.{digits}f} to {most:,.{digits}f})"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    versions = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    system = f"{machine()}, {versions}"
    print(system)
    print(f"{'':27} {'median, ms':>22} {'p99, ms':>22} {f'per s, {CLIENTS} clients':>24}")
    before = os.getloadavg()[0]
    upstreams = [SMALL, *([MLSERVER] if find_spec("mlserver") else [])]
    results = []
    for upstream in upstreams:
        for result in run(upstream, options.requests, options.rounds):
            show(result)
            results.append(result)
    if options.out is not None:
        found = {
            "machine": system,
            "rows_and_labels": [ROWS, len(LABELS)],
            "removed_labels": REMOVED,
            "clients": CLIENTS,
            "bars": BARS,
            "load_average_before": before,
            "results": results,
        }
        options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
