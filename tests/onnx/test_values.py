"""Filters in ONNX Runtime give the numbers of the core."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax

import doors
from golden_integrations import (
    DTYPES,
    KINDS,
    METHODS,
    TOLERANCE,
    golden_case,
    golden_filter,
)
from onnx_models import identity_model, mask_filter, run
from unlabel.filter import recipe_of
from unlabel.onnx import attach

OPSETS = (9, 11, 13, 18, 26)  # the oldest, each that changes an operator, ONNX Runtime's newest


@pytest.fixture
def osr_filter():
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.full(10, 0.3), size=400)
    return doors.fit(rows, rng.integers(10, size=400), remove=[4, 1, 7])


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS)
def test_onnx_runtime_reproduces_the_golden_file(method, kind, dtype, opset):
    rows, expected = golden_case(method, kind, dtype)
    result = run(attach(identity_model(10, dtype, opset), golden_filter(method, kind)), x=rows)
    assert result["scores"].dtype == dtype
    np.testing.assert_allclose(result["scores"], expected, rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("kind", KINDS)
def test_sixty_labels_of_a_real_network(cifar100, kind):
    logits, labels = cifar100
    rows = logits if kind == "logits" else softmax(logits, axis=1)
    fitted = doors.fit(rows, labels, remove=list(range(20, 80)), kind=kind)
    model = attach(identity_model(100, "float64"), fitted)
    np.testing.assert_allclose(run(model, x=rows)["scores"], fitted.apply(rows), rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_labels", [2, 3, 7])
@pytest.mark.parametrize("kind", KINDS)
def test_extreme_rows_are_filtered_as_the_core_does(kind, n_labels):
    rng = np.random.default_rng(n_labels)
    labels = np.arange(120) % n_labels
    reference = softmax(rng.normal(size=(120, n_labels)) + 2 * np.eye(n_labels)[labels], axis=1)
    removed = rng.permutation(n_labels)[: n_labels - 1].tolist()
    fitted = replace(doors.fit(reference, labels, remove=removed), kind=kind)
    if kind == "logits":
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
    result = run(attach(identity_model(n_labels, "float64"), fitted), x=rows)["scores"]
    np.testing.assert_allclose(result, fitted.apply(rows), rtol=0, atol=1e-12)


def test_factors_next_to_one_are_not_left_out():
    reference = [[1e-4, 0.5, 0.3, 0.1999], [1e-4, 0.2, 0.5, 0.2999]]
    fitted = doors.fit(reference, [0, 0], remove=[0])
    recipe = recipe_of(fitted)
    assert 1e-9 < recipe.complement < 2.9e-8
    assert np.float32(recipe.diagonal) == 1
    rows = np.array([[0.4, 0.3, 0.2, 0.1], [0.9, 0.05, 0.03, 0.02]])
    model = attach(identity_model(4, "float64"), fitted)
    np.testing.assert_allclose(run(model, x=rows)["scores"], fitted.apply(rows), rtol=0, atol=1e-14)


def test_a_temperature_next_to_one_is_not_left_out():
    fitted = replace(mask_filter(3), temperature=1 + 1e-8)
    rows = np.array([[0.7, 0.1, 0.2]])
    model = attach(identity_model(3, "float64"), fitted)
    np.testing.assert_allclose(run(model, x=rows)["scores"], fitted.apply(rows), rtol=0, atol=1e-14)


def test_the_only_retained_label_gets_everything():
    fitted = mask_filter(2, remove=[0])
    assert run(attach(identity_model(2), fitted), x=np.array([[1, 0]], "f4"))["scores"] == 1


def test_a_filter_that_removes_nothing_only_normalises():
    fitted = mask_filter(3, remove=[], kind="logits")
    rows = np.array([[1.0, 2.0, 3.0]])
    result = run(attach(identity_model(3, "float64"), fitted), x=rows)["scores"]
    np.testing.assert_allclose(result, softmax(rows, axis=1), rtol=0, atol=1e-15)


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_the_batch_is_dynamic(osr_filter, rows):
    x = np.random.default_rng(1).dirichlet(np.ones(10), size=rows).astype(np.float32)
    model = attach(identity_model(10), osr_filter)
    result = run(model, x=x)["scores"]
    np.testing.assert_allclose(result, osr_filter.apply(x), rtol=0, atol=1e-6)
    dims = model.graph.output[0].type.tensor_type.shape.dim
    assert (dims[0].dim_param, dims[1].dim_value) == ("rows", 7)


def test_the_other_nodes_stay_as_they_are(osr_filter):
    model = identity_model(10)
    model.graph.node[0].doc_string = "theirs"
    grafted = attach(model, osr_filter)
    assert grafted.graph.node[0].doc_string == "theirs"
    assert [info.name for info in grafted.graph.input] == ["x"]
    ours = grafted.graph.node[1:]
    assert all(node.name.startswith("unlabel/") and node.domain == "" for node in ours)
    assert len({node.name for node in ours}) == len(ours)
