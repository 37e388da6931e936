"""`unlabel serve` as a process, and a plain client of the Open Inference Protocol."""

import contextlib
import http.client
import json
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unlabel import OutputFilter
from upstream_model import DTYPES, LABELS

PATIENCE = 20  # seconds until a test gives up


@dataclass
class Served:
    """A running `unlabel serve`."""

    port: int
    process: subprocess.Popen
    log: Path

    def memory(self):
        """Return the memory that the process holds, in MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    def stop(self):
        """End it as an operator would, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


@contextlib.contextmanager
def serving(upstream, models, *options):
    """Start `unlabel serve` in front of an upstream's port, and wait until it answers."""
    port = free_port()
    command = ["serve", "--upstream", f"http://127.0.0.1:{upstream}", "--port", str(port)]
    for name, path in models.items():
        command += ["--model", f"{name}={path}"]
    with tempfile.NamedTemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "unlabel", *command, *map(str, options)],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        served = Served(port, process, Path(log.name))
        try:
            await_live(served)
            yield served
        finally:
            process.kill()
            process.wait()


def await_live(served):
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and served.process.poll() is None:
        with contextlib.suppress(OSError):
            if ask(served.port, "GET", "/v2/health/live").status == 200:
                return
        time.sleep(0.02)
    raise AssertionError(f"unlabel serve did not start:\n{served.log.read_text()}")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def saved_filters(folder):
    """Save two filters for the models of `upstream_model`: one removes labels, one merges some."""
    rng = np.random.default_rng(0)
    rows, truth = rng.dirichlet(np.ones(len(LABELS)), size=800), rng.integers(4, size=800)
    names = [LABELS[i] for i in truth]
    first = OutputFilter.fit(rows, names, classes=LABELS, remove=LABELS[:4])
    plan = {LABELS[5]: None, LABELS[6]: LABELS[7], LABELS[8]: "other"}
    second = OutputFilter.from_plan(plan, classes=LABELS)
    first.save(folder / "first.safetensors")
    second.save(folder / "second.safetensors")
    return first, second


@dataclass
class Answer:
    """The answer to a request."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self):
        length = self.headers.get("Inference-Header-Content-Length")
        return json.loads(self.body[: int(length)] if length else self.body)

    @property
    def tensors(self):
        """The outputs as arrays, by name."""
        at = int(self.headers.get("Inference-Header-Content-Length", 0))
        found = {}
        for output in self.json["outputs"]:
            datatype, shape = output["datatype"], output["shape"]
            size = output.get("parameters", {}).get("binary_data_size")
            if size is None:
                values = output["data"]
            elif datatype == "BYTES":
                values = list(_texts(self.body[at : at + size]))
            else:
                values = np.frombuffer(self.body[at : at + size], dtype=DTYPES[datatype])
            at += size or 0
            dtype = object if datatype == "BYTES" else DTYPES[datatype]
            found[output["name"]] = np.array(values, dtype=dtype).reshape(shape)
        assert at in (0, len(self.body))
        return found


def _texts(encoded):
    at = 0
    while at < len(encoded):
        (length,) = struct.unpack_from("<I", encoded, at)
        yield encoded[at + 4 : at + 4 + length].decode()
        at += 4 + length


def inference(rows, *, binary=False, outputs=None, **more):
    """Write a request for a model's answers; return its headers and its body."""
    rows = np.asarray(rows, dtype=np.float32)
    tensor = {"name": "x", "shape": [*rows.shape], "datatype": "FP32"}
    wanted = [{"name": name, "parameters": {"binary_data": binary}} for name in outputs or []]
    request = {"inputs": [tensor], **({"outputs": wanted} if outputs else {}), **more}
    if not binary:
        tensor["data"] = rows.ravel().tolist()
        return {"Content-Type": "application/json"}, json.dumps(request).encode()
    tensor["parameters"] = {"binary_data_size": rows.nbytes}
    if not outputs:
        request["parameters"] = {**request.get("parameters", {}), "binary_data_output": True}
    text = json.dumps(request).encode()
    headers = {
        "Content-Type": "application/octet-stream",
        "Inference-Header-Content-Length": str(len(text)),
    }
    return headers, text + rows.tobytes()


def ask(port, method, path, body=None, headers=None, timeout=PATIENCE):
    """Send one request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    with contextlib.closing(connection):
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())


def infer(port, rows, *, model="animals", fault=None, binary=False, headers=None, **request):
    """Ask for a model's answers."""
    written, body = inference(rows, binary=binary, **request)
    written |= headers or {}
    if fault is not None:
        written["Fault"] = fault
    return ask(port, "POST", f"/v2/models/{model}/infer", body, written)
