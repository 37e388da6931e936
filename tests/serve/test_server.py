"""The server's own decisions: shadow mode, reloading, limits, metrics and the log."""

import gzip
import hashlib
import io
import json
import os
import signal
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner

from running import Running, talk
from serving import PATIENCE, ask, free_port, infer, inference, serving
from unlabel.cli.app import app
from unlabel.errors import UnlabelError
from unlabel.serve import ServedFilter
from unlabel.serve import running as running_module
from unlabel.serve.http_messages import decoded
from unlabel.serve.logs import Log
from unlabel.serve.paths import read_path
from unlabel.serve.running import Options, Server
from upstream import Upstream
from upstream_model import LABELS, confidences, outputs_of

ROWS = np.random.default_rng(2).normal(size=(5, 4)).astype(np.float32)
INFER = "/v2/models/animals/infer"


class LabelsByDefault(Upstream):
    """A server that gives labels unless it is asked for something else, as MLServer does."""

    def _respond(self, request):
        if request.target == INFER:
            asked = msgspec.json.decode(request.body)
            asked.setdefault("outputs", [{"name": "label"}])
            request = request._replace(body=msgspec.json.encode(asked))
        return super()._respond(request)


def test_in_shadow_the_model_answers_and_changes_are_counted(run, filters, upstream):
    running = run(shadow=True)
    given = infer(running.port, ROWS)
    direct = infer(upstream.port, ROWS)
    assert given.body == direct.body
    assert given.headers["unlabel-filter"] is None
    digest = running.server.filters["animals"].loaded.digest
    assert given.headers["unlabel-shadow"] == f"sha256:{digest}"
    metadata = ask(running.port, "GET", "/v2/models/animals")
    assert metadata.body == ask(upstream.port, "GET", "/v2/models/animals").body
    rows = confidences(ROWS)
    first, top = filters[0], rows.argmax(axis=1)
    new = first.apply(rows).argmax(axis=1)
    changed = sum(LABELS[a] != first.classes_out[b] for a, b in zip(top, new, strict=True))
    counts = running.metrics()
    assert counts["unlabel_changed_answers_total", ("model", "animals")] == changed
    assert counts["unlabel_rows_total", ("model", "animals")] == len(ROWS)


def test_in_shadow_what_cannot_be_filtered_passes_too(run, upstream):
    running = run(shadow=True)
    asked = {"outputs": ["label"]}
    assert infer(running.port, ROWS, **asked).body == infer(upstream.port, ROWS, **asked).body
    assert running.metrics()["unlabel_shadow_errors_total", ("model", "animals")] == 1


def test_answers_name_their_filter(run, folder):
    running = run()
    digest = hashlib.sha256((folder / "first.safetensors").read_bytes()).hexdigest()
    assert infer(running.port, ROWS).headers["unlabel-filter"] == f"sha256:{digest}"
    metadata = ask(running.port, "GET", "/v2/models/animals")
    assert metadata.headers["unlabel-filter"] == f"sha256:{digest}"


def test_only_filtered_models_are_served_if_so_told(run):
    running = run(only_filtered=True)
    refused = infer(running.port, ROWS, model="others")
    assert refused.status == 404
    assert "no filter" in refused.json["error"]
    assert ask(running.port, "GET", "/v2/models/others").status == 404
    assert infer(running.port, ROWS).status == 200


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/v1/models/animals:predict", "/v2/repository/index", "/v2/models", "/v2/"),
        *("/v2/repository/models/animals/load", "/v2/systemsharedmemory/status", "/v2/models/"),
        *("/v2/models/animals/generate", "/v2/models/animals/infer/", "/v2/models//infer"),
    ],
)
def test_other_paths_are_not_served(run, upstream, path):
    upstream.received.clear()
    running = run()
    for method in ("GET", "POST"):
        answer = ask(running.port, method, path)
        assert answer.status == 404
        assert "error" in answer.json
    assert not upstream.received


