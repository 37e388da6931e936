"""Shared by the benchmarks of `unlabel serve`: its process, an upstream's, and requests."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

UPSTREAM = Path(__file__).parent.parent / "tests" / "helpers" / "upstream.py"
MODEL, FEATURES = "animals", 4
LABELS = [f"label {number:02}" for number in range(100)]  # of the upstream's models
DTYPES = {"FP32": "<f4", "FP64": "<f8"}
READY = f"GET /v2/models/{MODEL}/ready HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
START_S = 60


class Process:
    """A server that runs beside this process, on a port of the loopback address."""

    def __init__(self, command: list[str], port: int, folder: Path) -> None:
        self.port = port
        self.log = folder / f"{port}.log"
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output, cwd=folder)
        self._await()

    def _await(self) -> None:
        until = time.monotonic() + START_S
        while time.monotonic() < until and self.process.poll() is None:
            with suppress(OSError), connected(self.port) as connection:
                connection.sendall(READY)
                if connection.recv(1 << 16).startswith(b"HTTP/1.1 200"):
                    return
            time.sleep(0.02)
        raise SystemExit(f"A server did not start:\n{self.log.read_text()}")

    def resident_mib(self) -> float:
        """Return the memory that the process holds now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    def processor_seconds(self) -> float:
        """Return the time that the process has had on all cores."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def connected(port: int, timeout: float = 30) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield connection


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def start_upstream(folder: Path, port: int) -> Process:
    command = [sys.executable, str(UPSTREAM), "--port", str(port)]
    return Process(command, port, folder)


def start_mlserver(folder: Path) -> Process:
    """Start MLServer, as it comes, with a scikit-learn model of as many labels and features."""
    import joblib
    from sklearn.linear_model import LogisticRegression

    rng, port = np.random.default_rng(0), free_port()
    labels = np.repeat(LABELS, 5)
    model = LogisticRegression().fit(rng.normal(size=(len(labels), FEATURES)), labels)
    joblib.dump(model, folder / "model.joblib")
    settings = {"http_port": port, "grpc_port": free_port(), "metrics_port": free_port()}
    settings |= {"host": "127.0.0.1", "parallel_workers": 0}  # type: ignore[dict-item]
    (folder / "settings.json").write_text(json.dumps(settings))
    about = {
        "name": MODEL,
        "implementation": "mlserver_sklearn.SKLearnModel",
        "parameters": {"uri": "./model.joblib"},
    }
    (folder / "model-settings.json").write_text(json.dumps(about))
    return Process([str(Path(sys.executable).with_name("mlserver")), "start", "."], port, folder)


def start_filter(folder: Path, upstream: int, filter_file: Path, *options: str) -> Process:
    port = free_port()
    command = [sys.executable, "-m", "unlabel", "serve", "--port", str(port), *options]
    command += ["--upstream", f"http://127.0.0.1:{upstream}", "--model", f"{MODEL}={filter_file}"]
    return Process(command, port, folder)


def inference(
    rows: np.ndarray,
    *,
    binary: bool,
    output: str = "probabilities",
    headers: dict[str, str] | None = None,
) -> bytes:
    """Write a whole request, with its headers."""
    flat = rows.astype("<f4")
    tensor: dict[str, object] = {"name": "x", "shape": [*rows.shape], "datatype": "FP32"}
    outputs = [{"name": output, "parameters": {"binary_data": binary}}]
    kind = "application/octet-stream" if binary else "application/json"
    named = {"Host": "localhost", "Content-Type": kind, **(headers or {})}
    if binary:
        tensor["parameters"] = {"binary_data_size": flat.nbytes}
    else:
        tensor["data"] = flat.ravel().tolist()
    text = json.dumps({"inputs": [tensor], "outputs": outputs}).encode()
    if binary:
        named["Inference-Header-Content-Length"] = str(len(text))
    body = text + (flat.tobytes() if binary else b"")
    named["Content-Length"] = str(len(body))
    lines = [f"POST /v2/models/{MODEL}/infer HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in named.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Answer:
    """The bytes of an answer, as far as they have come."""

    def __init__(self) -> None:
        self.received = b""
        self.body_at = 0
        self.length = 0

    def feed(self, data: bytes) -> bool:
        """Take more bytes; return whether the answer is complete."""
        self.received += data
        if not self.body_at:
            end = self.received.find(b"\r\n\r\n")
            if end < 0:
                return False
            self.body_at = end + 4
            self.length = int(self.header("content-length") or 0)
        return len(self.received) >= self.body_at + self.length

    def header(self, name: str) -> str | None:
        text = self.received[: self.body_at].decode("latin-1").lower()
        _, found, rest = text.partition(f"\r\n{name}:")
        return rest.partition("\r\n")[0].strip() if found else None

    @property
    def status(self) -> int:
        return int(self.received[9:12])

    @property
    def body(self) -> bytes:
        return self.received[self.body_at :]

    def confidences(self) -> np.ndarray:
        """Return the first output."""
        length = int(self.header("inference-header-content-length") or 0)
        text = json.loads(self.body[:length] if length else self.body)
        (output,) = text["outputs"]
        if length:
            values = np.frombuffer(self.body[length:], dtype=DTYPES[output["datatype"]])
        else:
            values = np.array(output["data"], dtype=DTYPES[output["datatype"]])
        return values.reshape(output["shape"])


def ask(connection: socket.socket, request: bytes) -> Answer:
    """Send a request and wait for its answer."""
    connection.sendall(request)
    answer = Answer()
    while not answer.feed(data := connection.recv(1 << 18)):
        if not data:
            raise ConnectionError("The connection was closed before the answer's end.")
    return answer
