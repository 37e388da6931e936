"""`unlabel serve` in front of MLServer with scikit-learn models, asked with Triton's client.

MLServer does not speak the binary tensor extension over HTTP: it answers in JSON where tensors are
asked for in binary, as the protocol allows, and refuses those that are sent in binary.
"""

import json
import sys
from pathlib import Path

import joblib
import numpy as np
import pytest
import tritonclient.http as triton
from sklearn.datasets import load_digits, load_iris
from sklearn.linear_model import LogisticRegression

from serving import ask, free_port, serving
from unlabel import OutputFilter

MLSERVER = Path(sys.executable).with_name("mlserver")
ROWS = 8


def digits():
    """Labels that are numbers."""
    features, labels = load_digits(return_X_y=True)
    return features / 16, labels, [3, 7]


def flowers():
    """Labels that are texts."""
    found = load_iris()
    return found.data, found.target_names[found.target], ["versicolor"]


class Model:
    """A model, its filter, and rows to ask about."""

    def __init__(self, make, folder):
        features, labels, removed = make()
        self.estimator = LogisticRegression(max_iter=200).fit(features, labels)
        self.name = make.__name__
        self.rows = features[:: len(features) // ROWS].astype(np.float32)
        confidences = self.estimator.predict_proba(features)
        options = {"classes": self.estimator.classes_, "remove": removed, "method": "mask"}
        self.filter = OutputFilter.fit(confidences, labels, **options)
        self.file = folder / f"{self.name}.safetensors"
        self.filter.save(self.file)
        (folder / self.name).mkdir()
        joblib.dump(self.estimator, folder / self.name / "model.joblib")
        settings = {
            "name": self.name,
            "implementation": "mlserver_sklearn.SKLearnModel",
            "parameters": {"uri": "./model.joblib", "version": "v1"},
            "outputs": [
                {
                    "name": "predict_proba",
                    "datatype": "FP64",
                    "shape": [-1, len(self.estimator.classes_)],
                }
            ],
        }
        (folder / self.name / "model-settings.json").write_text(json.dumps(settings))


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return folder, {make.__name__: Model(make, folder) for make in (digits, flowers)}


@pytest.fixture(scope="module")
def ports(models, running):
    """The ports of MLServer and of the filter in front of it."""
    folder, by_name = models
    direct, grpc, metrics = free_port(), free_port(), free_port()
    settings = {
        "host": "127.0.0.1",
        "http_port": direct,
        "grpc_port": grpc,
        "metrics_port": metrics,
        "parallel_workers": 0,
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    command = [MLSERVER, "start", "."]
    files = {name: model.file for name, model in by_name.items()}
    with (
        running(command, direct, "digits", folder / "log", cwd=folder),
        serving(direct, files, "--label-output", "predict") as served,
    ):
        yield direct, served.port


@pytest.fixture(params=["digits", "flowers"])
def model(request, models):
    return models[1][request.param]


def asked(port, model, *names, binary):
    client = triton.InferenceServerClient(f"127.0.0.1:{port}")
    tensor = triton.InferInput("x", model.rows.shape, "FP32")
    tensor.set_data_from_numpy(model.rows, binary_data=False)
    outputs = [triton.InferRequestedOutput(name, binary_data=binary) for name in names]
    try:
        return client.infer(model.name, [tensor], outputs=outputs)
    finally:
        client.close()


@pytest.mark.parametrize("binary", [False, True])
def test_the_confidences_are_those_of_apply_to_the_bit(ports, model, binary):
    direct, through = ports
    own = asked(direct, model, "predict_proba", binary=binary).as_numpy("predict_proba")
    np.testing.assert_allclose(own, model.estimator.predict_proba(model.rows), atol=1e-6)
    given = asked(through, model, "predict_proba", binary=binary).as_numpy("predict_proba")
    assert given.dtype == own.dtype == np.float64
    np.testing.assert_array_equal(given, model.filter.apply(own))


@pytest.mark.parametrize("binary", [False, True])
def test_the_predictions_are_the_top_labels(ports, model, binary):
    answer = asked(ports[1], model, "predict", "predict_proba", binary=binary)
    own = asked(ports[0], model, "predict", binary=binary).as_numpy("predict")
    top = model.filter.apply(model.estimator.predict_proba(model.rows)).argmax(axis=1)
    expected = np.array([model.filter.classes_out[i] for i in top])
    given = answer.as_numpy("predict")
    assert given.shape == own.shape
    assert given.dtype == own.dtype
    texts = [each.decode() if isinstance(each, bytes) else each for each in given.ravel()]
    np.testing.assert_array_equal(texts, expected)


def test_metadata_show_the_new_shape(ports, model):
    direct, through = (ask(port, "GET", f"/v2/models/{model.name}").json for port in ports)
    direct["outputs"][0]["shape"] = [-1, len(model.filter.classes_out)]
    given = through["outputs"][0]
    assert {key: given[key] for key in ("name", "datatype", "shape")} == {
        key: direct["outputs"][0][key] for key in ("name", "datatype", "shape")
    }
    assert (through["name"], through["versions"]) == (model.name, direct["versions"])


def test_health_answers_as_the_protocol_says(ports, model):
    client = triton.InferenceServerClient(f"127.0.0.1:{ports[1]}")
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready(model.name)
    assert client.get_server_metadata()["name"]
    assert not client.is_model_ready("no_such")
    client.close()


def test_tensors_sent_in_binary_are_refused_as_mlserver_does(ports, model):
    statuses = []
    for port in ports:
        client = triton.InferenceServerClient(f"127.0.0.1:{port}")
        tensor = triton.InferInput("x", model.rows.shape, "FP32")
        tensor.set_data_from_numpy(model.rows)
        with pytest.raises(triton.InferenceServerException) as refusal:
            client.infer(model.name, [tensor])
        statuses.append(refusal.value.status())
        client.close()
    assert statuses[0] == statuses[1] is not None