def test_other_methods_are_not_served(run):
    running = run()
    answer = ask(running.port, "DELETE", "/v2/models/animals")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, POST")
    assert ask(running.port, "HEAD", "/v2").status == 405
    assert ask(running.port, "GET", INFER).status == 404


def test_the_models_name_may_be_escaped(run, filters):
    running = run()
    headers, body = inference(ROWS, outputs=["probabilities"])
    answer = ask(running.port, "POST", "/v2/models/%61nimal%73/infer", body, headers)
    expected = filters[0].apply(confidences(ROWS))
    np.testing.assert_array_equal(answer.tensors["probabilities"], expected)


@pytest.mark.parametrize("is_asked_for", [False, True])
def test_labels_alone_are_filtered_where_the_confidences_have_a_name(folder, filters, is_asked_for):
    def served(fitted):
        return ServedFilter(fitted, output="probabilities")

    outputs = {"outputs": ["label"]} if is_asked_for else {}
    with (
        LabelsByDefault() as upstream,
        Running(folder / "first.safetensors", upstream, served=served) as running,
    ):
        tensors = infer(running.port, ROWS, **outputs).tensors
        received = len(upstream.received)
    top = filters[0].apply(confidences(ROWS)).argmax(axis=1)
    assert [*tensors] == ["label"]
    assert tensors["label"].tolist() == [filters[0].classes_out[at] for at in top]
    assert received == (1 if is_asked_for else 2)


def test_packed_requests_go_upstream_unpacked(run, filters, upstream):
    running = run()
    headers, body = inference(ROWS, outputs=["probabilities"])
    packed = {**headers, "Content-Encoding": "gzip"}
    answer = ask(running.port, "POST", INFER, gzip.compress(body), packed)
    expected = filters[0].apply(confidences(ROWS))
    np.testing.assert_array_equal(answer.tensors["probabilities"], expected)
    assert "content-encoding" not in upstream.received[-1].headers
    answer = ask(running.port, "POST", INFER, body, {**headers, "Content-Encoding": "br"})
    assert (answer.status, "br" in answer.json["error"]) == (400, True)


def test_large_answers_are_filtered_in_a_thread(run, filters):
    rows = np.random.default_rng(3).normal(size=(3000, 4)).astype(np.float32)
    running = run()
    for binary in (False, True):
        answer = infer(running.port, rows, outputs=["probabilities"], binary=binary)
        np.testing.assert_array_equal(
            answer.tensors["probabilities"], filters[0].apply(confidences(rows))
        )


def test_too_many_requests_are_told_to_come_again(run):
    running = run(max_requests=2)
    with ThreadPoolExecutor(8) as pool:
        answers = [*pool.map(lambda _: infer(running.port, ROWS, fault="slow=0.5"), range(8))]
    assert {answer.status for answer in answers} == {200, 503}
    refused = [answer for answer in answers if answer.status == 503]
    assert all(answer.headers["retry-after"] == "1" for answer in refused)
    assert "2 requests are in flight" in refused[0].json["error"]
    assert running.metrics()["unlabel_requests_in_flight",] == 1  # the one that reads them
    assert infer(running.port, ROWS).status == 200


def test_bodies_are_limited_both_ways(run):
    running = run(max_body=4000)
    assert infer(running.port, np.zeros((500, 4))).status == 413
    answer = infer(running.port, ROWS)
    assert answer.status == 502
    assert "more than 4000 bytes" in answer.json["error"]
    few = infer(running.port, ROWS[:1], outputs=["probabilities"])
    assert few.status == 200


def test_the_upstreams_time_is_limited(run):
    running = run(timeout=0.3)
    answer = infer(running.port, ROWS, fault="slow=5")
    assert answer.status == 504
    assert "0.3 seconds" in answer.json["error"]


