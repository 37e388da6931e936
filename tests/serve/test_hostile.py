"""Hostile requests: each gets an answer within the limits, and leaves the server as it was."""

import contextlib
import gzip
import itertools
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from raw_http import exchange
from serving import PATIENCE, infer, inference, serving
from upstream_model import confidences

ROWS = np.random.default_rng(2).normal(size=(2, 4)).astype(np.float32)
TIMEOUT = 0.8  # seconds
MAX_BODY = 1 << 20
MAX_REQUESTS = 20
PATH = "/v2/models/animals/infer"


@pytest.fixture(scope="module")
def served(upstream, folder, filters):
    limits = ["--max-body", MAX_BODY, "--timeout", TIMEOUT, "--max-requests", MAX_REQUESTS]
    with serving(upstream.port, {"animals": folder / "first.safetensors"}, *limits) as running:
        running.expected = filters[0].apply(confidences(ROWS))
        yield running


@pytest.fixture(autouse=True)
def still_right(served, upstream):
    upstream.received.clear()
    yield
    answer = infer(served.port, ROWS)
    np.testing.assert_array_equal(answer.tensors["probabilities"], served.expected)
    assert served.memory() < 400


def post(*headers, path=PATH, body=b"", version=b"HTTP/1.1"):
    lines = [b"POST " + path.encode("latin-1") + b" " + version, b"Host: localhost", *headers]
    return b"\r\n".join([*lines, b"", body])


def sized(body, *headers, **more):
    return post(*headers, b"Content-Length: %d" % len(body), body=body, **more)


def plain(**more):
    """Write a request that is right."""
    return sized(inference(ROWS)[1], **more)


def edited(old, new):
    """Write a request that was right before an edit of its JSON."""
    body = inference(ROWS)[1]
    assert old in body
    return sized(body.replace(old, new))


def binary(old=b"", new=b"", length=None):
    """Write a request with a binary tensor, its JSON edited or its length misstated."""
    headers, body = inference(ROWS, binary=True)
    at = int(headers["Inference-Header-Content-Length"])
    assert old in body[:at]
    text = body[:at].replace(old, new)
    length = b"%d" % len(text) if length is None else length
    return sized(text + body[at:], b"Inference-Header-Content-Length: " + length)


def asking(parameters, name="probabilities"):
    return sized(inference(ROWS, outputs=[name])[1].replace(b'{"binary_data": false}', parameters))


BODY = inference(ROWS)[1]
LENGTH = b"Content-Length: %d" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked"
SMUGGLED = b"0\r\n\r\nGET /v2/smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
CHUNK = b"10000\r\n" + bytes(0x10000) + b"\r\n"

