"""Models that do not fit, and libraries that are not there."""

import subprocess
import sys

import numpy as np
import pytest
from skl2onnx import to_onnx
from sklearn.linear_model import LogisticRegression

from onnx_models import SOFTMAX, identity_model, mask_filter, parsed
from unlabel import UnlabelError
from unlabel.onnx import attach


@pytest.mark.parametrize("model", [b"", LogisticRegression()], ids=type)
def test_other_objects_than_models_are_refused_in_one_sentence(model):
    with pytest.raises(UnlabelError, match=r"The model is a .*: give an onnx\.ModelProto or"):
        attach(model, mask_filter(3))
    with pytest.raises(UnlabelError, match="The filter is a str: give an OutputFilter"):
        attach(identity_model(3), "removed.safetensors")


WRONG = {
    "two outputs": (
        "net (float[N,3] x) => (float[N,3] p, float[N,3] q) { p = Identity(x) q = Neg(x) }",
        {},
        "The outputs 'p' and 'q' could all be the confidences of 3 labels",
    ),
    "no such output": (
        SOFTMAX,
        {"output": "y"},
        r"no output 'y' .* 'p' \(float, shape \(\?, 3\)\)",
    ),
    "another width": (
        "net (float[N,4] x) => (float[N,4] p) { p = Softmax<axis=1>(x) }",
        {},
        r"The filter is for 3 labels .*'p' \(float, shape \(\?, 4\)\)",
    ),
    "an image": (
        "net (float[N,3,8] x) => (float[N,3,8] p) { p = Identity(x) }",
        {},
        r"The filter is for 3 labels .*'p' \(float, shape \(\?, 3, 8\)\)",
    ),
    "logits": (
        "net (float[N,3] x) => (float[N,3] p) <float[3] b = {0, 0, 0}> { p = Add(x, b) }",
        {},
        "'p' holds logits and the filter takes probabilities",
    ),
    "a width that is open beside one that fits": (
        "net (float[N,3] x, float[N,M] y) => (float[N,3] features, float[N,M] p)"
        " { features = Identity(x) p = Identity(y) }",
        {},
        "The outputs 'features' and 'p' could all be the confidences of 3 labels",
    ),
    "labels that do not exclude each other": (
        "net (float[N,3] x) => (float[N,3] p) { s = Sigmoid(x) p = Identity(s) }",
        {},
        "'p' comes from a Sigmoid: only labels that exclude each other can be changed",
    ),
    "no node": ("net (float[N,3] x) => (float[N,3] x) {}", {}, "'x' is not computed by any node"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_model_that_does_not_fit_is_refused(case):
    text, options, message = WRONG[case]
    with pytest.raises(UnlabelError, match=message):
        attach(parsed(text), mask_filter(3), **options)


def test_an_opset_that_is_too_old_is_refused():
    with pytest.raises(UnlabelError, match="has opset 8 and a filter needs 9 or later"):
        attach(parsed(SOFTMAX, opset=8), mask_filter(3))


def test_a_model_is_filtered_once():
    grafted = attach(parsed(SOFTMAX), mask_filter(3))
    with pytest.raises(UnlabelError, match="has a filter already"):
        attach(grafted, mask_filter(2))


def test_damaged_models_get_one_error(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4)).astype(np.float32)
    y = np.array(["a", "b", "c"])[np.arange(90) % 3]
    content = to_onnx(LogisticRegression().fit(X, y), X[:1]).SerializeToString()
    fitted = mask_filter(3, remove=["b"], classes=["a", "b", "c"])
    path = tmp_path / "damaged.onnx"
    messages = []
    for _ in range(400):
        damaged = bytearray(content)
        at = int(rng.integers(len(damaged)))
        damaged[at : at + int(rng.integers(0, 9))] = rng.bytes(int(rng.integers(0, 9)))
        path.write_bytes(damaged)
        try:
            attach(path, fitted)
        except UnlabelError as error:
            messages.append(str(error))
    assert len(messages) > 200
    assert not any("\n" in message for message in messages)


def test_without_onnx_the_import_names_the_extra():
    code = "import sys; sys.modules['onnx'] = None; import unlabel.onnx"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = done.stderr.strip().splitlines()[-1]
    assert last.endswith(": The module onnx is not installed: pip install 'unlabel[onnx]'.")


def test_onnx_runtime_is_not_needed(tmp_path):
    (tmp_path / "model.onnx").write_bytes(parsed(SOFTMAX).SerializeToString())
    mask_filter(3).save(tmp_path / "filter")
    code = (
        "import sys; sys.modules['onnxruntime'] = None\n"
        "from unlabel import OutputFilter; from unlabel.onnx import attach\n"
        f"attach({str(tmp_path / 'model.onnx')!r}, OutputFilter.load({str(tmp_path / 'filter')!r}))"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
