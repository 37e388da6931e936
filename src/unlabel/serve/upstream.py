"""The model server behind the filter: requests to it, over connections that are kept open."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import httptools

from unlabel.errors import UnlabelError
from unlabel.serve.http_messages import Header, HttpError, Response

# Servers close connections that are idle for 5 seconds or more: none is used that may be closing.
IDLE_SECONDS = 4.0
MAX_HEAD = 64 * 1024


class Upstream:
    """A model server at an address; nothing is ever sent elsewhere."""

    def __init__(self, url: str, *, timeout: float, max_body: int) -> None:
        self.timeout, self.max_body = timeout, max_body
        try:
            parts = urlsplit(url)
            port = parts.port
            self._name = parts.netloc.encode("ascii" if parts.netloc.isascii() else "idna")
        except ValueError as error:
            raise UnlabelError(f"{url!r} is not an address: {error}.") from error
        has_more = parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc
        if parts.scheme not in ("http", "https") or not parts.hostname or has_more:
            raise UnlabelError(
                f"{url!r} is not the address of a server: give it as http://host:8080."
            )
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._host, self._port = parts.hostname, port or (443 if self._tls else 80)
        self._idle: list[_Connection] = []

    async def ask(
        self, method: bytes, target: bytes, headers: Sequence[Header], body: bytes
    ) -> Response:
        """Send a request and return the answer, or raise an `HttpError` of status 502 or 504."""
        lines = [b"%s %s HTTP/1.1" % (method, target), b"host: %s" % self._name]
        lines += [b"%s: %s" % header for header in headers]
        if body or method != b"GET":
            lines.append(b"content-length: %d" % len(body))
        head = b"\r\n".join([*lines, b"", b""])
        connection = None
        end = asyncio.get_running_loop().time() + self.timeout
        try:
            connection = self._take() or await self._connect()
            response = await connection.ask(head, body, end)
        except TimeoutError as error:
            raise HttpError(
                504, f"The upstream did not answer within {self.timeout:g} seconds."
            ) from error
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise HttpError(502, f"The upstream could not be reached: {reason}.") from error
        finally:
            if connection is not None:
                self._give_back(connection)
        return response

    def _take(self) -> _Connection | None:
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.can_be_used and now - connection.idle_since < IDLE_SECONDS:
                return connection
            connection.close()
        return None

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self.timeout):
            _, connection = await loop.create_connection(
                lambda: _Connection(self.max_body), self._host, self._port, ssl=self._tls
            )
        return connection

    def _give_back(self, connection: _Connection) -> None:
        if not connection.can_be_used:
            connection.close()
            return
        connection.idle_since = asyncio.get_running_loop().time()
        self._idle.append(connection)
        while self._idle[0].idle_since < connection.idle_since - IDLE_SECONDS:
            self._idle.pop(0).close()

    def close(self) -> None:
        """Close the connections that are kept open."""
        while self._idle:
            self._idle.pop().close()


class _Connection(asyncio.Protocol):
    """A connection to the upstream, with one request at a time."""

    idle_since = 0.0

    def __init__(self, max_body: int) -> None:
        self._max_body = max_body
        self._answer: asyncio.Future[Response] | None = None
        self.can_be_used = False  # it is open, and every byte of the last answer was read

    async def ask(self, head: bytes, body: bytes, end: float) -> Response:
        """Send a request; no answer until the time `end` is a `TimeoutError`."""
        loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._answer, self.can_be_used = loop.create_future(), False
        self._headers, self._body, self._size = list[Header](), list[bytes](), 0
        self._has_head = self._until_end = False
        self._transport.writelines([head, body] if body else [head])
        timer = loop.call_at(end, self._fail, TimeoutError())
        try:
            return await self._answer
        finally:
            timer.cancel()

    def close(self) -> None:
        self._transport.abort()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        self.can_be_used = False
        if error is None and self._has_all_until_end():
            self._complete()
        self._fail("closed the connection before its answer was complete")

    def _has_all_until_end(self) -> bool:
        return self._answer is not None and self._has_head and self._until_end

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._answer.done():  # nobody asked
            self.can_be_used = False
            self._transport.abort()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.can_be_used = False
            self._fail(f"answered with what is not valid HTTP ({error})")
            self._transport.abort()

    def on_message_begin(self) -> None:
        if self._answer is not None and self._answer.done():  # another answer behind the first
            self.can_be_used = False
            self._transport.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._has_head:  # a trailer
            return
        self._headers.append((name.lower(), value))
        self._size += len(name) + len(value)
        if self._size > MAX_HEAD:
            self._give_up(f"answered with headers of more than {MAX_HEAD} bytes")

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        self._keeps_alive = self._parser.should_keep_alive()
        self._has_head, self._size = True, 0
        named = {name for name, _ in self._headers}
        self._until_end = not named & {b"content-length", b"transfer-encoding"}

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._size > self._max_body:
            self._give_up(f"answered with more than {self._max_body} bytes")
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        if self._answer is None or self._answer.done():
            return
        if self._status < 200:  # the answer proper comes behind it
            self._headers, self._has_head = [], False
            return
        self.can_be_used = self._keeps_alive and not self._until_end
        self._complete()

    def _complete(self) -> None:
        if self._answer is not None and not self._answer.done():
            response = Response(self._status, self._headers, b"".join(self._body))
            self._headers, self._body = [], []
            self._answer.set_result(response)

    def _give_up(self, problem: str) -> None:
        self._body = []
        self._fail(problem)
        self.can_be_used = False
        self._transport.abort()

    def _fail(self, problem: str | Exception) -> None:
        if self._answer is not None and not self._answer.done():
            if isinstance(problem, str):
                problem = HttpError(502, f"The upstream {problem}.")
            self._answer.set_exception(problem)