# Bytes that are refused before anything goes upstream, and the statuses that may say so.
REFUSED = {
    "1 GB declared": (post(b"Content-Length: 1073741824"), {413}),
    "a length of 30 digits": (post(b"Content-Length: 1" + b"0" * 30), {400, 413}),
    "negative length": (post(b"Content-Length: -5", body=b"hello"), {400}),
    "length with a plus": (post(b"Content-Length: +5", body=b"hello"), {400}),
    "length in hexadecimal": (post(b"Content-Length: 0x5", body=b"hello"), {400}),
    "length with an underscore": (post(b"Content-Length: 1_0", body=b"hello12345"), {400}),
    "two lengths": (post(b"Content-Length: 4", LENGTH, body=BODY), {400}),
    "a list of lengths": (post(b"Content-Length: 4, 4", body=b"abcd"), {400}),
    "length and chunks": (post(b"Content-Length: 5", CHUNKED, body=SMUGGLED), {400}),
    "chunks and length": (post(CHUNKED, LENGTH, body=SMUGGLED), {400}),
    "chunks under another name": (
        post(b"Transfer-Encoding: xchunked", b"Content-Length: 0", body=SMUGGLED),
        {400, 501},
    ),
    "chunked before the end": (post(b"Transfer-Encoding: chunked, identity"), {400, 501}),
    "chunked with a vertical tab": (post(b"Transfer-Encoding: \x0bchunked", body=SMUGGLED), {400}),
    "negative chunk": (post(CHUNKED, body=b"-1\r\nab\r\n0\r\n\r\n"), {400}),
    "chunk that is no number": (post(CHUNKED, body=b"zz\r\nab\r\n0\r\n\r\n"), {400}),
    "chunk of 2 ** 80 bytes": (post(CHUNKED, body=b"1" + b"0" * 20 + b"\r\n"), {400, 413}),
    "chunk longer than said": (post(CHUNKED, body=b"2\r\nabcdef\r\n0\r\n\r\n"), {400}),
    "folded header": (post(b"X-A: 1\r\n Content-Length: 5", LENGTH, body=BODY), {400}),
    "space before the colon": (post(b"Content-Length : 5", body=b"hello"), {400}),
    "header without a name": (post(b": 1", LENGTH, body=BODY), {400}),
    "header without a colon": (post(b"X-A", LENGTH, body=BODY), {400}),
    "NUL in a header": (post(b"X-A: a\x00b", LENGTH, body=BODY), {400}),
    "CR in a header": (post(b"X-A: a\rContent-Length: 5", LENGTH, body=BODY), {400}),
    "lines that end in LF": (plain().replace(b"\r\n", b"\n"), {400}),
    "another version": (plain(version=b"HTTP/9.9"), {400, 505}),
    "version 2's opening": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400, 405, 505}),
    "TLS": (bytes.fromhex("16030100a5010000a10303") + bytes(160) + b"\r\n\r\n", {400}),
    "a header of 1 MB": (post(b"X-A: " + b"a" * 1_000_000), {400, 431}),
    "100,000 headers": (post(*[b"X-%d: 1" % i for i in range(100_000)]), {400, 431}),
    "a path of 1 MB": (plain(path="/v2/" + "a" * 1_000_000), {400, 414, 431}),
    "to another host": (plain(path="http://192.0.2.1/latest/meta-data"), {400, 404}),
    "tunnel to another host": (
        b"CONNECT 192.0.2.1:80 HTTP/1.1\r\nHost: 192.0.2.1:80\r\n\r\n",
        {400, 404, 405, 501},
    ),
    "an upgrade to version 2": (
        plain(path="/admin").replace(
            b"Host:", b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHost:"
        ),
        {400, 404},
    ),
    "path without a slash": (plain(path="v2/models/animals/infer"), {400, 404}),
    "up and out": (plain(path="/v2/models/../../admin"), {400, 404}),
    "up and out, encoded": (plain(path="/v2/models/%2e%2e/%2e%2e/admin"), {400, 404}),
    "slash, encoded": (plain(path="/v2/models/..%2f..%2fadmin/infer"), {400, 404}),
    "backslashes": (plain(path="/v2/models/..\\..\\admin"), {400, 404}),
    "two slashes": (plain(path="//192.0.2.1/v2/models/animals/infer"), {400, 404}),
    "line break in the path": (plain(path="/v2/models/a%0d%0aX-A:%201/infer"), {400, 404}),
    "NUL in the path": (plain(path="/v2/models/animals%00/infer"), {400, 404}),
    "dots, encoded twice": (plain(path="/v2/models/%252e%252e/infer"), {400, 404}),
    "a name, encoded twice": (plain(path="/v2/models/%2561nimals/infer"), {404}),
    "a name with a parameter": (plain(path="/v2/models/animals;v=1/infer"), {404}),
    "another path": (plain(path="/admin"), {404}),
    "deep JSON": (sized(b"[" * 500_000), {400}),
    "deep parameters": (edited(b'"inputs"', b'"parameters": ' + b'{"a":' * 100_000), {400}),
    "invalid UTF-8": (edited(b'"name": "x"', b'"name": "\xff\xfe"'), {400}),
    "half a surrogate": (edited(b'"inputs"', b'"id": "\\ud800", "inputs"'), {200, 400}),
    "a list": (sized(b"[1, 2]"), {400}),
    "no body": (sized(b""), {400}),
    "JSON cut off": (sized(BODY[:-5]), {400}),
    "two documents": (sized(BODY + BODY), {400}),
    "outputs as a text": (edited(b'"inputs"', b'"outputs": "all", "inputs"'), {400}),
    "an unknown list": (
        edited(b'"inputs"', b'"parameters": {"allow_list": "no such"}, "inputs"'),
        {400},
    ),
    "a list's name that is none": (
        edited(b'"inputs"', b'"parameters": {"allow_list": {"a": []}}, "inputs"'),
        {400},
    ),
    "the JSON's length is negative": (binary(length=b"-1"), {400}),
    "the JSON's length is past the end": (binary(length=b"1000000"), {400}),
    "the JSON's length has 30 digits": (binary(length=b"9" * 30), {400}),
    "the JSON's length is no number": (binary(length=b"12; 13"), {400}),
    "the best -1": (asking(b'{"classification": -1}'), {400}),
    "the best few": (asking(b'{"classification": "few"}'), {400}),
    "gzip bomb": (
        sized(gzip.compress(bytes(1 << 28)), b"Content-Encoding: gzip"),
        {400, 413, 415},
    ),
}

