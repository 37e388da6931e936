"""Requests as bytes, for those that no library would send."""

import contextlib
import http.client
import select
import socket
from typing import NamedTuple


class Reply(NamedTuple):
    """The status of an answer, None where the connection was closed without one, and its body."""

    status: int | None
    body: bytes


def exchange(port, parts, timeout):
    """Send parts until an answer begins, and read it; a longer wait is an error of the test."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as connection:
        for part in parts:
            try:
                connection.sendall(part)
            except ConnectionError:
                break
            if select.select([connection], [], [], 0)[0]:
                break
        response = http.client.HTTPResponse(connection, method="POST")
        try:
            response.begin()
        except (ConnectionError, http.client.HTTPException):
            return Reply(None, b"")
        body = b""
        with contextlib.suppress(ConnectionError, http.client.IncompleteRead):
            body = response.read()
        return Reply(response.status, body)
