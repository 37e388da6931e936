"""The life of a server: it listens, loads filters again, and ends when it is told to."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from unlabel.errors import UnlabelError
from unlabel.serve.connection import Connections
from unlabel.serve.paths import require_model_name
from unlabel.serve.reloading import WatchedFilter
from unlabel.serve.server import Service
from unlabel.serve.upstream import Upstream

WATCH_SECONDS = 1.0
BACKLOG = 1024


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a server runs."""

    upstream: str
    host: str = "127.0.0.1"
    port: int = 9000
    only_filtered: bool = False
    shadow: bool = False
    max_body: int = 64 << 20
    timeout: float = 30.0
    max_requests: int = 256


class Server:
    """A server with its filters; `run` returns when it has been told to stop."""

    def __init__(self, options: Options, filters: Mapping[str, WatchedFilter]) -> None:
        for name in filters:
            require_model_name(name)
        self.options, self.filters = options, filters
        upstream = Upstream(options.upstream, timeout=options.timeout, max_body=options.max_body)
        self.service = Service(upstream, filters, options.only_filtered, options.shadow)
        self.connections = Connections(
            self.service.handle,
            self.service.refused,
            options.timeout,
            options.max_body,
            options.max_requests,
        )
        self.service.in_flight = lambda: self.connections.in_flight

    async def run(self) -> None:
        """Serve until `stop` is called or a signal says so."""
        loop = asyncio.get_running_loop()
        self._stop, self._reload_now = asyncio.Event(), asyncio.Event()
        listening = _listen(self.options.host, self.options.port)
        server = await loop.create_server(self.connections, sock=listening)
        self._on_signals()
        self.service.log.write(
            "listening",
            host=self.options.host,
            port=listening.getsockname()[1],
            upstream=self.options.upstream,
            models=[*self.filters],
            shadow=self.options.shadow or None,
        )
        watching = loop.create_task(self._watch())
        await self._stop.wait()
        self.service.log.write("stopping", in_flight=self.connections.in_flight)
        watching.cancel()
        await self._accept_waiting(listening)
        server.close()
        await self.connections.shut_down()
        self.service.upstream.close()
        self.service.log.write("stopped")

    def stop(self) -> None:
        """Take no more connections, answer what is in flight, and end."""
        self._stop.set()

    def _on_signals(self) -> None:
        loop = asyncio.get_running_loop()
        with suppress(NotImplementedError, ValueError, RuntimeError):  # Windows, and other threads
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self.stop)
            loop.add_signal_handler(signal.SIGHUP, self._reload_now.set)

    async def _accept_waiting(self, listening: socket.socket) -> None:
        """Take the connections that clients have opened already: closing would reset them."""
        loop = asyncio.get_running_loop()
        with suppress(BlockingIOError, OSError):
            while True:
                accepted, _ = listening.accept()
                accepted.setblocking(False)
                await loop.connect_accepted_socket(self.connections, accepted)
        with suppress(OSError):  # at once: the loop closes it later, and more would come until then
            listening.shutdown(socket.SHUT_RDWR)

    async def _watch(self) -> None:
        """Load filters again when their files change, or all of them on SIGHUP."""
        loop = asyncio.get_running_loop()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(WATCH_SECONDS):
                    await self._reload_now.wait()
            is_forced = self._reload_now.is_set()
            self._reload_now.clear()
            for name, watched in self.filters.items():
                await loop.run_in_executor(None, self._reload, name, watched, is_forced)

    def _reload(self, name: str, watched: WatchedFilter, is_forced: bool) -> None:
        try:
            if not watched.reload(force=is_forced):
                return
        except Exception as error:  # or nobody would watch the files any longer
            sentence = str(error) if isinstance(error, UnlabelError | OSError) else f"{error!r}."
            problem: str | None = f"{sentence} The filter stays as it was."
        else:
            problem = None
        self.service.metrics.reload(name, worked=problem is None)
        self.service.log.write(
            "reload", model=name, filter=watched.loaded.digest[:12], error=problem
        )


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UnlabelError(
            f"{host}:{port} cannot be listened on: {reason}; choose another port.",
            argument="port",
        ) from error
    listening.setblocking(False)
    return listening


def run(options: Options, filters: Mapping[str, WatchedFilter]) -> None:
    """Serve until a signal says to stop."""
    server = Server(options, filters)
    try:
        import uvloop
    except ModuleNotFoundError:  # it does not exist for Windows
        asyncio.run(server.run())
    else:
        uvloop.run(server.run())
