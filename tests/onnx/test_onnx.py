"""The ONNX face, run in ONNX Runtime and compared with the filter itself."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.parser import parse_model
from scipy.special import softmax
from skl2onnx import to_onnx
from sklearn.datasets import load_digits
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from commands import unlabel
from golden_integrations import (
    DTYPES,
    INPUTS,
    METHODS,
    TOLERANCE,
    golden_case,
    golden_filter,
)
from onnx_models import identity_model, run
from unlabel import LabelRemovalClassifier, LabelRemover, UnlabelError
from unlabel.fitting import fit_filter
from unlabel.onnx import graft

OPSETS = (9, 11, 13, 18, 26)  # the oldest, each that changes an operator, ONNX Runtime's newest
NAMES = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])


def parsed(text, opset=17):
    return parse_model(f'<ir_version: 8, opset_import: ["": {opset}, "ai.onnx.ml": 1]> {text}')


def mask_filter(n_labels=3, remove=(1,), input="probabilities", classes=None):
    remover = LabelRemover(remove=list(remove), method="mask", classes=classes)
    return replace(remover.fit(np.full((1, n_labels), 1 / n_labels)).filter_, input=input)


@pytest.fixture
def osr_filter():
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.full(10, 0.3), size=400)
    return fit_filter(rows, rng.integers(10, size=400), remove=[4, 1, 7])


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("input", INPUTS)
@pytest.mark.parametrize("method", METHODS)
def test_onnx_runtime_reproduces_the_golden_file(method, input, dtype, opset):
    rows, expected = golden_case(method, input, dtype)
    result = run(graft(identity_model(10, dtype, opset), golden_filter(method, input)), x=rows)
    assert result["scores"].dtype == dtype
    np.testing.assert_allclose(result["scores"], expected, rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("input", INPUTS)
def test_sixty_labels_of_a_real_network(cifar100, input):
    logits, labels = cifar100
    rows = logits if input == "logits" else softmax(logits, axis=1)
    fitted = fit_filter(rows, labels, remove=list(range(20, 80)), input=input)
    model = graft(identity_model(100, "float64"), fitted)
    np.testing.assert_allclose(run(model, x=rows)["scores"], fitted.apply(rows), rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_labels", [2, 3, 7])
@pytest.mark.parametrize("input", INPUTS)
def test_extreme_rows_are_filtered_as_the_core_does(input, n_labels):
    rng = np.random.default_rng(n_labels)
    labels = np.arange(120) % n_labels
    reference = softmax(rng.normal(size=(120, n_labels)) + 2 * np.eye(n_labels)[labels], axis=1)
    removed = rng.permutation(n_labels)[: n_labels - 1].tolist()
    fitted = replace(fit_filter(reference, labels, remove=removed), input=input)
    if input == "logits":
        rows = rng.normal(size=(60, n_labels)) * 10.0 ** rng.uniform(0, 4, size=(60, 1))
        rows[30:][rng.random((30, n_labels)) < 0.5] = -np.inf
        rows[np.isneginf(rows).all(axis=1), 0] = 0.0
        tops = [top * np.eye(n_labels) for top in (1e4, -1e4, 1e300, -1e300)]
        rows = np.vstack([rows, *tops, tops[2] - 1e300])
    else:
        nearly = np.eye(n_labels)[rng.integers(n_labels, size=40)]
        nearly = nearly + 10.0 ** rng.uniform(-320, -1, size=nearly.shape)
        nearly[rng.random(nearly.shape) < 0.3] = 0.0
        nearly[nearly.sum(axis=1) == 0, 0] = 1.0
        rows = np.vstack([np.eye(n_labels), nearly / nearly.sum(axis=1, keepdims=True)])
    result = run(graft(identity_model(n_labels, "float64"), fitted), x=rows)["scores"]
    np.testing.assert_allclose(result, fitted.apply(rows), rtol=0, atol=1e-12)


def test_factors_next_to_one_are_not_left_out():
    reference = [[1e-4, 0.5, 0.3, 0.1999], [1e-4, 0.2, 0.5, 0.2999]]
    fitted = LabelRemover(remove=[0]).fit(reference, [0, 0]).filter_
    diagonal, complement, _, _ = fitted.recipe.numbers[:, 0]
    assert 1e-9 < complement < 2.9e-8
    assert np.float32(diagonal) == 1
    rows = np.array([[0.4, 0.3, 0.2, 0.1], [0.9, 0.05, 0.03, 0.02]])
    model = graft(identity_model(4, "float64"), fitted)
    np.testing.assert_allclose(run(model, x=rows)["scores"], fitted.apply(rows), rtol=0, atol=1e-14)


def test_a_temperature_next_to_one_is_not_left_out():
    fitted = replace(mask_filter(3), temperature=1 + 1e-8)
    rows = np.array([[0.7, 0.1, 0.2]])
    model = graft(identity_model(3, "float64"), fitted)
    np.testing.assert_allclose(run(model, x=rows)["scores"], fitted.apply(rows), rtol=0, atol=1e-14)


def test_the_only_retained_label_gets_everything():
    fitted = mask_filter(2, remove=[0])
    assert run(graft(identity_model(2), fitted), x=np.array([[1, 0]], "f4"))["scores"] == 1


def test_a_filter_that_removes_nothing_only_normalises():
    fitted = mask_filter(3, remove=[], input="logits")
    rows = np.array([[1.0, 2.0, 3.0]])
    result = run(graft(identity_model(3, "float64"), fitted), x=rows)["scores"]
    np.testing.assert_allclose(result, softmax(rows, axis=1), rtol=0, atol=1e-15)


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_the_batch_is_dynamic(osr_filter, rows):
    x = np.random.default_rng(1).dirichlet(np.ones(10), size=rows).astype(np.float32)
    model = graft(identity_model(10), osr_filter)
    result = run(model, x=x)["scores"]
    np.testing.assert_allclose(result, osr_filter.apply(x), rtol=0, atol=1e-6)
    dims = model.graph.output[0].type.tensor_type.shape.dim
    assert (dims[0].dim_param, dims[1].dim_value) == ("rows", 7)


# scikit-learn


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X.astype(np.float32), y


SKLEARN_MODELS = {
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression()),
    "forest": RandomForestClassifier(15, random_state=0),
    "gradient boosting": GradientBoostingClassifier(n_estimators=3, random_state=0),
    "histogram boosting": HistGradientBoostingClassifier(max_iter=3, random_state=0),
    "naive bayes": GaussianNB(),
    "network": make_pipeline(
        StandardScaler(), MLPClassifier((16,), max_iter=60, tol=0.01, random_state=0)
    ),
}


# skl2onnx hands protobuf integers of NumPy's, and the network is not trained to the end.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("zipmap", [True, False], ids=["zipmap", "tensor"])
@pytest.mark.parametrize("labels", ["numbers", "texts"])
@pytest.mark.parametrize("name", SKLEARN_MODELS)
def test_scikit_learn_models_agree_with_the_classifier(digits, name, labels, zipmap):
    X, y = digits
    y = NAMES[y] if labels == "texts" else y
    remove = ["three", "zero", "eight"] if labels == "texts" else [3, 0, 8]
    model = SKLEARN_MODELS[name].fit(X[:600], y[:600])
    expected = LabelRemovalClassifier(FrozenEstimator(model), remove=remove).fit(X[:600], y[:600])
    last = model[-1] if hasattr(model, "steps") else model
    exported = to_onnx(model, X[:1], options={id(last): {"zipmap": zipmap}})
    grafted = run(graft(exported, expected.filter_), X=X[600:])
    before = run(exported, X=X[600:])
    assert list(grafted) == list(before)
    found, probabilities = grafted.values()
    if zipmap:
        assert [list(row) for row in probabilities[:3]] == [expected.classes_.tolist()] * 3
        probabilities = np.array([list(row.values()) for row in probabilities])
    wanted = expected.predict_proba(X[600:])
    np.testing.assert_allclose(probabilities, wanted, rtol=0, atol=1e-5)
    assert found.dtype == next(iter(before.values())).dtype
    if name == "forest":  # votes tie, and single precision breaks a tie in its own way
        chosen = wanted[np.arange(len(wanted)), np.searchsorted(expected.classes_, found)]
        assert (wanted.max(axis=1) - chosen).max() < 1e-6
    else:
        np.testing.assert_array_equal(found, expected.predict(X[600:]))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("zipmap", [True, False], ids=["zipmap", "tensor"])
def test_raw_scores_of_scikit_learn_are_logits(digits, zipmap):
    X, y = digits[0][:300], digits[1][:300]
    model = LogisticRegression(max_iter=500).fit(X, y)
    fitted = fit_filter(model.decision_function(X), y, remove=[3, 8], input="logits")
    options = {id(model): {"zipmap": zipmap, "raw_scores": True}}
    exported = to_onnx(model, X[:1], options=options)
    _, found = run(graft(exported, fitted), X=X).values()
    if zipmap:
        found = np.array([list(row.values()) for row in found])
    wanted = fitted.apply(model.decision_function(X))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4)
    with pytest.raises(UnlabelError, match="holds logits and the filter takes probabilities"):
        graft(exported, replace(fitted, input="probabilities"))


@pytest.mark.parametrize("model", [b"", LogisticRegression()], ids=type)
def test_other_objects_than_models_are_refused_in_one_sentence(model):
    with pytest.raises(UnlabelError, match=r"The model is a .*: give an onnx\.ModelProto or"):
        graft(model, mask_filter(3))
    with pytest.raises(UnlabelError, match="The filter is a str: give an OutputFilter"):
        graft(identity_model(3), "retired.safetensors")


def test_labels_of_a_table_are_texts_and_those_of_the_model_numbers(digits):
    X, y = digits
    model = LogisticRegression(max_iter=500).fit(X[:300], y[:300])
    rows, names = model.predict_proba(X[:300]), [str(label) for label in range(10)]
    fitted = fit_filter(rows, y[:300].astype(str), classes=names, remove=["3", "8"])
    found = run(graft(to_onnx(model, X[:1]), fitted), X=X[300:400])
    assert found["output_label"].dtype == np.int64
    assert not set(found["output_label"]) & {3, 8}
    assert list(found["output_probability"][0]) == [0, 1, 2, 4, 5, 6, 7, 9]


def test_a_model_with_other_labels_is_refused(digits):
    X, y = digits
    model = LogisticRegression(max_iter=500).fit(X[:300], NAMES[y[:300]])
    for zipmap in (True, False):
        exported = to_onnx(model, X[:1], options={"zipmap": zipmap})
        fitted = mask_filter(10, remove=["one"], classes=NAMES.tolist())
        with pytest.raises(UnlabelError, match=r"Label 0 is 'eight' in the model and 'zero' in"):
            graft(exported, fitted)
        with pytest.raises(UnlabelError, match=r"filter is for 3 labels .* 10"):
            graft(exported, mask_filter(3))


# PyTorch


@pytest.mark.parametrize("exporter", ["dynamo", "legacy"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_pytorch_exports(tmp_path, exporter):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(8, 10),
    ).eval()
    images = torch.randn(200, 3, 8, 8)
    with torch.no_grad():
        logits = network(images).numpy()
    fitted = fit_filter(logits, np.arange(200) % 10, remove=[6, 2], input="logits")
    path = tmp_path / "network.onnx"
    names = {"input_names": ["images"], "output_names": ["logits"]}
    if exporter == "dynamo":
        batch = ({0: torch.export.Dim("batch")},)
        program = torch.onnx.export(
            network, (images[:2],), dynamo=True, dynamic_shapes=batch, verbose=False, **names
        )
        program.save(path, external_data=True)
    else:
        axes = {"images": {0: "batch"}, "logits": {0: "batch"}}
        torch.onnx.export(network, (images[:2],), path, dynamo=False, dynamic_axes=axes, **names)
    model = graft(path, fitted)
    for rows in (1, 7):
        result = run(model, images=images[:rows].numpy())["logits"]
        np.testing.assert_allclose(result, fitted.apply(logits[:rows]), rtol=0, atol=1e-6)


# A model that someone else made


def strange_model():
    """An old model with names, outputs and data of its own, and a branch that sees its scores."""
    rng = np.random.default_rng(5)
    weights = numpy_helper.from_array(rng.normal(size=(600, 4)).astype(np.float32), "W:0")
    words = numpy_helper.from_array(np.array(["a", "b", "c", "d"], dtype=object), "words")
    zero = numpy_helper.from_array(np.array(0.5, dtype=np.float32), "half")

    def branch(name, op, *inputs):
        given = helper.make_tensor_value_info(f"{name}/out", TensorProto.FLOAT, None)
        node = helper.make_node(op, inputs, [f"{name}/out"])
        return helper.make_graph([node], name, [], [given])

    nodes = [
        helper.make_node("MatMul", ["in:0", "W:0"], ["mm:0"]),
        helper.make_node("Softmax", ["mm:0"], ["p:0"], axis=1),
        helper.make_node("ArgMax", ["mm:0"], ["top:0"], axis=1, keepdims=1, name="unlabel/x"),
        helper.make_node("Gather", ["words", "top:0"], ["word:0"]),
        helper.make_node("ReduceMax", ["p:0"], ["best:0"], keepdims=0),
        helper.make_node("Greater", ["best:0", "half"], ["sure:0"]),
        helper.make_node(
            "If",
            ["sure:0"],
            ["echo:0"],
            then_branch=branch("then", "Identity", "p:0"),
            else_branch=branch("else", "Neg", "p:0"),
        ),
    ]
    outputs = [
        helper.make_tensor_value_info("echo:0", TensorProto.FLOAT, [None, 4]),
        helper.make_tensor_value_info("word:0", TensorProto.STRING, [None, 1]),
        helper.make_tensor_value_info("p:0", TensorProto.FLOAT, [None, None]),
        helper.make_tensor_value_info("top:0", TensorProto.INT64, [None, 1]),
    ]
    given = helper.make_tensor_value_info("in:0", TensorProto.FLOAT, [None, 600])
    graph = helper.make_graph(nodes, "someone's", [given], outputs, [weights, words, zero])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6)
    model.producer_name = "someone"
    model.metadata_props.add(key="licence", value="theirs")
    return model


def test_a_model_someone_else_made():
    model = strange_model()
    before = model.SerializeToString()
    fitted = mask_filter(4, remove=["c", "a"], classes=["a", "b", "c", "d"])
    grafted = graft(model, fitted, output="p:0")
    assert model.SerializeToString() == before
    x = np.random.default_rng(0).normal(size=(7, 600)).astype(np.float32)
    old, new = run(model, **{"in:0": x}), run(grafted, **{"in:0": x})
    np.testing.assert_allclose(new["p:0"], fitted.apply(old["p:0"]), rtol=0, atol=1e-6)
    column = new["p:0"].argmax(axis=1)[:, None]
    np.testing.assert_array_equal(new["word:0"], np.array(["b", "d"])[column])
    np.testing.assert_array_equal(new["top:0"], np.array([1, 3])[column])
    np.testing.assert_array_equal(new["echo:0"], old["echo:0"])
    metadata = {entry.key: entry.value for entry in grafted.metadata_props}
    recorded = json.loads(metadata["unlabel"])
    assert metadata["licence"] == "theirs"
    assert (recorded["removed"], recorded["classes"]) == (["c", "a"], ["b", "d"])
    assert recorded["outputs"] == ["p:0", "word:0", "top:0"]
    assert [list(map(str, grafted.opset_import)), grafted.ir_version, grafted.producer_name] == [
        list(map(str, model.opset_import)),
        6,
        "someone",
    ]
    # One of its nodes has a name of ours.
    names = [name for node in grafted.graph.node for name in (node.name, *node.output) if name]
    assert sum(name.startswith("unlabel/") for name in names) == 0
    assert "words" not in {tensor.name for tensor in grafted.graph.initializer}


def test_the_other_nodes_stay_as_they_are(osr_filter):
    model = identity_model(10)
    model.graph.node[0].doc_string = "theirs"
    grafted = graft(model, osr_filter)
    assert grafted.graph.node[0].doc_string == "theirs"
    assert [info.name for info in grafted.graph.input] == ["x"]
    ours = grafted.graph.node[1:]
    assert all(node.name.startswith("unlabel/") and node.domain == "" for node in ours)
    assert len({node.name for node in ours}) == len(ours)


def test_another_head_keeps_its_label():
    model = parsed("""
        two (float[N,3] x) => (float[N,3] p, int64[N] top, float[N,4] q, int64[N] other)
        <float[3,4] w = {1,0,0,0, 0,1,0,0, 0,0,1,0}>
        { p = Identity(x)  top = ArgMax<axis=1, keepdims=0>(p)
          q = MatMul(x, w)  other = ArgMax<axis=1, keepdims=0>(q) }""")
    x = np.array([[0.2, 0.5, 0.3]], "f4")
    result = run(graft(model, mask_filter(3)), x=x)
    assert (result["top"], result["other"]) == (2, 1)


TOP_LABELS = {
    "temperature": "s = Div(x, t)  p = Softmax<axis=1>(s)  l = ArgMax<axis=1, keepdims=0>(x)",
    "a factor a label": "s = MatMul(x, d)  p = Softmax<axis=1>(s)  l = ArgMax<axis=1>(x)",
    "a sum by a product": (
        "e = Exp(x)  s = MatMul(e, ones)  p = Div(e, s)  l = ArgMax<axis=1, keepdims=0>(x)"
    ),
    "pixels": (
        "c = Reshape(x, image)  f = Flatten(c)  p = Softmax<axis=1>(f)"
        "  m = ArgMax<axis=1, keepdims=0>(c)  l = Squeeze(m, last)"
    ),
    "turned over": (
        "p = Softmax<axis=1>(x)  y = Transpose<perm=[1, 0]>(p)  l = ArgMax<axis=0, keepdims=0>(y)"
    ),
    "a row between": (
        "p = Softmax<axis=1>(x)  u = Unsqueeze(p, one)  m = ArgMax<axis=-1, keepdims=0>(u)"
        "  l = Squeeze(m, one)"
    ),
}


@pytest.mark.parametrize("how", TOP_LABELS)
def test_a_top_label_is_found_however_it_is_computed(how):
    column = ", 1" if how == "a factor a label" else ""
    model = parsed(f"""
        net (float[N,3] x) => (float[N,3] p, int64[N{column}] l)
        <float[1] t = {{2}}, float[3,3] d = {{2,0,0, 0,1,0, 0,0,3}}, float[3,1] ones = {{1,1,1}},
         int64[4] image = {{-1,3,1,1}}, int64[2] last = {{1,2}}, int64[1] one = {{1}}>
        {{ {TOP_LABELS[how]} }}""")
    x = np.random.default_rng(0).normal(size=(40, 3)).astype("f4")
    assert (run(model, x=x)["l"] == 1).any()
    result = run(graft(model, mask_filter(3)), x=x)
    np.testing.assert_array_equal(result["l"].ravel(), np.array([0, 2])[result["p"].argmax(axis=1)])


LABEL_TYPES = {
    "float": ("float[N]", "l = Cast<to=1>(top)"),
    "uint8": ("uint8[N]", "l = Cast<to=2>(top)"),
    "text": ("string[N]", "l = Cast<to=8>(top)"),
    "a table of a table": ("int64[N]", "i = Gather(turned, top)  l = Gather(back, i)"),
}


@pytest.mark.parametrize("how", LABEL_TYPES)
def test_a_top_label_is_found_in_every_type(how):
    kind, nodes = LABEL_TYPES[how]
    model = parsed(f"""
        net (float[N,3] x) => (float[N,3] p, {kind} l)
        <int64[3] turned = {{1,2,0}}, int64[3] back = {{2,0,1}}>
        {{ p = Softmax<axis=1>(x)  top = ArgMax<axis=1, keepdims=0>(p)  {nodes} }}""")
    x = np.random.default_rng(0).normal(size=(40, 3)).astype("f4")
    before, after = run(model, x=x), run(graft(model, mask_filter(3)), x=x)
    np.testing.assert_array_equal(before["l"].astype(int), before["p"].argmax(axis=1))
    expected = np.array([0, 2])[after["p"].argmax(axis=1)]
    assert after["l"].dtype == before["l"].dtype
    np.testing.assert_array_equal(after["l"].astype(int), expected)


NOT_FOLLOWED = {
    "top one": ("int64[N,1]", "values, l = TopK(p, k)"),
    "top one of the logits": ("int64[N,1]", "values, l = TopK(s, k)"),
    "top one of the scores before": ("int64[N,1]", "values, l = TopK(s0, k)"),
    "counted from one": ("int64[N]", "top = ArgMax<axis=1, keepdims=0>(p)  l = Add(top, k)"),
    "the least one": ("int32[N]", "i = ArgMin<axis=1, keepdims=0>(s)  l = Cast<to=6>(i)"),
    "by a product": (
        "int64[N]",
        "h = Hardmax<axis=1>(p)  f = MatMul(h, numbers)  l = Cast<to=7>(f)",
    ),
    "of other columns": ("int64[N]", "t = MatMul(p, w)  l = ArgMax<axis=1, keepdims=0>(t)"),
    "of a picture": (
        "int64[A,B]",
        "c = Reshape(p, picture)  l = ArgMax<axis=2, keepdims=0>(c)",
    ),
    "in a branch": (
        "int64[N]",
        "l = If(yes) <"
        "then_branch = a () => (int64[N] m) { m = ArgMax<axis=1, keepdims=0>(p) },"
        "else_branch = b () => (int64[N] n) { n = ArgMin<axis=1, keepdims=0>(p) }>",
    ),
}


@pytest.mark.parametrize("how", NOT_FOLLOWED)
def test_a_label_that_is_not_followed_is_refused(how):
    kind, nodes = NOT_FOLLOWED[how]
    model = parsed(f"""
        net (float[N,5] x, bool yes) => (float[N,3] p, {kind} l)
        <int64[1] k = {{1}}, float[3] numbers = {{0,1,2}}, float[1] two = {{2}},
         float[5,3] v = {{0,0,1, 0,1,0, 1,0,0, 0,0,0, 1,1,1}}, int64[3] picture = {{2,-1,3}},
         float[3,3] w = {{0,0,1, 0,1,0, 1,0,0}}>
        {{ s0 = MatMul(x, v)  s = Div(s0, two)  p = Softmax<axis=1>(s)  {nodes} }}""")
    assert run(model, x=np.eye(5, dtype="f4")[:4], yes=np.array(True))["l"].size == 4
    message = "'l' is computed from the conf.* graph.output or with onnx.utils.extract_model"
    with pytest.raises(UnlabelError, match=message):
        graft(model, mask_filter(3))
    del model.graph.output[1]
    assert graft(model, mask_filter(3)).graph.output[0].name == "p"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_classifiers_label_that_is_not_followed_is_refused(digits):
    model = to_onnx(
        RandomForestClassifier(3, random_state=0).fit(digits[0][:90], digits[1][:90]),
        digits[0][:1],
        options={"zipmap": False},
    )
    fitted = mask_filter(10)
    assert graft(model, fitted)
    name = model.graph.output[0].name
    model.graph.node.append(helper.make_node("Neg", [name], ["turned"]))
    model.graph.output[0].name = "turned"
    with pytest.raises(UnlabelError, match="'turned' is computed from the confidences"):
        graft(model, fitted)


def test_integers_that_are_not_computed_from_the_logits_stay_as_they_are():
    model = parsed("""
        net (float[N,5] x, int64[N] id) => (float[N,3] p, int64[2] size, int64[N] same, int32[N] b)
        <float[5,3] v = {0,0,1, 0,1,0, 1,0,0, 0,0,0, 1,1,1}>
        { s = MatMul(x, v)  p = Softmax<axis=1>(s)  size = Shape(p)  same = Identity(id)
          m = ArgMin<axis=1, keepdims=0>(x)  b = Cast<to=6>(m) }""")
    feeds = {"x": np.eye(5, dtype="f4"), "id": np.arange(5) + 70}
    before, after = run(model, **feeds), run(graft(model, mask_filter(3)), **feeds)
    assert after["p"].shape == (5, 2)
    for name in ("size", "same", "b"):
        np.testing.assert_array_equal(after[name], before[name])


@pytest.mark.parametrize("width", [2, 3])
def test_other_top_labels_than_that_of_the_confidences_stay_as_they_are(width):
    # Groups of labels before the head, as wide as the head or not, and the best row of each label.
    model = parsed(f"""
        grouped (float[N,3] x, float[3,{width}] a, float[{width},3] b)
            => (float[N,3] p, int64[N] group, int64[3] best)
        {{ g = MatMul(x, a)  group = ArgMax<axis=1, keepdims=0>(g)
           h = MatMul(g, b)  p = Softmax<axis=1>(h)  best = ArgMax<axis=0, keepdims=0>(p) }}""")
    rng = np.random.default_rng(0)
    shapes = {"x": (9, 3), "a": (3, width), "b": (width, 3)}
    feeds = {name: rng.normal(size=shape).astype("f4") for name, shape in shapes.items()}
    before, after = run(model, **feeds), run(graft(model, mask_filter(3)), **feeds)
    assert after["p"].shape == (9, 2)
    np.testing.assert_array_equal(after["group"], before["group"])
    np.testing.assert_array_equal(after["best"], before["best"])


def test_custom_functions_are_kept():
    model = parse_model("""<ir_version: 8, opset_import: ["": 17, "mine": 1]>
        net (float[N,3] x) => (float[N,3] p) { p = mine.soft(x) }
        <domain: "mine", opset_import: ["": 17]> soft (a) => (b) { b = Softmax<axis=1>(a) }""")
    grafted = graft(model, mask_filter(3))
    assert grafted.functions == model.functions
    assert run(grafted, x=np.zeros((2, 3), "f4"))["p"].tolist() == [[0.5, 0.5]] * 2


def test_a_width_that_is_not_known_is_checked_as_the_model_runs():
    model = parsed("open (float[N,M] x) => (float[N,M] p) { p = Identity(x) }")
    grafted = graft(model, mask_filter(3))
    assert run(grafted, x=np.array([[0.2, 0.5, 0.3]], "f4"))["p"] == pytest.approx(
        np.array([[0.4, 0.6]])
    )
    with pytest.raises(Exception, match="Reshape"):
        run(grafted, x=np.full((3, 4), 0.25, "f4"))


# Mistakes of the user


SOFTMAX = "net (float[N,3] x) => (float[N,3] p) { p = Softmax<axis=1>(x) }"
WRONG = {
    "two outputs": (
        "net (float[N,3] x) => (float[N,3] p, float[N,3] q) { p = Identity(x) q = Neg(x) }",
        {},
        "The outputs 'p' and 'q' could all be the confidences of 3 labels: .*--output",
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
        "The outputs 'features' and 'p' could all be the confidences of 3 labels: .*--output",
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
        graft(parsed(text), mask_filter(3), **options)


LINEAR = "net (float[N,3] x) => (float[N,3] p) <float[3] b = {0, 0, 0}> { p = Add(x, b) }"


@pytest.mark.parametrize(
    ("text", "found", "declared"),
    [(SOFTMAX, "probabilities", "logits"), (LINEAR, "logits", "probabilities")],
)
def test_a_contradiction_in_the_graph_names_the_option(text, found, declared):
    message = f"'p' holds {found} and the filter takes {declared}: give input='{found}' .--input"
    for fitted, input in (
        (mask_filter(3, input=declared), None),
        (mask_filter(3, input=declared), declared),
        (mask_filter(3, input=found), declared),
    ):
        with pytest.raises(UnlabelError, match=message):
            graft(parsed(text), fitted, input)
    grafted = graft(parsed(text), mask_filter(3, input=declared), found)
    x = np.log(np.array([[0.2, 0.5, 0.3]], "f4"))
    np.testing.assert_allclose(run(grafted, x=x)["p"], [[0.4, 0.6]], rtol=0, atol=1e-6)
    recorded = {entry.key: json.loads(entry.value) for entry in grafted.metadata_props}
    assert recorded["unlabel"]["input"] == found


LAST_OPERATORS = {
    "MatMul": ("p = MatMul(x, w)", "logits"),
    "MatMul of two": (
        "t = Transpose<perm=[1, 0]>(x)  y = MatMul(x, t)  p = MatMul(y, x)",
        "logits",
    ),
    "scaled": ("y = Gemm(x, w)  p = Mul(y, two)", "logits"),
    "divided": ("y = Gemm(x, w)  p = Div(y, two)", "logits"),
    "scaled by what is computed": ("y = MatMul(x, w)  e = Exp(two)  p = Mul(e, y)", "logits"),
    "a bias in a node": (
        "b = Constant<value_floats=[1.0, 2.0, 3.0]>()  y = MatMul(x, w)  p = Add(y, b)",
        "logits",
    ),
    "a bias of what is not known": (
        "b = Constant<value_floats=[1.0, 2.0, 3.0]>()  y = Exp(x)  p = Add(y, b)",
        "logits",
    ),
    "Add of two": ("y = MatMul(x, w)  z = Exp(x)  p = Add(y, z)", "logits"),
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
    other = ({*INPUTS} - {found}).pop()
    with pytest.raises(UnlabelError, match=f"'p' holds {found} and the filter takes {other}"):
        graft(model, mask_filter(3, input=other))
    assert graft(model, mask_filter(3, input=found))


AXIS = "from a Softmax that does not go over the labels: correct its axis"
SHIFTED = "holds probabilities plus or times a constant: give the probabilities"
NEITHER = {
    "over the batch": ("p = Softmax<axis=0>(x)", 17, AXIS),
    "over the batch, as logarithms": ("p = LogSoftmax<axis=0>(x)", 17, AXIS),
    "Log of one over the batch": ("y = Softmax<axis=0>(x)  p = Log(y)", 17, AXIS),
    "over all rows at once": ("p = Softmax<axis=0>(x)", 11, AXIS),
    "over one pixel": ("i = Reshape(x, image)  y = Softmax(i)  p = Flatten(y)", 17, AXIS),
    "per cent": ("y = Softmax<axis=1>(x)  p = Mul(y, two)", 17, SHIFTED),
    "divided": ("y = Softmax<axis=1>(x)  p = Div(y, two)", 17, SHIFTED),
    "plus": ("y = Softmax<axis=1>(x)  p = Add(two, y)", 17, SHIFTED),
    "clipped": ("y = Sigmoid(x)  p = Clip(y)", 17, "'p' comes from a Sigmoid"),
}


@pytest.mark.parametrize("input", INPUTS)
@pytest.mark.parametrize("case", NEITHER)
def test_outputs_that_are_neither_logits_nor_probabilities_are_refused(case, input):
    nodes, opset, message = NEITHER[case]
    with pytest.raises(UnlabelError, match=message):
        graft(three_scores(nodes, opset), mask_filter(3, input=input))


def test_an_old_softmax_flattens():
    model = three_scores("i = Reshape(x, image)  y = Softmax(i)  p = Flatten(y)", opset=11)
    with pytest.raises(UnlabelError, match="'p' holds probabilities"):
        graft(model, mask_filter(3, input="logits"))
    found = run(graft(model, mask_filter(3)), x=np.log(np.array([[0.2, 0.5, 0.3]], "f4")))["p"]
    np.testing.assert_allclose(found, [[0.4, 0.6]], rtol=0, atol=1e-6)


OPEN = {
    "a softmax by hand": "e = Exp(x)  s = ReduceSum<keepdims=1>(e)  p = Div(e, s)",
    "normalised": "y = Gemm(x, w)  r = Relu(y)  s = ReduceSum<keepdims=1>(r)  p = Div(r, s)",
    "a mean": "a = Softmax(x)  y = Gemm(x, w)  b = Softmax(y)  s = Add(a, b)  p = Div(s, two)",
    "labels that are added up": "y = Softmax(x)  p = MatMul(y, w)",
}


@pytest.mark.parametrize("input", INPUTS)
@pytest.mark.parametrize("case", OPEN)
def test_the_declared_input_holds_if_the_operators_leave_it_open(case, input):
    assert graft(three_scores(OPEN[case]), mask_filter(3, input=input))


def test_operators_of_another_domain_are_not_taken_for_those_of_the_same_name():
    model = parse_model("""<ir_version: 8, opset_import: ["": 17, "mine": 1]>
        net (float[N,3] x) => (float[N,3] p) { p = mine.Add(x) }
        <domain: "mine", opset_import: ["": 17]> Add (a) => (b) { b = Identity(a) }""")
    for input in INPUTS:
        assert graft(model, mask_filter(3, input=input))


def test_the_command_has_an_option_for_the_kind_of_input(tmp_path):
    (tmp_path / "model.onnx").write_bytes(parsed(LINEAR).SerializeToString())
    mask_filter(3).save(tmp_path / "filter")
    arguments = ("onnx", tmp_path / "model.onnx", tmp_path / "filter", "--out", tmp_path / "new")
    code, _, errors = unlabel(*arguments)
    assert code == 2
    assert "give input='logits' (--input logits)." in errors
    assert unlabel(*arguments, "--input", "logits")[0] == 0
    x = np.log(np.array([[0.2, 0.5, 0.3]], "f4"))
    result = run(onnx.load(tmp_path / "new"), x=x)["p"]
    np.testing.assert_allclose(result, [[0.4, 0.6]], rtol=0, atol=1e-6)


def test_an_opset_that_is_too_old_is_refused():
    with pytest.raises(UnlabelError, match="has opset 8 and a filter needs 9 or later"):
        graft(parsed(SOFTMAX, opset=8), mask_filter(3))


def test_a_model_is_grafted_once():
    grafted = graft(parsed(SOFTMAX), mask_filter(3))
    with pytest.raises(UnlabelError, match="has a filter already"):
        graft(grafted, mask_filter(2))


def test_the_literal_method_is_refused():
    rows = softmax(np.random.default_rng(0).normal(size=(30, 3)), axis=1)
    fitted = fit_filter(rows, np.arange(30) % 3, remove=[1], method="literal")
    with pytest.raises(UnlabelError, match="method='literal' is for audit only"):
        graft(parsed(SOFTMAX), fitted)


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
            graft(path, fitted)
        except UnlabelError as error:
            messages.append(str(error))
    assert len(messages) > 200
    assert not any("\n" in message for message in messages)


def test_without_onnx_the_import_names_the_extra():
    code = "import sys; sys.modules['onnx'] = None; import unlabel.onnx"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = done.stderr.strip().splitlines()[-1]
    assert last.endswith(": onnx is not installed: pip install 'unlabel[onnx]'.")


def test_onnx_runtime_is_not_needed(tmp_path):
    (tmp_path / "model.onnx").write_bytes(parsed(SOFTMAX).SerializeToString())
    mask_filter(3).save(tmp_path / "filter")
    code = (
        "import sys; sys.modules['onnxruntime'] = None\n"
        "from unlabel import OutputFilter; from unlabel.onnx import graft\n"
        f"graft({str(tmp_path / 'model.onnx')!r}, OutputFilter.load({str(tmp_path / 'filter')!r}))"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


# The command


@pytest.fixture
def files(tmp_path):
    """A model with external data, and a filter for it."""
    folder = tmp_path / "given"
    folder.mkdir()
    onnx.save(
        strange_model(),
        folder / "strange.onnx",
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=1024,
    )
    fitted = mask_filter(4, remove=["c"], classes=["a", "b", "c", "d"])
    fitted.save(folder / "filter.safetensors")
    return folder


def left_behind(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_command_grafts_a_model_with_external_data(files, tmp_path):
    out = tmp_path / "taken" / "new.onnx"
    out.parent.mkdir()
    arguments = ("onnx", files / "strange.onnx", files / "filter.safetensors", "--out", out)
    code, printed, errors = unlabel(*arguments, "--output", "p:0")
    assert (code, errors) == (0, "")
    assert "".join(printed.split()).endswith("1of4labelsretiredinp:0,word:0,top:0.")
    assert left_behind(out.parent) == ["new.onnx", "new.onnx.data"]
    onnx.checker.check_model(out)
    x = np.random.default_rng(0).normal(size=(7, 600)).astype(np.float32)
    session = ort.InferenceSession(out, providers=["CPUExecutionProvider"])
    fitted = mask_filter(4, remove=["c"], classes=["a", "b", "c", "d"])
    expected = run(graft(strange_model(), fitted, output="p:0"), **{"in:0": x})["p:0"]
    np.testing.assert_array_equal(session.run(["p:0"], {"in:0": x})[0], expected)

    code, _, errors = unlabel(*arguments, "--output", "p:0")
    assert code == 2
    assert "exists already" in errors
    assert unlabel(*arguments, "--output", "p:0", "--force")[0] == 0
    assert left_behind(out.parent) == ["new.onnx", "new.onnx.data"]


def test_external_data_lies_beside_the_file_that_a_link_leads_to(files, tmp_path):
    real, link = tmp_path / "real" / "new.onnx", tmp_path / "link.onnx"
    real.parent.mkdir()
    real.touch()
    link.symlink_to(real)
    arguments = ("onnx", files / "strange.onnx", files / "filter.safetensors", "--out", link)
    assert unlabel(*arguments, "--output", "p:0", "--force")[0] == 0
    assert left_behind(real.parent) == ["new.onnx", "new.onnx.data"]
    assert left_behind(tmp_path) == ["given", "link.onnx", "real"]
    onnx.checker.check_model(real)


def test_the_command_writes_one_file_where_there_is_no_external_data(files, tmp_path):
    onnx.save(identity_model(4), files / "small.onnx")
    out = tmp_path / "new.onnx"
    fitted = files / "filter.safetensors"
    assert unlabel("onnx", files / "small.onnx", fitted, "--out", out)[0] == 0
    assert left_behind(tmp_path) == ["given", "new.onnx"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "strange.onnx").unlink(), "could not be read: No such file"),
        (lambda f: (f / "strange.onnx").write_text("no model" * 99), "is not an ONNX model"),
        (lambda f: (f / "strange.onnx").write_bytes(b""), "is not a valid ONNX model"),
        (lambda f: (f / "weights.bin").unlink(), "external data of"),
        (lambda f: (f / "weights.bin").write_bytes(b"short"), "external data of"),
        (lambda f: (f / "filter.safetensors").write_bytes(b""), "is not a filter"),
        (
            lambda f: (f / "strange.onnx").replace(f / "x") and (f / "strange.onnx").mkdir(),
            "regular",
        ),
    ],
)
def test_a_mistake_gets_one_sentence_and_leaves_nothing(files, tmp_path, damage, message):
    damage(files)
    out = tmp_path / "new.onnx"
    arguments = ("onnx", files / "strange.onnx", files / "filter.safetensors", "--out", out)
    code, printed, errors = unlabel(*arguments, "--output", "p:0")
    assert (code, printed) == (2, "")
    assert errors.startswith("Error: ")
    assert errors.count("\n") == 1
    assert message in errors
    assert left_behind(tmp_path) == ["given"]


def test_two_outputs_are_named_by_the_command(files, tmp_path):
    arguments = ("onnx", files / "strange.onnx", files / "filter.safetensors")
    code, _, errors = unlabel(*arguments, "--out", tmp_path / "new.onnx")
    assert code == 2
    assert "'echo:0' and 'p:0'" in errors
    assert left_behind(tmp_path) == ["given"]


def test_a_folder_that_is_not_there(files, tmp_path):
    arguments = ("onnx", files / "strange.onnx", files / "filter.safetensors", "--output", "p:0")
    code, _, errors = unlabel(*arguments, "--out", tmp_path / "nowhere" / "new.onnx")
    assert code == 2
    assert "could not be written" in errors
