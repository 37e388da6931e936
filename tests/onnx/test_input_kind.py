"""Logits or probabilities, told by the last operators of the graph."""

import json

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model

from commands import unlabel
from golden_integrations import KINDS
from onnx_models import SOFTMAX, mask_filter, parsed, run
from unlabel import UnlabelError
from unlabel.onnx import attach

LINEAR = "net (float[N,3] x) => (float[N,3] p) <float[3] b = {0, 0, 0}> { p = Add(x, b) }"


@pytest.mark.parametrize(
    ("text", "found", "declared"),
    [(SOFTMAX, "probabilities", "logits"), (LINEAR, "logits", "probabilities")],
)
def test_a_contradiction_in_the_graph_names_the_argument(text, found, declared):
    message = f"'p' holds {found} and the filter takes {declared}: declare"
    for fitted, kind in (
        (mask_filter(3, kind=declared), None),
        (mask_filter(3, kind=declared), declared),
        (mask_filter(3, kind=found), declared),
    ):
        with pytest.raises(UnlabelError, match=message):
            attach(parsed(text), fitted, kind)
    grafted = attach(parsed(text), mask_filter(3, kind=declared), found)
    x = np.log(np.array([[0.2, 0.5, 0.3]], "f4"))
    np.testing.assert_allclose(run(grafted, x=x)["p"], [[0.4, 0.6]], rtol=0, atol=1e-6)
    recorded = {entry.key: json.loads(entry.value) for entry in grafted.metadata_props}
    assert recorded["unlabel"]["kind"] == found


LAST_OPERATORS = {
    "MatMul": ("p = MatMul(x, w)", "logits"),
    "MatMul of two": (
        "t = Transpose<perm=[1, 0]>(x)  y = MatMul(x, t)  p = MatMul(y, x)",
        "logits",
    ),
    "a bias in a node": (
        "b = Constant<value_floats=[1.0, 2.0, 3.0]>()  y = MatMul(x, w)  p = Add(y, b)",
        "logits",
    ),
    "a bias of what is not known": (
        "b = Constant<value_floats=[1.0, 2.0, 3.0]>()  y = Exp(x)  p = Add(y, b)",
        "logits",
    ),
    "Log of Softmax": ("y = Softmax<axis=1>(x)  p = Log(y)", "logits"),
    "LogSoftmax": ("p = LogSoftmax<axis=-1>(x)", "logits"),
    "pooled": (
        "i = Reshape(x, image)  c = Conv(i, k)  r = Relu(c)  g = GlobalAveragePool(r)"
        "  p = Flatten(g)",
        "logits",
    ),
    "clipped": ("y = Softmax<axis=1>(x)  p = Clip(y, two, two)", "probabilities"),
    "Softmax of the last": ("p = Softmax(x)", "probabilities"),
    "turned over": (
        "t = Transpose<perm=[1, 0]>(x)  y = Softmax<axis=0>(t)  p = Transpose<perm=[1, 0]>(y)",
        "probabilities",
    ),
    "pixels": ("i = Reshape(x, image)  y = Softmax<axis=1>(i)  p = Flatten(y)", "probabilities"),
}


CONSTANTS = """float[3,3] w = {1,2,3,4,5,6,7,8,0}, float two = {2}, int64[4] image = {-1,3,1,1},
    float[3,3,1,1] k = {1,2,3,4,5,6,7,8,0}"""


def three_scores(nodes, opset=17):
    return parsed(f"net (float[N,3] x) => (float[N,3] p) <{CONSTANTS}> {{ {nodes} }}", opset)


@pytest.mark.parametrize("case", LAST_OPERATORS)
def test_the_last_operators_tell_logits_from_probabilities(case):
    nodes, found = LAST_OPERATORS[case]
    model = three_scores(nodes)
    run(model, x=np.eye(3, dtype="f4"))
    other = ({*KINDS} - {found}).pop()
    with pytest.raises(UnlabelError, match=f"'p' holds {found} and the filter takes {other}"):
        attach(model, mask_filter(3, kind=other))
    assert attach(model, mask_filter(3, kind=found))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nodes", ["p = Sigmoid(x)", "y = Sigmoid(x)  p = Clip(y)"])
def test_labels_that_do_not_exclude_each_other_are_refused(nodes, kind):
    with pytest.raises(UnlabelError, match="'p' comes from a Sigmoid"):
        attach(three_scores(nodes), mask_filter(3, kind=kind))


OPEN = {
    "a softmax by hand": "e = Exp(x)  s = ReduceSum<keepdims=1>(e)  p = Div(e, s)",
    "normalised": "y = Gemm(x, w)  r = Relu(y)  s = ReduceSum<keepdims=1>(r)  p = Div(r, s)",
    "a mean": "a = Softmax(x)  y = Gemm(x, w)  b = Softmax(y)  s = Add(a, b)  p = Div(s, two)",
    "labels that are added up": "y = Softmax(x)  p = MatMul(y, w)",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", OPEN)
def test_the_declared_input_holds_if_the_operators_leave_it_open(case, kind):
    assert attach(three_scores(OPEN[case]), mask_filter(3, kind=kind))


def test_operators_of_another_domain_are_not_taken_for_those_of_the_same_name():
    model = parse_model("""<ir_version: 8, opset_import: ["": 17, "mine": 1]>
        net (float[N,3] x) => (float[N,3] p) { p = mine.Add(x) }
        <domain: "mine", opset_import: ["": 17]> Add (a) => (b) { b = Identity(a) }""")
    for kind in KINDS:
        assert attach(model, mask_filter(3, kind=kind))


def test_the_command_has_an_option_for_the_kind_of_input(tmp_path):
    (tmp_path / "model.onnx").write_bytes(parsed(LINEAR).SerializeToString())
    mask_filter(3).save(tmp_path / "filter")
    arguments = ("onnx", tmp_path / "model.onnx", tmp_path / "filter", "--out", tmp_path / "new")
    code, _, errors = unlabel(*arguments)
    assert code == 2
    assert "declare that the model gives logits (--kind)." in errors
    assert unlabel(*arguments, "--kind", "logits")[0] == 0
    x = np.log(np.array([[0.2, 0.5, 0.3]], "f4"))
    result = run(onnx.load(tmp_path / "new"), x=x)["p"]
    np.testing.assert_allclose(result, [[0.4, 0.6]], rtol=0, atol=1e-6)
