"""Tables whose rows do not sum to 1: rounded scores, and `--normalize` for all others."""

import csv
import json
import os

import numpy as np
import pytest

from commands import unlabel
from unlabel import OutputFilter
from unlabel._tables.files import formats

N = 77
NAMES = [f"intent {i}" for i in range(N)]
TRUTH = np.arange(6 * N) % N
OTHERS = np.linspace(0.002, 0.4, 6 * N)[:, None]
EXACT = np.random.default_rng(0).dirichlet(np.full(N, 9.0), size=6 * N) * OTHERS
EXACT += np.eye(N)[TRUTH] * (1 - OTHERS)
ROUNDED = EXACT.round(4)
NORMALISED = ROUNDED / ROUNDED.sum(axis=1, keepdims=True)
SCORES = np.random.default_rng(1).uniform(0, 9, size=(6 * N, N)) + 40 * np.eye(N)[TRUTH]
NORMALIZE = "--normalize"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(formats, "BATCH_ROWS", 50)


def write(path, rows, names=NAMES):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*names, "label"])
        for row, label in zip(rows.tolist(), TRUTH, strict=True):
            writer.writerow([*row, NAMES[label]])


def run(*arguments):
    code, out, error = unlabel(*arguments)
    assert code == 0, error
    return out


def refused(*arguments):
    code, _, error = unlabel(*arguments)
    assert code == 2
    assert error.count("\n") == 1
    return error


def fit(table, *options):
    run("fit", table, "--remove", NAMES[3], "--out", "f.safetensors", "--force", *options)
    return OutputFilter.load("f.safetensors")


def applied(table, *options):
    run("apply", table, "f.safetensors", "--out", "out.csv", "--force", *options)
    with open("out.csv", newline="") as file:
        header, *lines = csv.reader(file)
    assert header == [*NAMES[:3], *NAMES[4:], "label"]
    return np.array([line[:-1] for line in lines], dtype=float)


def evaluated(table, *options):
    run("evaluate", table, "--remove", NAMES[3], "--json", "s.json", "--force", *options)
    with open("s.json", encoding="utf-8") as file:
        return {entry["output"]: entry["log_loss"] for entry in json.load(file)["figures"]}


def test_scores_with_4_decimals_are_taken_as_they_are_stored():
    assert np.abs(ROUNDED.sum(axis=1) - 1).max() > 2e-3
    write("rounded.csv", ROUNDED)
    write("normalised.csv", NORMALISED)
    expected = fit("normalised.csv")
    fitted = fit("rounded.csv")
    np.testing.assert_allclose(fitted.means, expected.means, rtol=0, atol=1e-12)
    result = applied("rounded.csv")
    np.testing.assert_allclose(result, expected.apply(NORMALISED), rtol=0, atol=1e-12)
    assert evaluated("rounded.csv") == pytest.approx(evaluated("normalised.csv"), rel=1e-9)


def test_normalize_divides_each_row_by_its_sum():
    write("scores.csv", SCORES)
    write("normalised.csv", SCORES / SCORES.sum(axis=1, keepdims=True))
    expected = fit("normalised.csv")
    np.testing.assert_array_equal(fit("scores.csv", NORMALIZE).means, expected.means)
    result = applied("scores.csv", NORMALIZE)
    np.testing.assert_array_equal(result, applied("normalised.csv"))
    # The base model's table and a retrained model's are divided alike.
    retrained, names = np.delete(SCORES, 3, axis=1), NAMES[:3] + NAMES[4:]
    write("retrained.csv", retrained, names)
    write("again.csv", retrained / retrained.sum(axis=1, keepdims=True), names)
    found = evaluated("scores.csv", "--retrained", "retrained.csv", NORMALIZE)
    same = evaluated("normalised.csv", "--retrained", "again.csv")
    assert found == pytest.approx(same, rel=1e-9)
    assert "retrained" in found


def test_rows_that_rounding_does_not_explain_need_normalize():
    rows = ROUNDED.copy()
    rows[60, 5] += 0.02
    write("off.csv", rows)
    write("good.csv", ROUNDED)
    fit("good.csv")
    for command in (
        ["fit", "off.csv", "--method", "mask", "--remove", NAMES[3], "--out", "out"],
        ["apply", "off.csv", "f.safetensors", "--out", "out.csv"],
        ["evaluate", "off.csv", "--remove", NAMES[3], "--json", "out"],
    ):
        message = refused(*command)
        assert "off.csv, row 60: it is not a probability vector: it sums to 1.0" in message
        assert "divide each row by its sum" in message
        assert sorted(os.listdir()) == ["f.safetensors", "good.csv", "off.csv"]
        run(*command, NORMALIZE)
        os.remove(command[-1])


@pytest.mark.parametrize(
    ("value", "says"),
    [(-1.0, "the label 'intent 5' is -1"), (np.nan, "is NaN"), (0.0, "it sums to 0,")],
)
def test_some_rows_stay_refused(value, says):
    rows = SCORES.copy()
    rows[60] = 0
    rows[60, 5] = value
    write("bad.csv", rows)
    for command in (
        ["fit", "bad.csv", "--method", "mask", "--remove", NAMES[3], "--out", "out"],
        ["evaluate", "bad.csv", "--remove", NAMES[3], "--json", "out"],
    ):
        message = refused(*command, NORMALIZE)
        assert "row 60: it is not a probability vector" in message
        assert says in message
        assert os.listdir() == ["bad.csv"]


def test_logits_are_not_normalised():
    write("logits.csv", SCORES - 3)
    options = ["--remove", NAMES[3], "--out", "out", "--kind", "logits", NORMALIZE]
    assert "leave it out" in refused("fit", "logits.csv", *options)


def test_sigmoid_scores_are_called_so():
    write("sigmoid.csv", 1 / (1 + np.exp(2 - SCORES / 5)))
    message = refused("fit", "sigmoid.csv", "--remove", NAMES[3], "--out", "out")
    assert "row 0: it is not a probability vector: it sums to" in message
    assert "these look like independent (sigmoid) scores" in message
