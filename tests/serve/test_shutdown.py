"""SIGTERM under load: requests that were accepted are answered, and later ones find no server."""

import http.client
import threading
import time

import numpy as np
import pytest

from serving import Answer, inference, saved_filters, serving
from upstream import Upstream
from upstream_model import confidences

CLIENTS = 16
ROWS = np.random.default_rng(4).normal(size=(4, 4)).astype(np.float32)
HEADERS, BODY = inference(ROWS)


@pytest.fixture(scope="module")
def upstream():
    with Upstream(record=False) as running:
        yield running


@pytest.fixture
def served(upstream, tmp_path):
    first, _ = saved_filters(tmp_path)
    with serving(upstream.port, {"animals": tmp_path / "first.safetensors"}) as running:
        running.expected = first.apply(confidences(ROWS))
        yield running


def outcome(send, expected):
    """Say what came of a request: right, refused (no connection), or else what went wrong."""
    try:
        answer = send()
    except ConnectionRefusedError:
        return "refused"
    except (OSError, http.client.HTTPException) as error:
        return f"lost: {error!r}"
    if answer.status != 200:
        return f"status {answer.status}: {answer.body[:200]}"
    return "right" if np.array_equal(answer.tensors["probabilities"], expected) else "wrong"


@pytest.mark.parametrize("keep_alive", [False, True])
def test_a_connection_that_was_accepted_gets_its_answer(served, keep_alive):
    """A request is refused a connection, or it is answered, on a connection kept alive too."""
    outcomes, refused = [], threading.Event()

    def client():
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)

        def send():
            headers = HEADERS if keep_alive else HEADERS | {"Connection": "close"}
            connection.request("POST", "/v2/models/animals/infer", BODY, headers)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())

        while not refused.is_set():
            outcomes.append(outcome(send, served.expected))
            if outcomes[-1] != "right":
                refused.set()
        connection.close()

    clients = [threading.Thread(target=client) for _ in range(CLIENTS)]
    for each in clients:
        each.start()
    time.sleep(0.5)
    assert served.stop() == 0
    for each in clients:
        each.join()
    assert outcomes.count("right") > CLIENTS
    assert {*outcomes} == {"right", "refused"}


def test_requests_in_flight_are_answered(served):
    """All of them wait for a slow upstream when the signal comes, on connections kept alive.

    One that is idle does not hold the server up.
    """
    answers, begun = [], threading.Barrier(CLIENTS + 1)
    idle = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
    idle.request("GET", "/v2/health/live")
    assert idle.getresponse().status == 200

    def client():
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)

        def send(fault=None):
            faults = {} if fault is None else {"Fault": fault}
            connection.request("POST", "/v2/models/animals/infer", BODY, HEADERS | faults)
            if fault is not None:
                begun.wait()
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())

        answers.append(outcome(send, served.expected))
        answers.append(outcome(lambda: send("slow=1"), served.expected))
        connection.close()

    clients = [threading.Thread(target=client) for _ in range(CLIENTS)]
    for each in clients:
        each.start()
    begun.wait()
    time.sleep(0.3)  # until what was sent has been read
    signalled = time.monotonic()
    assert served.stop() == 0
    assert time.monotonic() - signalled < 10
    idle.close()
    for each in clients:
        each.join()
    assert answers == ["right"] * (2 * CLIENTS)
