"""Answers that were wrong without a word, each entered as a user would."""

import numpy as np
import pytest

import doors
from unlabel import UnlabelError

NAMES = ["ant", "bee", "cat", "dog", "emu", "fox"]


def softmax(logits):
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def outputs(rows=3_000, temperature=1.5):
    """Outputs that are overconfident by a temperature, and true labels."""
    rng = np.random.default_rng(5)
    logits = rng.normal(0.0, 9.0, (rows, len(NAMES)))
    fair = softmax(logits / temperature)
    columns = (fair.cumsum(axis=1) > rng.random((rows, 1))).argmax(axis=1)
    return softmax(logits), columns


def temperature_of(rows, columns):
    options = {"classes": NAMES, "remove": ["ant"], "method": "mask", "calibrate": True}
    return doors.fit(rows, np.array(NAMES)[columns], **options).temperature


def test_a_few_wrong_labels_do_not_steer_the_temperature():
    rows, columns = outputs()
    wrong = np.flatnonzero((rows.min(axis=1) < 1e-9) & (rows.argmin(axis=1) > 0))[:60]
    mislabelled = columns.copy()
    mislabelled[wrong] = rows[wrong].argmin(axis=1)
    clean = temperature_of(rows, columns)
    assert temperature_of(rows, mislabelled) == pytest.approx(clean, rel=0.05)


def test_the_temperature_comes_before_labels_are_merged():
    rows = outputs(50)[0]
    roots = np.sqrt(rows)
    calibrated = roots / roots.sum(axis=1, keepdims=True)
    merged = np.column_stack([calibrated[:, 0] + calibrated[:, 2], calibrated[:, [1, 3, 4, 5]]])
    fitted = doors.at_temperature(doors.mask(NAMES, {"ant": "pet", "cat": "pet"}), 2.0)
    np.testing.assert_allclose(doors.apply(fitted, rows), merged, rtol=0, atol=1e-12)


def test_labels_in_another_order_are_refused():
    rows, columns = outputs()
    labels = np.array(NAMES)[columns]
    with pytest.raises(UnlabelError):
        doors.fit(rows, labels, classes=NAMES[::-1], remove=["ant"], allow_chance=False)


def test_a_removed_label_without_rows_is_masked_beside_others():
    rows, columns = outputs()
    known = columns != 1
    labels = np.array(NAMES)[columns[known]]
    try:
        fitted = doors.fit(rows[known], labels, classes=NAMES, remove=["ant", "bee"])
    except UnlabelError:
        fitted = None
    assert fitted is not None
    assert fitted.counts[1] == 0


def test_no_sum_is_explained_by_rounding():
    row = [[0.16, 0.16, 0.16, 0.16, 0.17, 0.17]]
    with pytest.raises(UnlabelError, match=r"sums to 0[.]98"):
        doors.apply(doors.mask(NAMES, ["ant"]), row)
