"""Requests on their way upstream, and answers on their way back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from unlabel.serve.http_messages import (
    HOP_BY_HOP,
    JSON_LENGTH,
    OF_THE_BODY,
    Header,
    Request,
    Response,
    without,
)
from unlabel.serve.protocol import JSON_ERRORS, Message

# The headers that are left out of a request, of one whose answer is read here, and of answers.
OF_REQUESTS = HOP_BY_HOP | {b"host", b"content-length", b"expect"}
OF_READ = OF_REQUESTS | {b"accept-encoding"}
OF_ANSWERS = HOP_BY_HOP | {b"content-length"}
OF_REWRITTEN = HOP_BY_HOP | OF_THE_BODY


def error_message(response: Response) -> str | None:
    """Return the message of an error, if it is one of the protocol."""
    try:
        found = msgspec.json.decode(response.body[:10_000], type=dict[str, Any]).get("error")
    except JSON_ERRORS:
        return None
    return found if isinstance(found, str) else None


def passed(answer: Response) -> Response:
    """Return an answer as it goes to the client, unchanged."""
    return Response(answer.status, without(answer.headers, OF_ANSWERS), answer.body)


def rewritten(answer: Response, body: bytes, headers: list[Header]) -> Response:
    """Return an answer with another body, and the headers that go with it."""
    kept = without(answer.headers, OF_REWRITTEN)
    return Response(answer.status, [*kept, *headers], body)


def unchanged(request: Request) -> list[Header]:
    """Return the headers for a request that goes upstream as it is."""
    return without(request.headers, OF_REQUESTS)


def understood(request: Request) -> list[Header]:
    """Return the headers for a request whose answer has to be read here."""
    kept = without(request.headers, OF_READ)
    return [*kept, (b"accept-encoding", b"identity")]


def changed_request(
    message: Message, changed: Mapping[str, Any], headers: list[Header]
) -> tuple[bytes, list[Header]]:
    """Write a request from the fields that were read, some of them changed, with its headers."""
    text = msgspec.json.encode({**message.fields, **changed})
    kept = [each for each in headers if each[0] not in (JSON_LENGTH, b"content-encoding")]
    if message.binary:
        kept.append((JSON_LENGTH, b"%d" % len(text)))
    return b"".join([text, message.binary]), kept
