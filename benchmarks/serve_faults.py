"""`unlabel serve` under load and faults: every answer is right, or a clear error.

Clients ask while the filter's file is replaced, now and then by a broken one, upstream is killed
and started again, and some of its answers are cut off or malformed. An answer must be, to the bit,
that of `OutputFilter.apply` with one of the two filters, or an error of the protocol; none may take
longer than the limit. Memory is what the server's process holds: after a quarter of the requests,
and at the end.

    python benchmarks/serve_faults.py [--requests 20000] [--reloads 20] [--kills 3] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from servers import (
    LABELS,
    Answer,
    Process,
    ask,
    connected,
    free_port,
    inference,
    start_filter,
    start_upstream,
)
from unlabel import OutputFilter
from workload import confidences, machine

CLIENTS, INPUTS = 32, 60
TIMEOUT_S, HANG_S = 1, 15  # the server's limit on upstream, and ours on the server
BACK_OFF_S = 0.05  # after an error, or errors would be most of the answers
GROWTH_MIB = 8  # that memory may vary by
FAULTY = 0.04  # of the requests
FAULTS = ["cut", "drop", "cut_chunk", "malformed", "shape", "status=500", "slow=2"]
FAULTS += ["gzip", "deflate", "chunked"]  # which are none, if they are understood
IN_JSON = ["nan", "short"]
NAMES = ["first", "second"]


class Case(NamedTuple):
    """An input, and the answers of the two filters."""

    rows: np.ndarray
    expected: list[np.ndarray]


class Load:
    """Clients that ask until enough was asked and every event has come about."""

    def __init__(self, port: int, cases: list[Case], requests: int) -> None:
        self.port, self.cases, self.requests = port, cases, requests
        self.outcomes: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.digests: dict[str, set[str | None]] = {name: set() for name in NAMES}
        self.longest_s = 0.0
        self.tickets = count()
        self.events_over = threading.Event()
        self.lock = threading.Lock()

    @property
    def asked(self) -> int:
        return self.outcomes.total()

    def client(self) -> None:
        connection: socket.socket | None = None
        while not (self.asked >= self.requests and self.events_over.is_set()):
            rng = np.random.default_rng(next(self.tickets))
            case = self.cases[rng.integers(len(self.cases))]
            headers, binary = {}, bool(rng.integers(2))
            if rng.random() < FAULTY:
                headers["Fault"] = str(rng.choice(FAULTS if binary else [*FAULTS, *IN_JSON]))
            request = inference(case.rows, binary=binary, headers=headers)
            begun = time.perf_counter()
            try:
                if connection is None:
                    connection = socket.create_connection(("127.0.0.1", self.port), timeout=HANG_S)
                answer = ask(connection, request)
            except (OSError, ValueError) as error:
                connection = None
                hung = isinstance(error, TimeoutError)
                self.count("hung" if hung else f"no answer: {error!r}", begun, is_wrong=True)
                continue
            if (answer.header("connection") or "") == "close":
                connection.close()
                connection = None
            self.judge(case, answer, begun)
        if connection is not None:
            connection.close()

    def judge(self, case: Case, answer: Answer, begun: float) -> None:
        if answer.status != 200:
            message = None
            with suppress(ValueError):
                message = json.loads(answer.body).get("error")
            clear = 400 <= answer.status < 600 and isinstance(message, str) and message
            self.count(f"error {answer.status}", begun, is_wrong=not clear)
            time.sleep(BACK_OFF_S)
            return
        given = answer.confidences()
        for name, expected in zip(NAMES, case.expected, strict=True):
            if given.shape == expected.shape and given.tobytes() == expected.tobytes():
                self.count(f"right: {name} filter", begun)
                with self.lock:
                    self.digests[name].add(answer.header("unlabel-filter"))
                return
        self.count("wrong numbers", begun, is_wrong=True)

    def count(self, outcome: str, begun: float, *, is_wrong: bool = False) -> None:
        with self.lock:
            self.outcomes[outcome] += 1
            self.longest_s = max(self.longest_s, time.perf_counter() - begun)
            if is_wrong:
                self.wrong.append(outcome)


class Events:
    """Reloads and crashes, spread evenly over the load."""

    def __init__(self, load: Load, folder: Path, upstream: Process, server: Process) -> None:
        self.load, self.folder, self.upstream, self.server = load, folder, upstream, server
        self.reloads_seen = 0
        self.warm_mib = 0.0

    def run(self, reloads: int, kills: int) -> None:
        due = [((at + 1) / (reloads + 1), "reload") for at in range(reloads)]
        due += [((at + 1) / (kills + 1), "kill") for at in range(kills)]
        due += [(0.25, "measure")]
        turn = 0
        for share, event in sorted(due):
            while self.load.asked < share * self.load.requests:
                time.sleep(0.005)
            if event == "kill":
                self.upstream.kill()
                time.sleep(0.2)
                self.upstream = start_upstream(self.folder, self.upstream.port)
            elif event == "measure":
                self.warm_mib = self.server.resident_mib()
            else:
                turn += 1
                self.reload(turn)
        self.load.events_over.set()

    def reload(self, turn: int) -> None:
        """Put the other filter in place, and wait for an answer that it gave."""
        name = NAMES[turn % 2]
        if turn % 5 == 2:  # a file that is not whole, which leaves the filter as it was
            (self.folder / "live.safetensors").write_bytes((self.folder / name).read_bytes()[:999])
            self.server.process.send_signal(signal.SIGHUP)
            time.sleep(0.1)
        shutil.copy(self.folder / name, self.folder / "new")
        os.replace(self.folder / "new", self.folder / "live.safetensors")
        if turn % 4 < 2:  # the others are noticed without a signal
            self.server.process.send_signal(signal.SIGHUP)
        before = self.load.outcomes[f"right: {name} filter"]
        until = time.monotonic() + HANG_S
        while time.monotonic() < until:
            if self.load.outcomes[f"right: {name} filter"] > before:
                self.reloads_seen += 1
                return
            time.sleep(0.005)


def filters() -> list[OutputFilter]:
    rows, truth = confidences(np.random.default_rng(0), 2000, len(LABELS))
    names = [LABELS[i] for i in truth]
    first = OutputFilter.fit(rows, names, classes=LABELS, remove=LABELS[:10])
    plan = {LABELS[5]: None, LABELS[6]: "other"}
    return [first, OutputFilter.from_plan(plan, classes=LABELS)]


def cases(port: int, fitted: list[OutputFilter]) -> list[Case]:
    """Ask upstream itself, once per input, and filter its answers here."""
    rng, found = np.random.default_rng(1), []
    with connected(port) as connection:
        for _ in range(INPUTS):
            rows = rng.normal(size=(rng.integers(1, 9), 4))
            given = ask(connection, inference(rows, binary=True)).confidences()
            found.append(Case(rows, [each.apply(given) for each in fitted]))
    return found


def run(folder: Path, requests: int, reloads: int, kills: int) -> dict[str, Any]:
    fitted = filters()
    for name, each in zip(NAMES, fitted, strict=True):
        each.save(folder / f"{name}.safetensors")
        (folder / f"{name}.safetensors").rename(folder / name)
    live = folder / "live.safetensors"
    shutil.copy(folder / NAMES[0], live)
    upstream = start_upstream(folder, free_port())
    server = start_filter(folder, upstream.port, live, "--timeout", str(TIMEOUT_S))
    load = Load(server.port, cases(upstream.port, fitted), requests)
    events = Events(load, folder, upstream, server)
    begun = time.perf_counter()
    try:
        clients = [threading.Thread(target=load.client) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        events.run(reloads, kills)
        for client in clients:
            client.join()
        end_mib = server.resident_mib()
    finally:
        load.events_over.set()
        load.requests = 0
        server.kill()
        events.upstream.kill()
    return {
        "requests": load.asked,
        "seconds": time.perf_counter() - begun,
        "outcomes": dict(sorted(load.outcomes.items())),
        "reloads_seen": events.reloads_seen,
        "upstream_killed": kills,
        "longest_s": load.longest_s,
        "memory_mib_after_a_quarter_and_at_the_end": [events.warm_mib, end_mib],
        "digests": {name: sorted(map(str, found)) for name, found in load.digests.items()},
        "wrong": sorted({*load.wrong}),
    }


def complaints(found: dict[str, Any], reloads: int) -> list[str]:
    """Say what was not as promised."""
    said = [f"{each} is not an answer" for each in found["wrong"]]
    if found["reloads_seen"] != reloads:
        said.append(f"{found['reloads_seen']} of {reloads} reloads were seen")
    before, after = found["memory_mib_after_a_quarter_and_at_the_end"]
    if after > before + GROWTH_MIB:
        said.append(f"memory grew from {before:.1f} to {after:.1f} MiB")
    first, second = found["digests"].values()
    if not (len(first) == len(second) == 1 and first != second):
        said.append(f"the digests {first} and {second} are not one for each filter")
    return said


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--reloads", type=int, default=20)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    print(machine(), flush=True)
    with tempfile.TemporaryDirectory() as name:
        found = run(Path(name), options.requests, options.reloads, options.kills)
    print(json.dumps(found, indent=1))
    if options.out is not None:
        options.out.write_text(json.dumps({"machine": machine(), **found}, indent=1) + "\n")
    said = complaints(found, options.reloads)
    if said:
        raise SystemExit("\n".join(said))
    print("Every answer was right, or a clear error.")


if __name__ == "__main__":
    main()
