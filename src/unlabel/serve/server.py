"""The answers of `unlabel serve`: requests go upstream, and answers come back filtered."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, TypeVar

from unlabel.errors import UnlabelError
from unlabel.serve.asked import Asked, RequestError, ask_again, prepare, read_request
from unlabel.serve.forwarding import (
    changed_request,
    error_message,
    passed,
    rewritten,
    unchanged,
    understood,
)
from unlabel.serve.http_messages import (
    JSON,
    JSON_LENGTH,
    Header,
    HttpError,
    Request,
    Response,
    decoded,
    error_response,
    json_length,
)
from unlabel.serve.logs import Log
from unlabel.serve.metrics import CONTENT_TYPE, Metrics
from unlabel.serve.paths import Path, read_path
from unlabel.serve.protocol import Message, ProtocolError, read_message
from unlabel.serve.reloading import Loaded, WatchedFilter
from unlabel.serve.served_filter import Changes, MissingConfidencesError
from unlabel.serve.upstream import Upstream

# A thread takes over bodies that are larger: other requests would wait for them.
IN_A_THREAD = 256 * 1024
NO_MODEL = ""
FILTER, SHADOW = b"unlabel-filter", b"unlabel-shadow"
T = TypeVar("T")


@dataclass(eq=False)
class Handling:
    """A request on its way: what its line in the log says."""

    request: Request
    model: str = NO_MODEL
    facts: dict[str, Any] = field(default_factory=dict)
    upstream_seconds: float = 0.0


@dataclass(eq=False)
class Service:
    """What the server answers."""

    upstream: Upstream
    filters: Mapping[str, WatchedFilter]
    only_filtered: bool = False
    shadow: bool = False
    metrics: Metrics = field(default_factory=Metrics)
    log: Log = field(default_factory=Log)
    in_flight: Callable[[], int] = lambda: 0

    async def handle(self, request: Request) -> Response:
        """Answer a request, whatever happens."""
        start = perf_counter()
        handling = Handling(request)
        try:
            response = await self._answer(handling)
        except HttpError as error:
            response = error_response(error.status, str(error), error.headers)
        except RequestError as error:
            response = error_response(400, str(error))
        except UnlabelError as error:
            response = error_response(502, str(error))
        except Exception:
            self.log.write("error", traceback=traceback.format_exc()[-2000:])
            response = error_response(500, "The request could not be answered.")
        self._note(handling, response, perf_counter() - start)
        return response

    def refused(self, client: str, status: int, message: str) -> None:
        """Note a request that never came in whole."""
        self.metrics.request(NO_MODEL, status)
        self.log.write("request", client=client, status=status, error=message)

    def _note(self, handling: Handling, response: Response, seconds: float) -> None:
        request, upstream = handling.request, handling.upstream_seconds
        self.metrics.request(handling.model, response.status)
        self.log.write(
            "request",
            client=request.client,
            method=request.method.decode("latin-1"),
            path=request.target.decode("latin-1"),
            status=response.status,
            ms=round(seconds * 1e3, 3),
            upstream_ms=round(upstream * 1e3, 3) if upstream else None,
            bytes_in=len(request.body),
            bytes_out=len(response.body),
            **handling.facts,
            error=error_message(response) if response.status >= 400 else None,
        )

    async def _answer(self, handling: Handling) -> Response:
        request = handling.request
        path = read_path(request.target)
        if request.method not in (b"GET", b"POST"):
            raise HttpError(405, "Only GET and POST are served.", [(b"allow", b"GET, POST")])
        if path.parts == ("metrics",):
            text = self.metrics.text(self.in_flight())
            return Response(200, [(b"content-type", CONTENT_TYPE)], text)
        if path.parts == ("v2", "health", "live"):
            return Response(200, [JSON])
        if path.parts == ("v2", "health", "ready"):
            return await self._ready(handling, path)
        if path.parts == ("v2",):
            return await self._pass(handling, path)
        if path.model is None:
            raise HttpError(404, f"{'/'.join(['', *path.parts])} is not served.")
        watched = self.filters.get(path.model)
        if watched is None:
            if self.only_filtered:
                raise HttpError(404, f"The model {path.model!r} has no filter.")
            return await self._pass(handling, path)
        handling.model = path.model
        loaded = watched.loaded  # one filter, however long the request takes
        handling.facts.update(model=path.model, filter=loaded.digest[:12])
        match request.method, path.of_model:
            case b"POST", ("infer",):
                if self.shadow:
                    return await self._infer_in_shadow(handling, path, loaded)
                return await self._infer(handling, path, loaded)
            case b"GET", ():
                return await self._metadata(handling, path, loaded)
            case b"GET", ("ready",):
                return await self._pass(handling, path)
        raise HttpError(
            404, f"Of the model {path.model!r}, only infer, ready and its metadata are served."
        )

    async def _ready(self, handling: Handling, path: Path) -> Response:
        try:
            return await self._pass(handling, path)
        except HttpError as error:
            raise HttpError(503, f"Not ready: {error}") from error

    async def _ask(
        self, handling: Handling, path: Path, body: bytes, headers: list[Header]
    ) -> Response:
        start = perf_counter()
        try:
            return await self.upstream.ask(handling.request.method, path.target, headers, body)
        finally:
            seconds = perf_counter() - start
            handling.upstream_seconds += seconds
            self.metrics.upstream(handling.model, seconds)

    async def _pass(self, handling: Handling, path: Path) -> Response:
        """Send a request upstream as it is, and pass the answer on."""
        request = handling.request
        return passed(await self._ask(handling, path, request.body, unchanged(request)))

    async def _metadata(self, handling: Handling, path: Path, loaded: Loaded) -> Response:
        headers = understood(handling.request)
        answer = await self._ask(handling, path, handling.request.body, headers)
        if self.shadow or not 200 <= answer.status < 300:
            return passed(answer)
        body = loaded.served.rewrite_metadata(self._decoded(answer))
        return rewritten(answer, body, [(FILTER, _digest(loaded))])

    async def _infer(self, handling: Handling, path: Path, loaded: Loaded) -> Response:
        request, served = handling.request, loaded.served

        def work() -> tuple[Message, Asked, bytes, list[Header]]:
            message = self._message(request)
            asked, changed = prepare(message, served.output)
            served.check(asked)
            return message, asked, *changed_request(message, changed, understood(request))

        message, asked, body, headers = await self._off_the_loop(len(request.body), work)
        answer = await self._ask(handling, path, body, headers)
        if not 200 <= answer.status < 300:
            return passed(answer)
        try:
            return await self._filtered(handling, answer, asked, loaded)
        except MissingConfidencesError as error:
            # A server may give only some outputs on its own account, such as the labels.
            if served.output is None or served.output in error.given or not error.given:
                raise
            asked, again = ask_again(asked, error.given, served.output)
        body, headers = changed_request(message, again, headers)
        answer = await self._ask(handling, path, body, headers)
        if not 200 <= answer.status < 300:
            return passed(answer)
        return await self._filtered(handling, answer, asked, loaded)

    async def _filtered(
        self, handling: Handling, answer: Response, asked: Asked, loaded: Loaded
    ) -> Response:
        def work() -> tuple[bytes, int, Changes]:
            return loaded.served.rewrite(self._read(answer), asked)

        start = perf_counter()
        body, length, changes = await self._off_the_loop(len(answer.body), work)
        self._count(handling, perf_counter() - start, changes)
        headers = [(FILTER, _digest(loaded))]
        if length < len(body) or answer.header(JSON_LENGTH) is not None:
            headers.append((JSON_LENGTH, b"%d" % length))
        return rewritten(answer, body, headers)

    async def _infer_in_shadow(self, handling: Handling, path: Path, loaded: Loaded) -> Response:
        """Answer as the model does, and count what the filter would change."""
        request = handling.request
        headers = understood(request)
        answer = await self._ask(handling, path, request.body, headers)
        if 200 <= answer.status < 300:

            def work() -> Changes:
                asked, _ = prepare(self._message(request), loaded.served.output)
                return loaded.served.rewrite(self._read(answer), asked)[2]

            start = perf_counter()
            try:
                changes = await self._off_the_loop(len(answer.body), work)
                self._count(handling, perf_counter() - start, changes)
            except UnlabelError as error:
                self.metrics.not_filtered(handling.model)
                handling.facts["not_filtered"] = str(error)
        response = passed(answer)
        response.headers.append((SHADOW, _digest(loaded)))
        return response

    def _count(self, handling: Handling, seconds: float, changes: Changes) -> None:
        self.metrics.filtered(handling.model, seconds, changes)
        handling.facts.update(
            filter_ms=round(seconds * 1e3, 3), rows=changes.rows, changed=changes.changed
        )

    async def _off_the_loop(self, size: int, work: Callable[[], T]) -> T:
        if size <= IN_A_THREAD:
            return work()
        return await asyncio.get_running_loop().run_in_executor(None, work)

    def _message(self, request: Request) -> Message:
        """Read a request's body, as far as it is needed."""
        try:
            coding = request.header(b"content-encoding")
            body = decoded(request.body, coding, self.upstream.max_body)
            length = json_length(request.header(JSON_LENGTH))
            return read_request(body, length)
        except OverflowError as error:
            raise HttpError(413, f"The request's body is too large: {error}.") from error
        except UnlabelError:
            raise
        except ValueError as error:
            raise HttpError(400, f"The request's body cannot be read: {error}.") from error

    def _read(self, answer: Response) -> Message:
        try:
            length = json_length(answer.header(JSON_LENGTH))
        except ValueError as error:
            raise ProtocolError(f"The upstream's answer cannot be read: {error}.") from error
        return read_message(self._decoded(answer), length, "The upstream's answer")

    def _decoded(self, answer: Response) -> bytes:
        try:
            return decoded(answer.body, answer.header(b"content-encoding"), self.upstream.max_body)
        except (ValueError, OverflowError) as error:
            raise ProtocolError(f"The upstream's answer cannot be read: {error}.") from error


def _digest(loaded: Loaded) -> bytes:
    return b"sha256:" + loaded.digest.encode()
