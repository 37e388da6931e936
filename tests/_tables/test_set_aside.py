"""Rows of reference tables without a usable true label are skipped, or refused by --strict."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import doors
from commands import unlabel
from unlabel import OutputFilter
from unlabel._skipped import SkippedRows
from unlabel._tables.files import formats
from unlabel._tables.opening import open_predictions
from unlabel._tables.predictions import Reading
from unlabel._tables.streaming import read_confidences

NAMES = ["cat", "dog", "fox"]
RANDOM = np.random.default_rng(5).dirichlet(np.ones(3), size=200)
# Three rows in four are right, so that there is a temperature.
ROWS = np.array([np.roll(r, i % 3 - r.argmax() if i % 4 else 0) for i, r in enumerate(RANDOM)])
TRUTH = [NAMES[i % 3] for i in range(200)]
CHANGES = {1: None, 9: "dgo", 10: "", 30: "emu", 31: "emu"}
LABELS = [CHANGES.get(i, label) for i, label in enumerate(TRUTH)]
USED = [i for i in range(200) if i not in CHANGES]
SENTENCE = (
    "2 rows without a true label and 3 rows of labels that the model does not have, such as 'dgo' "
    "(the nearest is 'dog'), were skipped.\n"
)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(formats, "BATCH_ROWS", 7)


def write(path, rows=ROWS, labels=LABELS):
    if path.suffix == ".npz":
        texts = [label or "" for label in labels]
        np.savez(path, p=rows, label=texts, classes=NAMES)
        return
    columns = dict(zip(NAMES, rows.T, strict=True)) | {"label": pa.array(labels, pa.string())}
    writer = pa.csv.write_csv if path.suffix == ".csv" else pa.parquet.write_table
    writer(pa.table(columns), path)


def fit(path, *options):
    out = path.with_name("f.safetensors")
    code, output, error = unlabel("fit", path, "--remove", "dog", "--out", out, "--force", *options)
    return code, output, error, OutputFilter.load(out) if code == 0 else out.exists()


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
@pytest.mark.parametrize("calibrate", [False, True])
def test_rows_are_skipped_and_counted(tmp_path, suffix, calibrate):
    path = tmp_path / f"in{suffix}"
    write(path)
    options = ["--calibrate"] if calibrate else []
    code, _, error, fitted = fit(path, *options)
    assert code == 0, error
    assert SENTENCE in error
    truth = [TRUTH[i] for i in USED]
    expected = doors.fit(ROWS[USED], truth, classes=NAMES, remove=["dog"], calibrate=calibrate)
    assert fitted.counts == expected.counts
    np.testing.assert_allclose(fitted.apply(ROWS), expected.apply(ROWS), rtol=1e-12)


def test_nothing_is_said_if_nothing_is_skipped(tmp_path):
    write(tmp_path / "in.parquet", labels=TRUTH)
    assert "skipped" not in fit(tmp_path / "in.parquet")[2]


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_strict_refuses_them(tmp_path, suffix):
    path = tmp_path / f"in{suffix}"
    write(path)
    code, _, error, is_written = fit(path, "--strict")
    assert (code, is_written) == (2, False)
    assert "row 1: it has no true label in column 'label': give it one." in error
    write(path, labels=[label or "dgo" for label in LABELS])
    code, _, error, is_written = fit(path, "--strict")
    assert (code, is_written) == (2, False)
    assert "row 1: the model has no label 'dgo': the nearest is 'dog'" in error


def test_their_confidences_are_valid_too(tmp_path):
    rows = ROWS.copy()
    rows[30] *= 3
    write(tmp_path / "in.parquet", rows)
    code, _, error, _ = fit(tmp_path / "in.parquet")
    assert code == 2
    assert "row 30: it is not a probability vector" in error


def test_no_row_may_be_left(tmp_path):
    write(tmp_path / "in.parquet", labels=["dgo"] * 100 + [None] * 100)
    code, _, error, is_written = fit(tmp_path / "in.parquet")
    assert (code, is_written) == (2, False)
    assert "no label 'dgo': the nearest is 'dog'" in error
    write(tmp_path / "in.parquet", labels=[None] * 200)
    assert "no row has a true label" in fit(tmp_path / "in.parquet")[2]


def test_a_misspelt_removed_label_is_masked_and_said(tmp_path):
    write(tmp_path / "in.csv", labels=["dgo" if label == "dog" else label for label in TRUTH])
    code, _, error, fitted = fit(tmp_path / "in.csv")
    assert (code, fitted.counts) == (0, (0,))
    assert "No reference rows of 'dog': masked" in error
    assert "such as 'dgo' (the nearest is 'dog'), were skipped" in error


def test_the_rows_that_were_not_skipped_are_known_by_number(tmp_path):
    write(tmp_path / "in.parquet")
    skipped = SkippedRows(NAMES)
    rows, labels, numbers = read_confidences(
        open_predictions(tmp_path / "in.parquet", NAMES, Reading()),
        kind="probabilities",
        label_column="label",
        progress=lambda part: None,
        skipped=skipped,
    )
    assert numbers.tolist() == USED
    np.testing.assert_array_equal(rows, ROWS[USED])
    assert labels.tolist() == [TRUTH[i] for i in USED]
