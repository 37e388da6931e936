"""`unlabel serve` from the outside: the same numbers as `OutputFilter.apply`, over HTTP."""

import http.client
import json
import socket

import numpy as np
import pytest

from serving import PATIENCE, Answer, ask, infer, inference, saved_filters, serving
from unlabel import AnswerRule
from upstream_model import LABELS, confidences, outputs_of

ROWS = np.random.default_rng(1).normal(size=(8, 4)).astype(np.float32)
MANY = np.random.default_rng(2).normal(size=(2000, 4)).astype(np.float32)
DATATYPES = {"animals": "FP32", "animals64": "FP64", "animals16": "FP16"}
ALLOWED = {"few": [LABELS[20], LABELS[30]], "one": [LABELS[99]]}


@pytest.fixture(scope="module")
def filters(tmp_path_factory):
    folder = tmp_path_factory.mktemp("filters")
    return folder, *saved_filters(folder)


@pytest.fixture(scope="module")
def served(upstream, filters):
    folder, *_ = filters
    models = dict.fromkeys(DATATYPES, folder / "first.safetensors")
    with serving(upstream.port, models, "--label-output", "label") as running:
        yield running


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("model", DATATYPES)
@pytest.mark.parametrize("rows", [ROWS, ROWS[:1], ROWS[:0], MANY], ids=len)
def test_the_confidences_are_those_of_apply_to_the_bit(served, filters, model, binary, rows):
    expected = filters[1].apply(confidences(rows, DATATYPES[model]))
    answer = infer(served.port, rows, model=model, binary=binary)
    assert answer.status == 200
    given = answer.tensors["probabilities"]
    assert given.dtype == expected.dtype
    np.testing.assert_array_equal(given, expected)


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("model", DATATYPES)
def test_labels_follow_and_other_outputs_are_untouched(served, filters, model, binary):
    first = filters[1]
    tensors = infer(served.port, ROWS, model=model, binary=binary).tensors
    top = first.apply(confidences(ROWS, DATATYPES[model])).argmax(axis=1)
    names = [first.classes_out[i] for i in top]
    if model == "animals64":  # by their columns in the model, as its own answers are
        names = [LABELS.index(name) for name in names]
    np.testing.assert_array_equal(tensors["label"], names)
    np.testing.assert_array_equal(tensors["embedding"], outputs_of(model, ROWS)["embedding"][1])


@pytest.fixture(scope="module")
def served_by_name(upstream, filters):
    models = {"animals": filters[0] / "first.safetensors"}
    with serving(upstream.port, models, "--output", "probabilities") as running:
        yield running


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("name", ["probabilities", "label", "embedding"])
def test_only_the_outputs_asked_for_are_given(served_by_name, upstream, filters, name, binary):
    through = infer(served_by_name.port, ROWS, outputs=[name], binary=binary, id="a request")
    direct = infer(upstream.port, ROWS, outputs=[name], binary=binary, id="a request")
    assert [each["name"] for each in through.json["outputs"]] == [name]
    assert through.json["id"] == "a request"
    assert {*through.json["outputs"][0]} == {*direct.json["outputs"][0]}
    scores = filters[1].apply(confidences(ROWS))
    expected = {
        "probabilities": scores,
        "label": [filters[1].classes_out[i] for i in scores.argmax(axis=1)],
        "embedding": direct.tensors.get("embedding"),
    }
    np.testing.assert_array_equal(through.tensors[name], expected[name])


def test_labels_alone_are_not_given_unless_the_confidences_can_be_asked_for(served):
    answer = infer(served.port, ROWS, outputs=["label"])
    assert answer.status == 502
    assert "name the output" in answer.json["error"]


@pytest.mark.parametrize("number", [1, 3])
def test_classification_is_of_the_new_labels(served, filters, number):
    first = filters[1]
    body = {
        "inputs": [
            {"name": "x", "shape": [8, 4], "datatype": "FP32", "data": ROWS.ravel().tolist()}
        ],
        "outputs": [{"name": "probabilities", "parameters": {"classification": number}}],
    }
    answer = ask(served.port, "POST", "/v2/models/animals/infer", json.dumps(body))
    given = answer.tensors["probabilities"].reshape(8, number)
    expected = first.apply(confidences(ROWS))
    for row, texts in zip(expected, given, strict=True):
        best = sorted(range(len(row)), key=lambda i: -row[i])[:number]
        parts = [text.split(":", 2) for text in texts]
        assert [(int(i), label) for _, i, label in parts] == [
            (i, first.classes_out[i]) for i in best
        ]
        np.testing.assert_allclose([float(score) for score, *_ in parts], row[best], atol=1e-6)