def test_the_log_has_a_line_per_request_and_no_confidences(run):
    running = run()
    answer = infer(running.port, ROWS, outputs=["probabilities"])
    infer(running.port, ROWS, model="none")
    talk(running.port, b"nonsense\r\n\r\n")
    good, missing, malformed = (line for line in running.log if line["event"] == "request")
    assert (good["method"], good["path"], good["status"]) == ("POST", INFER, 200)
    assert (good["model"], good["rows"]) == ("animals", 5)
    assert good["filter"] == answer.headers["unlabel-filter"][7:19]
    assert good["bytes_out"] == len(answer.body)
    assert 0 < good["upstream_ms"] < good["ms"]
    assert (missing["status"], "none" in missing["error"]) == (404, True)
    assert malformed["status"] == 400
    shown = json.dumps(running.log)
    assert not any(f"{value:.4f}"[:6] in shown for value in answer.tensors["probabilities"].flat)


def test_requests_are_answered_without_a_reader_of_the_log(run):
    running = run()
    read, write = os.pipe()
    os.close(read)
    with open(write, "wb", buffering=0) as broken:
        running.server.service.log = Log(broken)
        assert infer(running.port, ROWS).status == 200
        running.server.service.log = Log(io.BytesIO())


def test_metrics_count_requests_times_and_masses(run, filters):
    running = run()
    for _ in range(3):
        infer(running.port, ROWS)
    infer(running.port, ROWS, fault="status=418")
    counts = running.metrics()
    model = ("model", "animals")
    assert counts["unlabel_requests_total", model, ("status", "200")] == 3
    assert counts["unlabel_requests_total", model, ("status", "418")] == 1
    assert counts["unlabel_upstream_seconds_count", model] == 4
    assert counts["unlabel_filter_seconds_count", model] == 3
    masses = filters[0].run(confidences(ROWS)).removed_mass
    assert counts["unlabel_removed_mass_count", model] == 15
    assert counts["unlabel_removed_mass_sum", model] == pytest.approx(3 * masses.sum())
    for bound in ("0.01", "0.1", "1.0"):
        below = counts["unlabel_removed_mass_bucket", ("le", bound), model]
        assert below == 3 * (masses <= float(bound)).sum()


def shape_of(port):
    return infer(port, ROWS, outputs=["probabilities"]).json["outputs"][0]["shape"]


def test_a_filter_is_loaded_again_when_its_file_changes(filters, upstream, tmp_path, monkeypatch):
    monkeypatch.setattr(running_module, "WATCH_SECONDS", 0.01)
    first, second = filters
    path = tmp_path / "f.safetensors"
    first.save(path)
    with Running(path, upstream) as running:
        assert shape_of(running.port) == [5, len(first.classes_out)]
        second.save(path)
        assert "error" not in running.await_event("reload")
        assert shape_of(running.port) == [5, len(second.classes_out)]
        for number, damage in enumerate([lambda: path.write_bytes(b"nonsense"), path.unlink], 2):
            damage()
            assert "stays as it was" in running.await_event("reload", number)["error"]
            assert shape_of(running.port) == [5, len(second.classes_out)]
        first.save(path)
        assert "error" not in running.await_event("reload", 4)
        assert shape_of(running.port) == [5, len(first.classes_out)]


def test_files_are_watched_whatever_happens(filters, upstream, tmp_path, monkeypatch):
    monkeypatch.setattr(running_module, "WATCH_SECONDS", 0.01)
    first, second = filters
    path = tmp_path / "f.safetensors"
    first.save(path)
    problems = [KeyError("bug"), None]

    def served(fitted):
        if fitted == second and (problem := problems.pop(0)) is not None:
            raise problem
        return ServedFilter(fitted)

    with Running(path, upstream, served=served) as running:
        second.save(path)
        assert "KeyError('bug'). The filter stays" in running.await_event("reload")["error"]
        second.save(path)
        assert "error" not in running.await_event("reload", 2)
        assert shape_of(running.port) == [5, len(second.classes_out)]


