"""A model server that speaks the Open Inference Protocol over HTTP, and fails on demand.

A request's header `Fault` names the failure, with a number where one is needed: `slow=2.5`.

    python tests/helpers/upstream.py [--port 0]        prints its port, and serves until it is ended
"""

import argparse
import asyncio
import re
import socket
import sys
import threading
from collections import namedtuple
from concurrent.futures import Future

import msgspec

import upstream_model
from upstream_faults import CODINGS, EDITS, FAULTS, head

Request = namedtuple("Request", "method target headers body")
PATHS = re.compile(r"/v2/models/([^/]+)(?:/versions/([^/]+))?(/ready|/infer)?")


class Upstream:
    """An upstream in a thread of this process, which records what it is sent.

    Examples
    --------
        with Upstream() as upstream:
            ...  # upstream.port, upstream.received
    """

    def __init__(self, port=0, record=True):
        self.port = port
        self.received = []
        self.record = record
        self.ready = True

    def __enter__(self):
        self.loop = asyncio.new_event_loop()
        started = Future()
        self.thread = threading.Thread(target=self._run, args=[started])
        self.thread.start()
        self.port = started.result()
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.stopping.set)
        self.thread.join()

    def _run(self, started):
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self.serve(started.set_result))
        self.loop.close()

    async def serve(self, started):
        """Serve until it is told to stop; then cut off every connection, as a crash would."""
        self.stopping = asyncio.Event()
        self.connections = set()
        server = await asyncio.start_server(self._connection, "127.0.0.1", self.port, backlog=1024)
        started(server.sockets[0].getsockname()[1])
        await self.stopping.wait()
        server.close()
        for task in self.connections:
            task.cancel()
        await asyncio.gather(*self.connections, return_exceptions=True)

    async def _connection(self, reader, writer):
        self.connections.add(asyncio.current_task())
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while (request := await read_request(reader)) is not None:
                if self.record:
                    self.received.append(request)
                if not await self._answer(request, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self.connections.discard(asyncio.current_task())
            writer.close()

    async def _answer(self, request, writer):
        """Answer a request; return whether the connection stays open."""
        status, headers, body = self._respond(request)
        fault, _, number = request.headers.get("fault", "").partition("=")
        if fault == "slow":
            await asyncio.sleep(float(number))
        elif fault in FAULTS:
            return await FAULTS[fault](writer, headers, body)
        elif fault == "status":
            status, headers, body = int(number), {}, b'{"error": "on demand"}'
        elif fault in CODINGS:
            headers["Content-Encoding"], encode = CODINGS[fault]
            body = encode(body)
        elif fault in EDITS:
            old, new = EDITS[fault]
            edited = re.sub(old, new, body, count=1)
            if edited == body:
                status, headers, edited = 400, {}, b'{"error": "this fault needs another answer"}'
            if "Inference-Header-Content-Length" in headers:
                length = headers["Inference-Header-Content-Length"] + len(edited) - len(body)
                headers["Inference-Header-Content-Length"] = length
            body = edited
        elif fault:
            status, headers, body = 400, {}, b'{"error": "no such fault"}'
        writer.write(head(status, {**headers, "Content-Length": len(body)}) + body)
        await writer.drain()
        return True

    def _respond(self, request):
        path = request.target.partition("?")[0]
        if path == "/v2":
            return as_json({"name": "upstream", "version": "1", "extensions": ["binary_tensor"]})
        if path == "/v2/health/live":
            return 200, {}, b""
        if path == "/v2/health/ready":
            return (200 if self.ready else 503), {}, b""
        found = PATHS.fullmatch(path)
        if found is None or found[1] not in upstream_model.MODELS:
            return as_json({"error": f"{path} is not here"}, 404)
        if found[3] == "/ready":
            return (200 if self.ready else 503), {}, b""
        if found[3] is None:
            return as_json(upstream_model.metadata(found[1]))
        header_length = int(request.headers.get("inference-header-content-length", 0))
        try:
            answer, binary = upstream_model.infer(
                found[1], found[2] or "1", request.body, header_length
            )
        except upstream_model.BadRequestError as error:
            return as_json({"error": str(error)}, 400)
        status, headers, text = as_json(answer)
        if binary:
            headers = {
                "Content-Type": "application/octet-stream",
                "Inference-Header-Content-Length": len(text),
            }
        return status, headers, b"".join([text, *binary])


def as_json(value, status=200):
    return status, {"Content-Type": "application/json"}, msgspec.json.encode(value)


async def read_request(reader):
    try:
        text = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = text.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    headers = {}
    for line in filter(None, lines):
        name, _, value = line.partition(":")
        name = name.lower()
        headers[name] = f"{headers[name]}, {value.strip()}" if name in headers else value.strip()
    if headers.get("transfer-encoding") == "chunked":
        body = b""
        while size := int(await reader.readuntil(b"\r\n"), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readuntil(b"\r\n")
    else:
        body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(method, target, headers, body)


def say(port):
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    upstream = Upstream(options.port, record=False)
    asyncio.run(upstream.serve(say))


if __name__ == "__main__":
    main()
