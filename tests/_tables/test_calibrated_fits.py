"""What `fit --calibrate` prints: the temperature, and what it does on rows it was not fitted on."""

import re

import numpy as np
import pytest

from commands import unlabel

NAMES = ["cat", "dog", "fox"]
PRINTED = re.compile(r"Temperature ([\d.]+); calibration error ([\d.]+) before, ([\d.]+) after")


def printed(folder, rows, labels):
    """Fit on an array with names and true labels; return what is printed of the temperature."""
    np.savez(folder / "in.npz", p=rows, label=np.array(NAMES)[labels], classes=NAMES)
    arguments = ("--remove", "cat", "--calibrate", "--out", folder / "f.safetensors", "--force")
    code, _, error = unlabel("fit", folder / "in.npz", *arguments)
    assert code == 0, error
    return error


def drawn(n, sharpness):
    """Draw labels from rows, and return the rows as a model gives them that is too sure."""
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.ones(3), n)
    labels = np.array([rng.choice(3, p=row) for row in rows])
    powers = rows**sharpness
    return powers / powers.sum(axis=1, keepdims=True), labels


def plain_error(rows, labels):
    """Average the gap between confidence and accuracy over 15 bins, by loops."""
    bins = {}
    for row, label in zip(rows.tolist(), labels.tolist(), strict=True):
        top = max(row)
        bins.setdefault(min(14, int(np.ceil(top * 15)) - 1), []).append(
            (top, row.index(top) == label)
        )
    gaps = [abs(sum(c for c, _ in each) - sum(r for _, r in each)) for each in bins.values()]
    return sum(gaps) / len(rows)


def test_an_overconfident_model_is_calibrated(tmp_path):
    rows, labels = drawn(4000, 3.0)
    error = printed(tmp_path, rows, labels)
    temperature, before, after = map(float, PRINTED.search(error).groups())
    assert temperature == pytest.approx(3, rel=0.1)
    stays = labels != 0
    assert before == pytest.approx(plain_error(rows[stays], labels[stays]), abs=1e-4)
    cooled = rows[stays] ** (1 / temperature)
    cooled /= cooled.sum(axis=1, keepdims=True)
    assert after == pytest.approx(plain_error(cooled, labels[stays]), abs=0.01)
    assert after < before / 2
    assert "did not lower" not in error
    # The halves that judge each other are chosen by the rows, not by their order.
    order = np.random.default_rng(1).permutation(len(rows))
    assert PRINTED.search(printed(tmp_path, rows[order], labels[order]))[0] in error


def test_a_temperature_that_does_not_help_is_said(tmp_path):
    rng = np.random.default_rng(5)
    labels = np.arange(300) % 3
    rows = np.full((300, 3), 0.1) + 0.7 * np.eye(3)[labels]
    wrong = rng.permutation(300)[:60]  # .8 is right in 80%
    rows[wrong] = np.roll(rows[wrong], 1, axis=1)
    error = printed(tmp_path, rows, labels)
    _, before, after = map(float, PRINTED.search(error).groups())
    assert after > before
    assert "The temperature did not lower the calibration error" in error


def test_too_few_rows_are_not_judged(tmp_path):
    rows, labels = drawn(120, 3.0)
    assert "too few rows to judge it" in printed(tmp_path, rows, labels)
