"""Requests and answers of HTTP: their headers, and codings of their content."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from http import HTTPStatus

import msgspec

from unlabel.errors import UnlabelError

Header = tuple[bytes, bytes]  # the name in lower case

JSON = (b"content-type", b"application/json")
HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
    b"transfer-encoding upgrade".split()
)
# Of a body that changes, these no longer hold.
OF_THE_BODY = frozenset(
    b"content-length content-encoding inference-header-content-length etag content-md5 digest "
    b"content-digest repr-digest last-modified accept-ranges".split()
)
JSON_LENGTH = b"inference-header-content-length"
WINDOW = 32 + zlib.MAX_WBITS  # finds out whether it is gzip or deflate


class HttpError(UnlabelError):
    """A request that is answered with an error."""

    def __init__(self, status: int, message: str, headers: Iterable[Header] = ()) -> None:
        super().__init__(message)
        self.status, self.headers = status, (*headers,)


@dataclass(frozen=True, slots=True)
class Request:
    """A request that came in whole."""

    method: bytes
    target: bytes
    headers: list[Header]
    body: bytes
    client: str = ""

    def header(self, name: bytes) -> bytes | None:
        """Find the value of a header, None if there is none; more than one is an error."""
        values = [value for each, value in self.headers if each == name]
        if len(values) > 1:
            raise HttpError(400, f"The request has the header {name.decode()} twice.")
        return values[0] if values else None


@dataclass(slots=True)
class Response:
    """An answer."""

    status: int
    headers: list[Header] = field(default_factory=list)
    body: bytes = b""

    def header(self, name: bytes) -> bytes | None:
        """Find the first value of a header."""
        return next((value for each, value in self.headers if each == name), None)

    def head(self, *, closing: bool) -> bytes:
        """Write everything before the body."""
        lines = [b"HTTP/1.1 %d %s" % (self.status, _phrase(self.status))]
        lines += [b"%s: %s" % header for header in self.headers]
        if self.status != HTTPStatus.NO_CONTENT:
            lines.append(b"content-length: %d" % len(self.body))
        if closing:
            lines.append(b"connection: close")
        return b"\r\n".join([*lines, b"", b""])


def error_response(status: int, message: str, headers: Iterable[Header] = ()) -> Response:
    """Return an error as the protocol writes it."""
    return Response(status, [JSON, *headers], msgspec.json.encode({"error": message}))


def _phrase(status: int) -> bytes:
    try:
        return HTTPStatus(status).phrase.encode()
    except ValueError:
        return b"Unknown"


def without(headers: list[Header], dropped: frozenset[bytes]) -> list[Header]:
    """Leave out the headers that are `dropped`, and those that `Connection` names."""
    for name, value in headers:
        if name == b"connection":
            dropped |= {option.strip().lower() for option in value.split(b",")}
    return [header for header in headers if header[0] not in dropped]


def json_length(value: bytes | None) -> int | None:
    """Read the length of a message's JSON, which binary tensors follow."""
    if value is None:
        return None
    if not value.isdigit() or len(value) > 18:
        raise ValueError("Inference-Header-Content-Length is not a number")
    return int(value)


def decoded(body: bytes, coding: bytes | None, max_size: int) -> bytes:
    """Undo a content coding, or raise a ValueError; of too large a body, an OverflowError."""
    coding = (coding or b"").strip().lower()
    if coding in (b"", b"identity"):
        return body
    if coding not in (b"gzip", b"x-gzip", b"deflate"):
        raise ValueError(f"the coding {coding.decode('latin-1')!r} is not known")
    stream = zlib.decompressobj(WINDOW)
    try:
        content = stream.decompress(body, max_size + 1)
    except zlib.error as error:
        raise ValueError(f"its {coding.decode()} is malformed") from error
    if len(content) > max_size:
        raise OverflowError(f"unpacked it has more than {max_size} bytes")
    if not stream.eof:
        raise ValueError(f"its {coding.decode()} is cut off")
    if stream.unused_data:  # which others might read
        raise ValueError(f"its {coding.decode()} has data behind its end")
    return content
