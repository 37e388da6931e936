"""`unlabel serve` in a thread of this process, and bytes to talk to it with."""

import asyncio
import io
import json
import socket
import threading
import time

from prometheus_client.parser import text_string_to_metric_families

from serving import PATIENCE, ask
from unlabel.serve import ServedFilter
from unlabel.serve.logs import Log
from unlabel.serve.reloading import WatchedFilter
from unlabel.serve.running import Options, Server


class Running:
    """A server in a thread of this process."""

    def __init__(self, path, upstream, served=ServedFilter, **options):
        watched = {"animals": WatchedFilter(path, served)}
        address = f"http://127.0.0.1:{upstream.port}"
        self.server = Server(Options(upstream=address, port=0, **options), watched)
        self._log = io.BytesIO()
        self.server.service.log = Log(self._log)

    def __enter__(self):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(
            target=self.loop.run_until_complete, args=[self.server.run()]
        )
        self.thread.start()
        self.port = self.await_event("listening")["port"]
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.server.stop)
        self.thread.join(PATIENCE)
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    @property
    def log(self):
        return [json.loads(line) for line in self._log.getvalue().splitlines()]

    def await_event(self, name, number=1):
        """Wait until the log has so many lines on an event, and return the last of them."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            found = [line for line in self.log if line["event"] == name]
            if len(found) >= number:
                return found[number - 1]
            time.sleep(0.005)
        raise AssertionError(f"no {name} in {self.log}")

    def metrics(self):
        text = ask(self.port, "GET", "/metrics").body.decode()
        return {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }


def talk(port, *parts):
    """Send parts, each after something came back for the one before; return all that came."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        received = b""
        for part in parts:
            connection.sendall(part)
            received += connection.recv(1 << 16)
        connection.shutdown(socket.SHUT_WR)
        while data := connection.recv(1 << 16):
            received += data
    return received


def head(method=b"POST", target=b"/v2/models/animals/infer", **headers):
    lines = [b"%s %s HTTP/1.1" % (method, target), b"Host: x"]
    lines += [f"{name.replace('_', '-')}: {value}".encode() for name, value in headers.items()]
    return b"\r\n".join([*lines, b"", b""])
