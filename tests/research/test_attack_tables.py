"""The attack on tables of outputs: what is seen, what answers of unknown add, what is refused."""

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

from commands import research
from research.attack import attack_auc
from unlabel import OutputFilter

NAMES = ("cat", "dog", "fox")
ROWS = 150


def write(path, classes, rows, **others):
    columns = dict(zip(map(str, classes), rows.T, strict=True))
    csv.write_csv(pa.table(columns | others), path)


@pytest.fixture
def outputs():
    """Make true labels, and outputs that are right more often than not."""
    draw = np.random.default_rng(3)
    truth = np.arange(ROWS) % len(NAMES)
    noise = draw.dirichlet(np.ones(3), ROWS)
    return truth, 0.4 * np.eye(3)[truth] + 0.6 * noise


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, outputs):
    monkeypatch.chdir(tmp_path)
    truth, rows = outputs
    write("own.csv", NAMES, rows, truth=np.array(NAMES)[truth], label=["dog"] * ROWS)
    write("retrained.csv", NAMES[1:], rows[:, 1:] / rows[:, 1:].sum(axis=1, keepdims=True))
    write("short.csv", NAMES[1:], np.full((9, 2), 0.5))
    OutputFilter.from_plan(["cat"], classes=NAMES).save("v2.safetensors")
    OutputFilter.from_plan({"cat": "dog"}, classes=NAMES).save("merge.safetensors")


def attack(*arguments):
    code, out, errors = research(*arguments, module="research.attack")
    assert (code, errors) == (0, "")
    lines = [line.strip("| ").split(" | ") for line in out.splitlines()]
    return {name: float(auc) for name, auc in lines[2:]}


def test_everything_that_is_seen_is_attacked(outputs):
    truth, rows = outputs
    retrained = ("--retrained", "retrained.csv")
    found = attack("own.csv", "--filter", "v2.safetensors", "--label", "truth", *retrained)
    left = rows[:, 1:] / rows[:, 1:].sum(axis=1, keepdims=True)
    labels, own_labels = np.eye(2)[left.argmax(axis=1)], np.eye(3)[rows.argmax(axis=1)]
    expected = {"base model": rows, "mask": left, "retrained": left}
    expected |= {"labels of base model": own_labels, "labels of mask": labels}
    expected |= {"labels of retrained": labels}
    for most in (0.25, 0.5, 0.75):
        unknown = f"unknown above {most}".replace("0.", ".")
        flag = np.array([[1, 0] if row[0] > most else [0, 1] for row in rows])
        expected[unknown] = flag
        expected[f"labels of mask, {unknown}"] = np.hstack([labels * flag[:, 1:], flag[:, :1]])
        expected[f"mask, {unknown}"] = np.hstack([left, flag])
    assert [*found] == [*expected]
    for name, what in expected.items():
        auc = attack_auc(what[truth == 0], what[truth != 0])
        assert found[name] == pytest.approx(auc, abs=1e-3), name


def test_the_auc_of_unknown_alone_is_that_of_the_shares_caught_and_lost(outputs):
    truth, rows = outputs
    found = attack("own.csv", "--filter", "v2.safetensors", "--label", "truth")
    caught, lost = ((rows[kind, 0] > 0.5).mean() for kind in (truth == 0, truth != 0))
    assert 0 < lost < caught < 1
    assert found["unknown above .5"] == pytest.approx((caught + 1 - lost) / 2, abs=1e-4)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("own.csv --filter v2.safetensors", "0 rows of removed and 150 of retained"),
        ("own.csv --filter v2.safetensors --label other", "no true labels: name their column"),
        ("own.csv --filter merge.safetensors", "merge.safetensors: it removes no label"),
        ("own.csv --filter none.safetensors", "none.safetensors"),
        ("own.csv --filter v2.safetensors --label truth --retrained short.csv", "same rows"),
        ("own.csv", "a table and --filter, or neither"),
        ("--retrained retrained.csv", "a table and --filter, or neither"),
    ],
)
def test_mistakes_are_refused(arguments, said):
    code, out, errors = research(*arguments.split(), module="research.attack")
    assert (code, out) == (2, "")
    assert said in errors


def test_the_first_table_is_no_retrained_models(outputs):
    truth, rows = outputs
    OutputFilter.from_plan(["cat"], classes=NAMES, kind="logits").save("logits.safetensors")
    write("logits.csv", NAMES, np.log(rows), label=np.array(NAMES)[truth])
    arguments = ("logits.csv", "--filter", "logits.safetensors", "--retrained", "logits.csv")
    code, _, errors = research(*arguments, module="research.attack")
    assert (code, errors) == (
        2,
        "Error: logits.csv: it has the first table's outputs: retrain a model.\n",
    )
