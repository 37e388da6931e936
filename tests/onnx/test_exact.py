"""Filters in PyTorch and ONNX that a subtraction would cost all digits, against exact numbers."""

# ruff: noqa: E402  (optional libraries are looked for first)
from dataclasses import replace
from decimal import localcontext

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxruntime")

import doors
import plain
from onnx_models import identity_model, run
from unlabel.onnx import attach
from unlabel.torch import FilterModule


def in_torch(fitted, rows):
    return FilterModule(fitted)(torch.tensor(rows)).numpy()


def in_onnx(fitted, rows):
    return run(attach(identity_model(rows.shape[1], "float64"), fitted), x=rows)["scores"]


def exact(fitted, rows):
    """Every step spelled out on decimal numbers, with the statistics of the filter."""
    there, steps = list(range(len(fitted.classes_in))), []
    for column, mean, share in zip(fitted.removed, fitted.means, fitted.shares, strict=True):
        after = [label for label in there if label != column]
        steps.append((there.index(column), plain.exactly(mean[there]), plain.exactly(share[after])))
        there = after
    taken = plain.softmax_exactly if fitted.kind == "logits" else divided_exactly
    return np.array([plain.apply_exactly(taken(row), steps) for row in rows], dtype=float)


def divided_exactly(row):
    with localcontext(prec=plain.DIGITS):
        entries = plain.exactly(row)
        return [entry / sum(entries) for entry in entries]


def removal_of_two(first):
    return doors.fit([first, [0, 0.5, 0.25, 0.25]], [0, 1], remove=[0, 1])


@pytest.mark.parametrize("face", [in_torch, in_onnx])
def test_a_label_whose_mean_is_nothing_on_itself(face):
    fitted = removal_of_two([0, 1, 0, 0])
    result = face(fitted, np.array([[1, 0, 1e-17, 0]]))
    np.testing.assert_allclose(result, [[5 / 6, 1 / 6]], rtol=0, atol=1e-15)


@pytest.mark.parametrize("face", [in_torch, in_onnx])
@pytest.mark.parametrize("kind", ["probabilities", "logits"])
@pytest.mark.parametrize("own", [0, 1e-9, 1e-8, 1e-4, 0.3])
def test_a_label_whose_mean_is_hardly_anything_on_itself(face, kind, own):
    # The share holds as little of the retained labels as the row does: both of them count.
    fitted = replace(removal_of_two([own, 1 - own, 0, 1e-18]), kind=kind)
    rows = np.array([[1, 0, rest, 0] for rest in (1e-20, 1e-19, 1e-17, 1e-9)])
    if kind == "logits":
        rows = np.log(np.where(rows == 0, 1e-300, rows))
    np.testing.assert_allclose(face(fitted, rows), exact(fitted, rows), rtol=0, atol=1e-15)


@pytest.mark.parametrize("face", [in_torch, in_onnx])
@pytest.mark.parametrize("seed", range(4))
def test_long_chains_of_extreme_rows(face, seed):
    rng = np.random.default_rng(seed)
    reference = 10.0 ** rng.uniform(-12, 0, (32, 8))
    reference /= reference.sum(axis=1, keepdims=True)
    fitted = doors.fit(reference, np.arange(32) % 8, remove=rng.permutation(8)[:6].tolist())
    rows = 10.0 ** rng.uniform(-25, 0, (40, 8))
    rows[np.arange(40), np.array(fitted.removed)[rng.integers(6, size=40)]] = 1
    rows /= rows.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(face(fitted, rows), exact(fitted, rows), rtol=0, atol=1e-14)
