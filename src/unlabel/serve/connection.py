"""The server's side of an HTTP connection: requests come in whole, one is answered at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import httptools

from unlabel.serve.http_messages import Header, HttpError, Request, Response, error_response

MAX_HEAD = 64 * 1024  # bytes of a request's first line and headers
IDLE_SECONDS = 75.0  # after which a connection without a request is closed
LINGER_SECONDS = 5.0  # for which the rest of a refused body is read, so that the answer arrives
DRAIN_SECONDS = 1.0  # for which an open connection may still send a request after shutdown began


@dataclass(eq=False)
class Connections:
    """All connections of a server, and the limits that they share."""

    handle: Callable[[Request], Awaitable[Response]]
    refused: Callable[[str, int, str], None]  # told of requests that never came in whole
    timeout: float = 30.0
    max_body: int = 64 << 20
    max_requests: int = 256
    open: set[_Connection] = field(default_factory=set)
    in_flight: int = 0
    is_closing: bool = False

    def __call__(self) -> _Connection:
        """Make the protocol of a new connection."""
        return _Connection(self)

    async def shut_down(self) -> None:
        """Answer the requests in flight and those that are on their way, and close."""
        self.is_closing = True
        for connection in [*self.open]:
            connection.shut_down()
        loop = asyncio.get_running_loop()
        end = loop.time() + 2 * self.timeout + DRAIN_SECONDS + LINGER_SECONDS
        while self.open and loop.time() < end:
            await asyncio.sleep(0.01)
        for connection in [*self.open]:
            connection.abort()


class _Connection(asyncio.Protocol):
    """A connection that a client opened."""

    def __init__(self, server: Connections) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: deque[tuple[Request, bool]] = deque()  # requests, and whether to close then
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._is_ending = False  # nothing more is taken in
        self._has_eof = False  # the client has ended its side
        self._is_within = False  # a request has begun
        self._holds_place = False  # the request that comes in counts among those in flight
        self._head_size = 0  # of the headers that came whole
        self._received = 0  # of a head that has not come whole yet

    # What the transport says

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self._client = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else ""
        self._server.open.add(self)
        self._wait_for_request()

    def connection_lost(self, error: Exception | None) -> None:
        self._server.open.discard(self)
        self._release()
        self._set_timer(None)
        self._can_write.set()
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    def eof_received(self) -> bool:
        # A client may end its side after a request and wait for the answer.
        if self._task is None:
            return False
        self._is_ending = self._has_eof = True
        return True

    def data_received(self, data: bytes) -> None:
        if self._is_ending:
            return
        try:
            self._parser.feed_data(data)
        except HttpError as error:
            self._refuse(error)
        except httptools.HttpParserUpgrade:
            self._is_ending = True  # the request is answered as any other, and nothing follows it
        except httptools.HttpParserCallbackError as error:
            cause = error.__context__
            known = isinstance(cause, HttpError)
            self._refuse(cause if known else HttpError(400, "The request is malformed."))
        except httptools.HttpParserError as error:
            self._refuse(HttpError(400, f"The request is not valid HTTP: {error}."))
        else:
            if self._is_within and not self._has_head:
                self._received += len(data)
                if self._received > MAX_HEAD:
                    self._refuse(_too_long_head())
        if len(self._waiting) > 1:  # a client that does not wait for answers waits now
            self._transport.pause_reading()

    # What the parser says

    def on_message_begin(self) -> None:
        self._is_within, self._has_head = True, False
        self._target, self._headers, self._body = b"", list[Header](), list[bytes]()
        self._body_size = self._head_size = self._received = 0
        self._set_timer(self._server.timeout, self._too_slow)

    def on_url(self, url: bytes) -> None:
        self._target += url
        if len(self._target) > MAX_HEAD:
            raise _too_long_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._has_head:  # a trailer, which nobody has checked
            return
        self._headers.append((name.lower(), value))
        self._head_size += len(name) + len(value)
        if self._head_size > MAX_HEAD:
            raise _too_long_head()

    def on_headers_complete(self) -> None:
        is_old = self._parser.get_http_version() == "1.0"  # when connections were for one request
        self._has_head, self._keeps_alive = True, self._parser.should_keep_alive() and not is_old
        named = [name for name, _ in self._headers]
        if named.count(b"host") != 1 and not is_old:
            raise HttpError(400, "The request needs one Host header.")
        found = dict(self._headers)
        if int(found.get(b"content-length", b"0")) > self._server.max_body:
            raise self._too_large()
        if found.get(b"transfer-encoding", b"chunked").strip().lower() != b"chunked":
            raise HttpError(501, "Transfer codings other than chunked are not known.")
        if self._server.in_flight >= self._server.max_requests:
            raise HttpError(
                503,
                f"{self._server.max_requests} requests are in flight already: try again.",
                [(b"retry-after", b"1")],
            )
        self._server.in_flight += 1
        self._holds_place = True
        expected = found.get(b"expect")
        if expected is not None:
            if expected.lower() != b"100-continue":
                raise HttpError(417, "Expectations other than 100-continue are not known.")
            if self._task is None:
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._body_size += len(body)
        if self._body_size > self._server.max_body:
            raise self._too_large()
        self._body.append(body)

    def on_message_complete(self) -> None:
        self._is_within = False
        self._holds_place = False  # it passes to the request
        request = Request(
            self._parser.get_method(),
            self._target,
            self._headers,
            b"".join(self._body),
            self._client,
        )
        self._body = []
        self._waiting.append((request, not self._keeps_alive))
        self._set_timer(None)
        if self._task is None:
            self._task = self._loop.create_task(self._answer_all())

    # Answers

    async def _answer_all(self) -> None:
        while self._waiting:
            request, closing = self._waiting.popleft()
            try:
                response = await self._server.handle(request)
                is_last = not self._waiting and (self._is_ending or self._server.is_closing)
                closing = closing or is_last
                if request.method == b"HEAD":  # whose answer has no body
                    response.body = b""
                is_taken = await self._write(response, closing=closing)
            finally:  # until then the answer takes up memory
                self._server.in_flight -= 1
            if not is_taken or closing:
                break
            self._transport.resume_reading()
        self._task = None
        if self._is_ending or closing:
            self._end()
        elif not self._is_within:
            self._wait_for_request()

    async def _write(self, response: Response, *, closing: bool) -> bool:
        """Write an answer. Return whether the client took it in time."""
        self._transport.writelines([response.head(closing=closing), response.body])
        if self._can_write.is_set():
            return True
        try:
            async with asyncio.timeout(self._server.timeout):
                await self._can_write.wait()
        except TimeoutError:
            self._transport.abort()
            return False
        return not self._transport.is_closing()

    def _refuse(self, error: HttpError) -> None:
        """Answer a request that did not come in whole, and read no more."""
        self._server.in_flight -= self._holds_place
        self._holds_place, self._is_ending = False, True
        self._server.refused(self._client, error.status, str(error))
        self._set_timer(None)
        if self._task is None:  # else the requests before it are answered, and it is cut off
            response = error_response(error.status, str(error), error.headers)
            self._transport.writelines([response.head(closing=True), response.body])
            self._end()

    def _end(self) -> None:
        """Close, but read on for a while: unread bytes would reset the connection."""
        self._is_ending = True
        self._release()
        if self._transport.is_closing():
            return
        self._transport.resume_reading()
        if self._transport.can_write_eof() and not self._has_eof:
            self._transport.write_eof()
            self._set_timer(LINGER_SECONDS, self._transport.abort)
        else:
            self._transport.close()

    def _release(self) -> None:
        places = len(self._waiting) + self._holds_place
        self._server.in_flight -= places
        self._waiting.clear()
        self._holds_place = False

    # Time

    def _wait_for_request(self) -> None:
        seconds = DRAIN_SECONDS if self._server.is_closing else IDLE_SECONDS
        self._set_timer(seconds, self._transport.close)

    def _too_slow(self) -> None:
        self._refuse(
            HttpError(408, f"The request did not arrive within {self._server.timeout:g} seconds.")
        )

    def _set_timer(self, seconds: float | None, then: Callable[[], object] | None = None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if then is None else self._loop.call_later(seconds or 0, then)

    def shut_down(self) -> None:
        """Take at most one more request."""
        if self._task is None and not self._is_within and not self._is_ending:
            self._wait_for_request()

    def abort(self) -> None:
        """Close without another word."""
        self._transport.abort()

    def _too_large(self) -> HttpError:
        return HttpError(413, f"The body has more than {self._server.max_body} bytes.")


def _too_long_head() -> HttpError:
    return HttpError(431, f"The request's headers have more than {MAX_HEAD} bytes.")
