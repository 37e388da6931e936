"""Requests on their way upstream, and answers on their way back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from unlabel.serve.http_messages import (
    JSON_LENGTH,
    OF_THE_BODY,
    Header,
    Request,
    Response,
    end_to_end,
)
from unlabel.serve.protocol import JSON_ERRORS, Message

NOT_FOR_UPSTREAM = (b"host", b"content-length", b"expect")


def error_message(response: Response) -> str | None:
    """Give the message of an error, if it is one of the protocol."""
    try:
        found = msgspec.json.decode(response.body[:10_000], type=dict[str, Any]).get("error")
    except JSON_ERRORS:
        return None
    return found if isinstance(found, str) else None


def passed(answer: Response) -> Response:
    """Give an answer as it goes to the client, unchanged."""
    headers = end_to_end(answer.headers, without=[b"content-length"])
    return Response(answer.status, headers, answer.body)


def rewritten(answer: Response, body: bytes, headers: list[Header]) -> Response:
    """Give an answer another body, and the headers that go with it."""
    kept = end_to_end(answer.headers, without=OF_THE_BODY)
    return Response(answer.status, [*kept, *headers], body)


def unchanged(request: Request) -> list[Header]:
    """Give the headers for a request whose answer passes as it is."""
    return end_to_end(request.headers, without=NOT_FOR_UPSTREAM)


def understood(request: Request) -> list[Header]:
    """Give the headers for a request whose answer has to be read here."""
    headers = end_to_end(request.headers, without=(*NOT_FOR_UPSTREAM, b"accept-encoding"))
    headers.append((b"accept-encoding", b"identity"))
    return headers


def changed_request(
    message: Message, changed: Mapping[str, Any], headers: list[Header]
) -> tuple[bytes, list[Header]]:
    """Write a request from the fields that were read, some of them changed, with its headers."""
    text = msgspec.json.encode({**message.fields, **changed})
    kept = [each for each in headers if each[0] not in (JSON_LENGTH, b"content-encoding")]
    if message.binary:
        kept.append((JSON_LENGTH, b"%d" % len(text)))
    return b"".join([text, message.binary]), kept
