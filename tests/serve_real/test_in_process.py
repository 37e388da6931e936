"""The runtime of the docs, in a real MLServer."""

import json
import os
import re
import sys
from pathlib import Path

import joblib
import numpy as np
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from serving import ask, free_port
from unlabel import OutputFilter

PAGE = Path(__file__).parents[2] / "docs" / "integrations" / "serve.md"
MLSERVER = Path(sys.executable).with_name("mlserver")


def test_the_runtime_of_the_docs_filters_its_answers(tmp_path, running):
    [runtime] = re.findall(
        r"^```python\n(# Not run .* MLServer\.\n[^`]*)```", PAGE.read_text(), re.M
    )
    (tmp_path / "runtime.py").write_text(runtime)
    flowers = load_iris()
    labels = flowers.target_names[flowers.target]
    model = LogisticRegression(max_iter=200).fit(flowers.data, labels)
    joblib.dump(model, tmp_path / "model.joblib")
    confidences = model.predict_proba(flowers.data)
    fitted = OutputFilter.fit(
        confidences, labels, classes=model.classes_, remove=["versicolor"], method="mask"
    )
    fitted.save(tmp_path / "changed.safetensors")
    settings = {
        "name": "flowers",
        "implementation": "runtime.FilteredModel",
        "parameters": {"uri": "./model.joblib"},
    }
    (tmp_path / "model-settings.json").write_text(json.dumps(settings))
    port = free_port()
    ports = {"http_port": port, "grpc_port": free_port(), "metrics_port": free_port()}
    server = {"host": "127.0.0.1", "parallel_workers": 0} | ports
    (tmp_path / "settings.json").write_text(json.dumps(server))

    rows = flowers.data[::15]
    tensor = {"name": "x", "datatype": "FP64", "shape": [*rows.shape], "data": rows.tolist()}
    outputs = [{"name": "predict"}, {"name": "predict_proba"}]
    body = json.dumps({"inputs": [tensor], "outputs": outputs}).encode()
    options = {"cwd": tmp_path, "env": os.environ | {"PYTHONPATH": str(tmp_path)}}
    with running([MLSERVER, "start", "."], port, "flowers", tmp_path / "log", **options):
        answer = json.loads(ask(port, "POST", "/v2/models/flowers/infer", body).body)
    found = {output["name"]: output for output in answer["outputs"]}
    expected = fitted.apply(model.predict_proba(rows))
    assert found["predict_proba"]["shape"] == [*expected.shape]
    np.testing.assert_array_equal(np.ravel(found["predict_proba"]["data"]), expected.ravel())
    tops = [fitted.classes_out[column] for column in expected.argmax(axis=1)]
    assert found["predict"]["data"] == tops
