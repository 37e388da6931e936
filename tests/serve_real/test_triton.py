"""`unlabel serve` in front of Triton, which speaks the binary tensor extension, and its client."""

import os
import shutil
import site
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest
import tritonclient.http as triton

from serving import free_port, saved_filters, serving
from upstream_model import FEATURES, LABELS, confidences

ROWS = np.random.default_rng(5).normal(size=(8, FEATURES)).astype(np.float32)
PACKAGES = Path(sys.prefix) / "triton"  # Triton, and the NumPy that it needs
TRITON = PACKAGES / "pytriton" / "tritonserver"
CONFIG = f"""
backend: "python"
max_batch_size: 64
input [{{ name: "x" data_type: TYPE_FP32 dims: [{FEATURES}] }}]
output [
  {{ name: "probabilities" data_type: TYPE_FP32 dims: [{len(LABELS)}] label_filename: "labels" }},
  {{ name: "label" data_type: TYPE_STRING dims: [1] }}
]
instance_group [{{ kind: KIND_CPU }}]
"""
CODE = """
import sys

sys.path[:0] = {paths!r}

import numpy as np
import triton_python_backend_utils as triton
from upstream_model import outputs_of


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        rows = triton.get_input_tensor_by_name(request, "x").as_numpy()
        found = outputs_of("animals", rows)
        texts = np.array([[text.encode()] for text in found["label"][1]], dtype=object)
        tensors = [triton.Tensor("probabilities", found["probabilities"][1])]
        return triton.InferenceResponse([*tensors, triton.Tensor("label", texts)])
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory, running):
    folder = tmp_path_factory.mktemp("triton")
    model = folder / "models" / "animals"
    (model / "1").mkdir(parents=True)
    (model / "config.pbtxt").write_text(CONFIG)
    (model / "labels").write_text("\n".join(LABELS) + "\n")
    helpers = Path(__file__).parents[1] / "helpers"
    paths = [str(PACKAGES), str(helpers), *site.getsitepackages()]
    (model / "1" / "model.py").write_text(CODE.format(paths=paths))
    shutil.copytree(TRITON / "backends", folder / "backends")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stub = TRITON / "python_backend_stubs" / version / "triton_python_backend_stub"
    shutil.copy(stub, folder / "backends" / "python")
    port = free_port()
    command = [
        TRITON / "bin" / "tritonserver",
        f"--model-repository={folder / 'models'}",
        f"--backend-directory={folder / 'backends'}",
        "--http-address=127.0.0.1",
        f"--http-port={port}",
        "--allow-grpc=false",
        "--allow-metrics=false",
    ]
    libraries = [sysconfig.get_config_var("LIBDIR"), str(PACKAGES / "nvidia_pytriton.libs")]
    environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(libraries)}
    first, _ = saved_filters(folder)
    models = {"animals": folder / "first.safetensors"}
    with (
        running(command, port, "animals", folder / "log", env=environment),
        serving(port, models, "--output", "probabilities") as filtered,
    ):
        filtered.filter, filtered.upstream = first, port
        yield filtered


@pytest.fixture(scope="module")
def client(served):
    made = triton.InferenceServerClient(f"127.0.0.1:{served.port}")
    yield made
    made.close()


@pytest.fixture(scope="module")
def direct(served):
    made = triton.InferenceServerClient(f"127.0.0.1:{served.upstream}")
    yield made
    made.close()


@pytest.fixture(scope="module")
def own(direct):
    """The model's own confidences."""
    given = asked(direct, ["probabilities"], sent=True, received=True).as_numpy("probabilities")
    np.testing.assert_allclose(given, confidences(ROWS), rtol=1e-5)
    return given


def asked(client, names, *, sent, received, **options):
    tensor = triton.InferInput("x", ROWS.shape, "FP32")
    tensor.set_data_from_numpy(ROWS, binary_data=sent)
    outputs = [triton.InferRequestedOutput(name, binary_data=received) for name in names]
    return client.infer("animals", [tensor], outputs=outputs or None, **options)


def as_texts(values):
    """The client gives texts as they came, in binary as bytes."""
    return [each.decode() if isinstance(each, bytes) else each for each in values.ravel()]


@pytest.mark.parametrize("sent", [False, True])
@pytest.mark.parametrize("received", [False, True])
@pytest.mark.parametrize("names", [[], ["probabilities"], ["label", "probabilities"], ["label"]])
def test_the_answers_are_those_of_apply_to_the_bit(served, client, own, names, sent, received):
    answer = asked(client, names, sent=sent, received=received)
    expected = served.filter.apply(own)
    if "label" not in names or len(names) > 1:
        given = answer.as_numpy("probabilities")
        assert given.dtype == np.float32
        np.testing.assert_array_equal(given, expected)
    if names != ["probabilities"]:
        top = [served.filter.classes_out[i] for i in expected.argmax(axis=1)]
        assert as_texts(answer.as_numpy("label")) == top
        assert answer.as_numpy("label").shape == (len(ROWS), 1)
    given = {each["name"] for each in answer.get_response()["outputs"]}
    assert given == ({*names} or {"probabilities", "label"})


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_compressed_both_ways(served, client, own, coding):
    options = {
        "request_compression_algorithm": coding,
        "response_compression_algorithm": coding,
    }
    answer = asked(client, ["probabilities"], sent=True, received=True, **options)
    expected = served.filter.apply(own)
    np.testing.assert_array_equal(answer.as_numpy("probabilities"), expected)


@pytest.mark.parametrize("received", [False, True])
def test_classification_has_the_form_of_tritons_own(served, client, direct, own, received):
    """Triton classifies the model's labels; the filter, in the same form, the new ones."""
    tensor = triton.InferInput("x", ROWS.shape, "FP32")
    tensor.set_data_from_numpy(ROWS)
    output = triton.InferRequestedOutput("probabilities", binary_data=received, class_count=3)
    texts = {}
    for name, each in {"own": direct, "new": client}.items():
        texts[name] = each.infer("animals", [tensor], outputs=[output]).as_numpy("probabilities")
    assert texts["own"].shape == texts["new"].shape == (len(ROWS), 3)
    rows = {"own": own, "new": served.filter.apply(own)}
    labels = {"own": LABELS, "new": served.filter.classes_out}
    for name in texts:  # Triton's own answers show that the expectation is right
        for row, given in zip(rows[name], texts[name], strict=True):
            best = sorted(range(len(row)), key=lambda i: -row[i])[:3]
            expected = [f"{row[i]:f}:{i}:{labels[name][i]}" for i in best]
            assert as_texts(given) == expected, name


def test_metadata_and_health(served, client):
    found = client.get_model_metadata("animals")
    shapes = {output["name"]: output["shape"] for output in found["outputs"]}
    assert shapes == {"probabilities": [-1, len(served.filter.classes_out)], "label": [-1, 1]}
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("animals")
    assert client.is_model_ready("animals", "1")
    assert not client.is_model_ready("no_such")
    assert "binary_tensor_data" in client.get_server_metadata()["extensions"]


def test_a_model_that_is_not_there(client):
    tensor = triton.InferInput("x", ROWS.shape, "FP32")
    tensor.set_data_from_numpy(ROWS)
    with pytest.raises(triton.InferenceServerException, match="no_such"):
        client.infer("no_such", [tensor])
