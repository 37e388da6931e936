"""Failures of a model server: connections that break, codings, and answers that say nonsense."""

import asyncio
import contextlib
import gzip
import zlib
from http import HTTPStatus

BOMB = gzip.compress(bytes(1 << 26))


def head(status, headers):
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


async def drop(writer, headers, body):
    return False


async def cut(writer, headers, body):
    writer.write(head(200, {**headers, "Content-Length": len(body)}) + body[: len(body) // 2])
    await writer.drain()
    return False


async def stall(writer, headers, body):
    """Announce more than comes, and keep the connection open."""
    writer.write(head(200, {**headers, "Content-Length": len(body) + 100}) + body)
    await writer.drain()
    await asyncio.sleep(60)
    return False


async def trickle(writer, headers, body):
    """Send a byte at a time, which never takes long enough for a limit between two bytes."""
    writer.write(head(200, {**headers, "Content-Length": len(body)}))
    for byte in body:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0.05)
    return False


async def overlong(writer, headers, body):
    """Send another answer after the announced end, as one who smuggles answers would."""
    other = b'{"error": "smuggled"}'
    writer.write(
        head(200, {**headers, "Content-Length": len(body)})
        + body
        + head(200, {"Content-Length": len(other)})
        + other
    )
    await writer.drain()
    return True


async def endless(writer, headers, body):
    """Answer without an end, until the other side has had enough."""
    writer.write(head(200, {**headers, "Transfer-Encoding": "chunked"}))
    with contextlib.suppress(ConnectionError):
        while True:
            writer.write(b"10000\r\n" + bytes(0x10000) + b"\r\n")
            await writer.drain()
    return False


async def chunked(writer, headers, body):
    writer.write(head(200, {**headers, "Transfer-Encoding": "chunked"}))
    for first in range(0, len(body), 1000):
        part = body[first : first + 1000]
        writer.write(b"%x\r\n" % len(part) + part + b"\r\n")
        await writer.drain()
    writer.write(b"0\r\n\r\n")
    return True


async def cut_chunk(writer, headers, body):
    writer.write(head(200, {**headers, "Transfer-Encoding": "chunked"}))
    writer.write(b"%x\r\n" % len(body) + body + b"\r\n")
    await writer.drain()
    return False


async def bad_chunk(writer, headers, body):
    writer.write(head(200, {**headers, "Transfer-Encoding": "chunked"}) + b"-5\r\n" + body)
    await writer.drain()
    return False


async def until_close(writer, headers, body):
    writer.write(head(200, {**headers, "Connection": "close"}) + body)
    await writer.drain()
    return False


async def no_http(writer, headers, body):
    writer.write(b"220 smtp.example ESMTP\r\n")
    await writer.drain()
    return False


async def redirect(writer, headers, body):
    target = {"Location": "http://127.0.0.1:9/v2", "Content-Length": 0}
    writer.write(head(307, target))
    await writer.drain()
    return True


async def hop_by_hop(writer, headers, body):
    named = {
        "Connection": "keep-alive, X-Hop",
        "Keep-Alive": "timeout=77",
        "X-Hop": "secret",
        "X-Other": "passes",
    }
    writer.write(head(200, {**headers, **named, "Content-Length": len(body)}) + body)
    await writer.drain()
    return True


FAULTS = {
    each.__name__: each
    for each in [
        drop,
        cut,
        stall,
        trickle,
        overlong,
        endless,
        chunked,
        cut_chunk,
        bad_chunk,
        until_close,
        no_http,
        redirect,
        hop_by_hop,
    ]
}

# Answers of the right length that say something else. They hold for JSON; some for binary tensors.
EDITS = {
    "malformed": (rb"(?s).+", b'{"outputs": ['),
    "empty": (rb"(?s).+", b""),
    "list": (rb"(?s).+", b"[1, 2]"),
    "deep": (rb"(?s).+", b"[" * 100_000),
    "no_outputs": (rb'"outputs":', b'"puts":'),
    "nan": (rb'"data":\[[^,\]]+', b'"data":[NaN'),
    "null": (rb'"data":\[[^,\]]+', b'"data":[null'),
    "text": (rb'"data":\[[^,\]]+', b'"data":["0.5"'),
    "huge_number": (rb'"data":\[[^,\]]+', b'"data":[1e999'),
    "negative": (rb'"data":\[[^,\]]+', b'"data":[-0.5'),
    "short": (rb'"data":\[[^,\]]+,', b'"data":['),
    "shape": (rb'"shape":\[\d+', b'"shape":[9'),
    "huge_shape": (rb'"shape":\[\d+', b'"shape":[99999999999999999999'),
    "negative_shape": (rb'"shape":\[\d+,\d+', b'"shape":[-1,-100'),
    "datatype": (rb'"datatype":"[^"]+"', b'"datatype":"FP33"'),
    "twice": (rb'"name":"label"', b'"name":"probabilities"'),
    "invalid_utf8": (rb'"model_name":"', b'"model_name":"\xff'),
    "huge_binary_size": (rb'"binary_data_size":\d+', b'"binary_data_size":4000000000'),
    "negative_binary_size": (rb'"binary_data_size":', b'"binary_data_size":-'),
}

CODINGS = {
    "gzip": ("gzip", gzip.compress),
    "deflate": ("deflate", zlib.compress),
    "br": ("br", lambda body: body),
    "bomb": ("gzip", lambda body: BOMB),
    "cut_gzip": ("gzip", lambda body: gzip.compress(body)[:-20]),
}
