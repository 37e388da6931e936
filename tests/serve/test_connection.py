"""Connections of clients: bodies that wait, requests that do not, and how connections end."""

import socket
import time

import numpy as np

from running import head, talk
from serving import PATIENCE, infer, inference
from unlabel.serve import connection as connection_module

ROWS = np.random.default_rng(2).normal(size=(5, 4)).astype(np.float32)


def test_bodies_that_wait_for_a_word_get_it(run):
    _, body = inference(ROWS, outputs=["probabilities"])
    received = talk(run().port, head(expect="100-continue", content_length=len(body)), body)
    assert received.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")
    received = talk(run(max_body=10).port, head(expect="100-continue", content_length=99))
    assert received.startswith(b"HTTP/1.1 413 ")
    assert talk(run().port, head(expect="miracles", content_length=9)).startswith(b"HTTP/1.1 417")


def test_requests_that_do_not_wait_are_answered_in_turn(run):
    several = b"".join(
        head(b"GET", b"/v2/models/%s" % name) for name in (b"animals", b"no", b"others")
    )
    received = talk(run().port, several + b"nonsense\r\n\r\n")
    statuses = [part[:3] for part in received.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [b"200", b"404", b"200"]
    assert b"unlabel-filter" in received.partition(b"404")[0]


def test_a_head_that_comes_in_pieces_counts_once(run):
    long = head(b"GET", b"/v2/health/live", x_long="x" * (connection_module.MAX_HEAD - 200))
    with socket.create_connection(("127.0.0.1", run().port), PATIENCE) as connection:
        for start in range(0, len(long), 20_000):
            connection.sendall(long[start : start + 20_000])
            time.sleep(0.02)
        assert connection.recv(12) == b"HTTP/1.1 200"
    longer = head(b"GET", b"/v2/health/live", x_long="x" * connection_module.MAX_HEAD)
    assert talk(run().port, longer).startswith(b"HTTP/1.1 431")


def test_the_answer_to_head_has_no_body(run):
    received = talk(run().port, head(b"HEAD", b"/v2") + head(b"GET", b"/v2/health/live"))
    first, second = received.split(b"HTTP/1.1 ")[1:]
    assert first.startswith(b"405")
    assert first.endswith(b"\r\n\r\n")
    assert second.startswith(b"200")


def test_a_client_that_ended_its_side_is_not_waited_for(run, monkeypatch):
    monkeypatch.setattr(connection_module, "LINGER_SECONDS", 10 * PATIENCE)
    running = run()
    with socket.create_connection(("127.0.0.1", running.port), timeout=PATIENCE) as connection:
        connection.sendall(head(b"GET", b"/v2"))
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1 << 16):
            pass
        until = time.monotonic() + PATIENCE
        while running.server.connections.open and time.monotonic() < until:
            time.sleep(0.005)
        assert not running.server.connections.open


def test_old_connections_are_for_one_request(run):
    request = head(b"GET", b"/v2/health/live", connection="keep-alive").replace(b"/1.1", b"/1.0")
    with socket.create_connection(("127.0.0.1", run().port), timeout=PATIENCE) as connection:
        connection.sendall(request)
        received = b""
        while data := connection.recv(1 << 16):
            received += data
    assert b"\r\nconnection: close\r\n" in received


def test_trailers_are_not_headers(run, upstream):
    _, body = inference(ROWS)
    chunks = b"%x\r\n%s\r\n0\r\nX-Trailer: 1\r\nInference-Header-Content-Length: 5\r\n\r\n"
    sent = head(transfer_encoding="chunked") + chunks % (len(body), body)
    assert talk(run().port, sent).startswith(b"HTTP/1.1 200 ")
    assert not {"x-trailer", "inference-header-content-length"} & {*upstream.received[-1].headers}


def test_an_answer_that_is_not_taken_keeps_its_place(run):
    running = run(max_requests=1)
    _, body = inference(np.random.default_rng(3).normal(size=(5_000, 4)))
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(PATIENCE)
        connection.connect(("127.0.0.1", running.port))
        connection.sendall(head(content_length=len(body)) + body)
        assert connection.recv(12) == b"HTTP/1.1 200"
        assert infer(running.port, ROWS).status == 503
        while len(connection.recv(1 << 20)) > 0:
            if running.server.connections.in_flight == 0:
                break
    assert infer(running.port, ROWS).status == 200
