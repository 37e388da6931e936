"""Answers of an upstream that is broken or hostile: a clear error, within the limits."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from serving import infer, serving
from upstream_faults import EDITS
from upstream_model import confidences

ROWS = np.random.default_rng(3).normal(size=(2, 4)).astype(np.float32)
TIMEOUT = 0.8  # seconds

BROKEN = ["drop", "cut", "cut_chunk", "bad_chunk", "no_http", "endless", "br", "bomb", "cut_gzip"]
IN_BINARY = ["cut", "malformed", "huge_binary_size", "negative_binary_size", "shape", "datatype"]
IN_JSON = [fault for fault in EDITS if not fault.endswith("binary_size")]


@pytest.fixture(scope="module")
def served(upstream, folder, filters):
    limits = ["--timeout", TIMEOUT, "--max-body", 1 << 20]
    with serving(upstream.port, {"animals": folder / "first.safetensors"}, *limits) as running:
        running.expected = filters[0].apply(confidences(ROWS))
        yield running


@pytest.fixture(autouse=True)
def still_right(served):
    yield
    for _ in range(2):  # on whichever connections to upstream are left
        answer = infer(served.port, ROWS)
        np.testing.assert_array_equal(answer.tensors["probabilities"], served.expected)
    assert served.memory() < 400


@pytest.mark.parametrize("fault", [*BROKEN, *IN_JSON])
def test_nonsense_is_a_bad_gateway(served, fault):
    answer = infer(served.port, ROWS, fault=fault)
    assert answer.status == 502
    assert {*answer.json} == {"error"}
    assert len(answer.json["error"]) < 500


@pytest.mark.parametrize("fault", IN_BINARY)
def test_nonsense_in_binary_is_a_bad_gateway(served, fault):
    answer = infer(served.port, ROWS, fault=fault, binary=True)
    assert answer.status == 502
    assert {*answer.json} == {"error"}


def test_an_answer_that_takes_too_long_is_given_up(served):
    begun = time.monotonic()
    with ThreadPoolExecutor() as clients:
        faults = ["slow=5", "stall", "trickle"]
        answers = [*clients.map(lambda fault: infer(served.port, ROWS, fault=fault), faults)]
    for answer in answers:
        assert (answer.status, {*answer.json}) == (504, {"error"})
    assert time.monotonic() - begun < 4


@pytest.mark.parametrize("status", [400, 404, 422, 500, 503])
def test_errors_of_upstream_pass_as_they_are(served, status):
    answer = infer(served.port, ROWS, fault=f"status={status}")
    assert (answer.status, answer.json) == (status, {"error": "on demand"})


def test_a_second_answer_in_one_is_not_given_to_anyone(served):
    answer = infer(served.port, ROWS, fault="overlong")
    assert answer.status in {200, 502}
    for _ in range(5):
        assert infer(served.port, ROWS).status == 200


def test_redirects_are_not_followed(served):
    answer = infer(served.port, ROWS, fault="redirect")
    assert answer.status in {307, 502}