def test_a_request_names_a_list_and_the_rule_unknown(upstream, filters, tmp_path):
    folder, first, _ = filters
    lists, rule = tmp_path / "allow.json", AnswerRule(min_confidence=0.2, unknown="?")
    lists.write_text(json.dumps(ALLOWED))
    rule.save(tmp_path / "rule.toml")
    options = ["--allow", lists, "--rule", tmp_path / "rule.toml"]
    with serving(upstream.port, {"animals": folder / "first.safetensors"}, *options) as running:
        answer = infer(running.port, ROWS, parameters={"allow_list": "few"})
        refused = infer(running.port, ROWS)
    scores = confidences(ROWS)
    np.testing.assert_array_equal(
        answer.tensors["probabilities"], first.apply(scores, allow=ALLOWED["few"])
    )
    expected = first.answer(scores, rule, allow=ALLOWED["few"])
    assert answer.tensors["label"].tolist() == expected.tolist()
    assert "?" in expected
    assert refused.status == 400
    assert "names no list" in refused.json["error"]


def test_metadata_show_the_new_labels(served, filters, upstream):
    through = ask(served.port, "GET", "/v2/models/animals").json
    direct = ask(upstream.port, "GET", "/v2/models/animals").json
    output = direct["outputs"][0]
    output["shape"], output["parameters"]["labels"] = [-1, 96], [*filters[1].classes_out]
    assert through == direct


@pytest.mark.parametrize("path", ["/v2", "/v2/models/others", "/v2/models/others/versions/1"])
def test_what_has_no_filter_passes(served, upstream, path):
    through, direct = ask(served.port, "GET", path), ask(upstream.port, "GET", path)
    assert (through.status, through.json) == (direct.status, direct.json)


def test_a_model_without_a_filter_passes_to_the_byte(served, upstream):
    through = infer(served.port, ROWS, model="others")
    assert through.body == infer(upstream.port, ROWS, model="others").body


def test_versions_have_their_models_filter(served, filters):
    answer = infer(served.port, ROWS, model="animals/versions/7")
    assert answer.json["model_version"] == "7"
    expected = filters[1].apply(confidences(ROWS))
    np.testing.assert_array_equal(answer.tensors["probabilities"], expected)


def test_ready_only_if_upstream_is(served, upstream):
    paths = ["/v2/health/live", "/v2/health/ready", "/v2/models/animals/ready"]
    assert [ask(served.port, "GET", path).status for path in paths] == [200, 200, 200]
    upstream.ready = False
    try:
        live, *ready = [ask(served.port, "GET", path).status for path in paths]
        assert live == 200
        assert all(400 <= status < 600 for status in ready)
    finally:
        upstream.ready = True


@pytest.mark.parametrize("coding", ["gzip", "deflate", "chunked", "until_close"])
@pytest.mark.parametrize("binary", [False, True])
def test_answers_are_understood_however_they_come(served, filters, coding, binary):
    answer = infer(served.port, ROWS, fault=coding, binary=binary)
    expected = filters[1].apply(confidences(ROWS))
    np.testing.assert_array_equal(answer.tensors["probabilities"], expected)


def test_a_body_may_wait_to_be_asked_for(served, filters):
    headers, body = inference(ROWS)
    lines = ["POST /v2/models/animals/infer HTTP/1.1", "Host: localhost", "Expect: 100-continue"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    head = "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode()
    with socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE) as connection:
        connection.sendall(head)
        assert connection.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        response = http.client.HTTPResponse(connection)
        response.begin()
        answer = Answer(response.status, response.headers, response.read())
    expected = filters[1].apply(confidences(ROWS))
    np.testing.assert_array_equal(answer.tensors["probabilities"], expected)


def test_hop_by_hop_headers_end_here_and_the_others_pass(served, upstream):
    sent = {"Connection": "close, X-Hop", "X-Hop": "secret", "Authorization": "Bearer 1"}
    upstream.received.clear()
    answer = infer(served.port, ROWS, fault="hop_by_hop", headers=sent)
    (received,) = upstream.received
    assert received.headers["authorization"] == "Bearer 1"
    assert received.headers["host"] == f"127.0.0.1:{upstream.port}"
    assert not {"x-hop", "secret"} & {*received.headers, *received.headers.values()}
    assert answer.headers["X-Other"] == "passes"
    assert answer.headers["X-Hop"] is None
    assert "77" not in answer.headers.get("Keep-Alive", "")