def test_a_signal_loads_filters_again_at_once(folder, filters, upstream):
    with serving(upstream.port, {"animals": folder / "first.safetensors"}) as served:
        served.process.send_signal(signal.SIGHUP)  # the file is the same
        until = time.monotonic() + PATIENCE
        while '"reload"' not in served.log.read_text() and time.monotonic() < until:
            time.sleep(0.005)
        *_, line = served.log.read_text().splitlines()
        assert "error" not in json.loads(line)
        assert served.stop() == 0


def test_an_upstream_that_is_down_is_said_to_be(run):
    running = run(to=SimpleNamespace(port=free_port()))
    answer = infer(running.port, ROWS)
    assert (answer.status, {*answer.json}) == (502, {"error"})
    assert ask(running.port, "GET", "/v2/health/live").status == 200
    assert ask(running.port, "GET", "/v2/health/ready").status == 503


@pytest.mark.parametrize(
    "url",
    [
        *("localhost:8080", "ftp://x", "http://", "http://x:99999", "http://x/v2", "http://u@x"),
        *("http://:secret@x", "http://\xe4..x"),
    ],
)
def test_the_upstream_is_an_address(folder, filters, url):
    with pytest.raises(UnlabelError, match="address"):
        Server(Options(upstream=url), {})


@pytest.mark.parametrize(
    "target",
    [
        *(b"http://evil/v2", b"//evil/v2", b"v2", b"*", b"evil:80", b"/v2 x", b"/v2\xff"),
        *(b"/v2/models/%ff", b"/v2?a b"),
    ],
)
def test_a_target_that_is_no_path_is_malformed(target):
    with pytest.raises(UnlabelError) as caught:
        read_path(target)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    "target",
    [
        *(b"/v2/../etc", b"/v2/%2e%2e/etc", b"/v2/.", b"/v2//models", b"/v2/models/a%2Finfer"),
        *(b"/v2/models/a%5cb", b"/v2/models/a%00", b"/v2/models/a%0d%0aX", b"/v2/models/%7f"),
        *(b"/v2/models/%2561", b"/v2/models/a;b", b"/v2/models/a%3fb", b"/v2/models/a%23b"),
    ],
)
def test_a_path_that_may_be_read_in_two_ways_is_not_served(target):
    with pytest.raises(UnlabelError) as caught:
        read_path(target)
    assert caught.value.status == 404


def test_targets_are_short():
    read_path(b"/v2/models/" + b"a" * 8000)
    with pytest.raises(UnlabelError, match="8192 bytes") as caught:
        read_path(b"/v2/models/" + b"a" * 9000)
    assert caught.value.status == 414


def test_packed_content_ends_where_it_says():
    packed = gzip.compress(b"first")
    assert decoded(packed, b"gzip", 99) == b"first"
    with pytest.raises(ValueError, match="data behind its end"):
        decoded(packed + gzip.compress(b"second"), b"gzip", 99)


def test_a_log_may_have_nowhere_to_go(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    Log().write("request", status=200)


def test_the_command_refuses_models_without_a_file_each(folder, filters):
    def error(*options):
        command = ["serve", "--upstream", "http://127.0.0.1:9", *options]
        return str(CliRunner().invoke(app, command).exception)

    file = folder / "first.safetensors"
    assert "write it as NAME=FILE" in error("--model", str(file))
    assert "two filters" in error("--model", f"a={file}", "--model", f"a={file}")
    assert "cannot be the name" in error("--model", f"a/b={file}")
    assert "none.safetensors" in error("--model", f"a={folder / 'none.safetensors'}")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "cannot be listened on" in error("--model", f"a={file}", "--port", port)


def test_embeddings_pass(run):
    given = infer(run().port, ROWS).tensors["embedding"]
    np.testing.assert_array_equal(given, outputs_of("animals", ROWS)["embedding"][1])