# Requests that may go upstream as they are, which refuses what it does not like.
PASSED_ON = {
    "unknown model": plain(path="/v2/models/no_such/infer"),
    "wrong shape": edited(b'"shape": [2, 4]', b'"shape": [2, 5]'),
    "negative shape": edited(b'"shape": [2, 4]', b'"shape": [-2, -4]'),
    "shape of 2 ** 80": edited(b'"shape": [2, 4]', b'"shape": [1208925819614629174706176, 4]'),
    "NaN": edited(b'"data": [', b'"data": [NaN, '),
    "null": edited(b'"data": [', b'"data": [null, '),
    "a datatype that is none": edited(b"FP32", b"FP33"),
    "a negative size": binary(b'"binary_data_size": ', b'"binary_data_size": -'),
    "a size past the end": binary(b'"binary_data_size": ', b'"binary_data_size": 1000'),
    "an output that is none": asking(b"{}", name="no_such"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_and_nothing_goes_upstream(served, upstream, name):
    sent, statuses = REFUSED[name]
    reply = exchange(served.port, [sent], PATIENCE)
    assert reply.status in statuses
    if reply.status != 200:
        assert {*json.loads(reply.body)} == {"error"}
        assert upstream.received == []


@pytest.mark.parametrize("name", PASSED_ON)
def test_upstream_refuses_it(served, upstream, name):
    reply = exchange(served.port, [PASSED_ON[name]], PATIENCE)
    assert 400 <= reply.status < 500
    assert "error" in json.loads(reply.body)
    assert len(upstream.received) <= 1
    assert all(each.headers["host"].endswith(str(upstream.port)) for each in upstream.received)


def test_1_gb_in_chunks_is_cut_short(served, upstream):
    sent = itertools.chain([post(CHUNKED)], itertools.repeat(CHUNK, 1 << 14))
    reply = exchange(served.port, sent, PATIENCE)
    assert reply.status == 413
    assert upstream.received == []


def test_requests_that_do_not_end_are_given_up(served, upstream):
    cut_off = [post(LENGTH, body=BODY[:20]), post(CHUNKED, body=b"5\r\nab"), post()[:-10]]
    with ThreadPoolExecutor() as clients:
        replies = [*clients.map(lambda sent: exchange(served.port, [sent], PATIENCE), cut_off)]
    assert [reply.status for reply in replies] == [408] * 3
    assert upstream.received == []


def test_more_requests_than_allowed_are_put_off(served):
    with ThreadPoolExecutor(2 * MAX_REQUESTS) as clients:
        asked = [clients.submit(infer, served.port, ROWS, fault="slow=0.4") for _ in range(40)]
        answers = [each.result() for each in asked]
    statuses = [each.status for each in answers]
    assert {*statuses} == {200, 503}
    assert statuses.count(200) >= MAX_REQUESTS
    assert all(each.headers["Retry-After"] for each in answers if each.status == 503)


@pytest.mark.parametrize("missing", [0, 9], ids=["waiting", "sending"])
def test_clients_that_leave_give_their_places_back(served, missing):
    slow = plain().replace(b"Host:", b"Fault: slow=0.4\r\nHost:")
    for _ in range(2 * MAX_REQUESTS):
        with socket.create_connection(("127.0.0.1", served.port)) as connection:
            connection.sendall(slow[: len(slow) - missing])
    until = time.monotonic() + PATIENCE
    while infer(served.port, ROWS).status == 503 and time.monotonic() < until:
        time.sleep(0.02)
    assert infer(served.port, ROWS).status == 200


def test_idle_connections_keep_nobody_out(served):
    with contextlib.ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(socket.create_connection(("127.0.0.1", served.port)))
        assert infer(served.port, ROWS).status == 200


def test_headers_that_a_connection_names_are_not_taken_from_the_protocol(served, upstream):
    """A header that is dropped must not change where the upstream sees the JSON end."""
    request = binary().replace(
        b"Host: localhost", b"Host: localhost\r\nConnection: Inference-Header-Content-Length"
    )
    assert 200 <= exchange(served.port, [request], PATIENCE).status < 500
    assert len(upstream.received) <= 1


CLASSES = b'[{"name": "probabilities", "parameters": {"classification": 3}}]'
TWICE = {
    "outputs": (b'"outputs": ' + CLASSES + b', "outputs": null, ', None),
    "outputs, escaped": (b'"\\u006futputs": ' + CLASSES + b', "outputs": [], ', []),
    "parameters": (
        b'"outputs": [{"name": "probabilities", "parameters": {"classification": 3}, '
        b'"parameters": {}}], ',
        [{"name": "probabilities", "parameters": {}}],
    ),
}


@pytest.mark.parametrize("name", TWICE)
def test_keys_that_come_twice_come_once_upstream(served, upstream, name):
    """Of two lists of outputs the upstream might take the first, and give unfiltered classes."""
    text, read = TWICE[name]
    reply = exchange(served.port, [edited(b'"inputs"', text + b'"inputs"')], PATIENCE)
    assert reply.status == 200
    given = np.array(json.loads(reply.body)["outputs"][0]["data"], dtype=np.float32)
    np.testing.assert_array_equal(given.reshape(2, -1), served.expected)
    pairs = json.loads(upstream.received[-1].body, object_pairs_hook=list)
    assert sorted(key for key, _ in pairs) == ["inputs", "outputs"]
    assert json.loads(upstream.received[-1].body)["outputs"] == read
    assert upstream.received[-1].body.count(b"parameters") <= 1


def test_all_labels_at_most_are_classified(served):
    reply = exchange(served.port, [asking(b'{"classification": 1000000000000}')], PATIENCE)
    assert json.loads(reply.body)["outputs"][0]["shape"] == [2, 96]


def test_a_request_after_another_on_one_connection_is_its_own(served, upstream):
    reply = exchange(served.port, [plain() + plain(path="/admin")], PATIENCE)
    given = np.array(json.loads(reply.body)["outputs"][0]["data"], dtype=np.float32)
    np.testing.assert_array_equal(given.reshape(2, -1), served.expected)
    assert {each.target for each in upstream.received} == {PATH}
