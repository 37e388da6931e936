"""Tables whose labels are removed, merged, renamed, swapped and split."""

import csv

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import doors
import plain_plan as plain
from commands import unlabel
from unlabel import LabelPlan, OutputFilter
from unlabel._tables.files import formats
from unlabel._tables.rewriting import ApplyOptions
from unlabel._tables.streaming import apply_table

NAMES = ["ant", "bee", "cat", "emu", "fox"]
ROWS = np.random.default_rng(3).dirichlet(np.ones(5), size=20)
TRUTH = np.array(NAMES)[np.arange(20) % 5]
PLAN = {"emu": None, "ant": "insect", "bee": "insect", "fox": {"red": 0.25, "grey": 0.75}}


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(formats, "BATCH_ROWS", 7)


@pytest.fixture
def saved(tmp_path):
    fitted = doors.mask(NAMES, PLAN)
    fitted.save(tmp_path / "f.safetensors")
    return tmp_path / "f.safetensors"


def no_progress(part):
    pass


def write(columns, path):
    if path.suffix == ".parquet":
        pa.parquet.write_table(pa.table(columns), path)
        return
    cells = [[repr(float(x)) if name != "id" else x for x in of] for name, of in columns.items()]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *zip(*cells, strict=True)])


def read(path):
    if path.suffix == ".parquet":
        return pa.parquet.read_table(path).to_pydict()
    with path.open(newline="") as file:
        header, *lines = csv.reader(file)
    return dict(zip(header, map(list, zip(*lines, strict=True)), strict=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("random")


@given(
    plan=plain.changes_of(NAMES),
    order=st.permutations([*NAMES, "id"]),
    suffix=st.sampled_from([".csv", ".parquet"]),
    method=st.sampled_from(["osr", "mask"]),
)
@example(plan={"ant": "fox", "fox": "ant"}, order=[*NAMES, "id"], suffix=".csv", method="osr")
@example(plan=PLAN, order=["ant", "id", *NAMES[1:]], suffix=".parquet", method="osr")
@example(plan={}, order=[*NAMES, "id"], suffix=".parquet", method="osr")
def test_random_plans_on_wide_tables(folder, plan, order, suffix, method):
    fitted = doors.fit(ROWS, TRUTH, classes=NAMES, plan=plan, method=method)
    columns = dict(zip(NAMES, ROWS.T, strict=True)) | {"id": [f"i{i}" for i in range(20)]}
    write({name: columns[name] for name in order}, folder / f"in{suffix}")
    options = ApplyOptions(top_label=True, overwrite=True)
    out = folder / f"out{suffix}"
    applied = apply_table(fitted, folder / f"in{suffix}", out, options, no_progress)
    names = plain.result_labels(plan, NAMES)
    expected_order = []
    for column in order:
        here = [each for each in names if plain.first_source(plan, NAMES, each) == column]
        expected_order += ["id"] if column == "id" else here
    result = read(out)
    assert list(result) == [*expected_order, "top_label"]
    assert result["id"] == columns["id"]
    steps = None if method == "mask" else plain.steps_of(plan, NAMES, ROWS, TRUTH)
    expected = plain.changed_rows(plan, NAMES, ROWS, steps)
    found = np.array([result[name] for name in names], dtype=float).T
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert result["top_label"] == [names[top] for top in expected.argmax(axis=1)]
    before = [NAMES[top] for top in ROWS.argmax(axis=1)]
    pairs = zip(before, result["top_label"], strict=True)
    assert applied.changed == sum(plain.is_change(plan, old, new) for old, new in pairs)


@settings(max_examples=40)
@given(
    plan=plain.changes_of(NAMES),
    kind=st.sampled_from(["list", "fixed"]),
    suffix=st.sampled_from([".parquet", ".csv", ".npz", ".npy"]),
)
def test_random_plans_on_list_columns(folder, plan, kind, suffix):
    fitted = doors.fit(ROWS, TRUTH, classes=NAMES, plan=plan, method="mask")
    column = pa.array(ROWS.tolist(), pa.list_(pa.float64(), -1 if kind == "list" else 5))
    pa.parquet.write_table(pa.table({"p": column}), folder / "in.parquet")
    out, options = folder / f"lists{suffix}", ApplyOptions(overwrite=True)
    apply_table(fitted, folder / "in.parquet", out, options, no_progress)
    names = plain.result_labels(plan, NAMES)
    if suffix == ".npy":
        found = np.load(out)
    elif suffix == ".npz":
        with np.load(out) as stored:
            assert stored["classes"].tolist() == names
            found = stored["p"]
    elif suffix == ".csv":
        result = read(out)
        assert list(result) == names
        found = np.array([*result.values()], dtype=float).T
    else:
        assert (pa.parquet.read_schema(out).field("p").type == column.type) == (
            kind == "list" or len(names) == 5
        )
        found = np.array(read(out)["p"])
    expected = plain.changed_rows(plan, NAMES, ROWS)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_only_changed_rows(saved, tmp_path):
    pa.parquet.write_table(
        pa.table({"id": range(20)} | dict(zip(NAMES, ROWS.T, strict=True))), tmp_path / "in.parquet"
    )
    options = ("--only-changed", "--top-label", "--out", tmp_path / "out.parquet")
    code, _, error = unlabel("apply", tmp_path / "in.parquet", saved, *options)
    assert code == 0, error
    expected = plain.changed_rows(PLAN, NAMES, ROWS)
    names = plain.result_labels(PLAN, NAMES)
    tops = [
        (NAMES[old], names[new])
        for old, new in zip(ROWS.argmax(axis=1), expected.argmax(axis=1), strict=True)
    ]
    changed = [i for i, (old, new) in enumerate(tops) if plain.is_change(PLAN, old, new)]
    assert 0 < len(changed) < 20
    result = pa.parquet.read_table(tmp_path / "out.parquet")
    assert result["id"].to_pylist() == changed
    assert result["top_label"].to_pylist() == [tops[i][1] for i in changed]
    counts = "1 of 5 labels removed, 2 merged into 1, 1 split"
    assert f"the top label changed in {len(changed)} of 20 ({counts})." in error


def test_a_new_label_with_the_name_of_another_column_is_refused(saved, tmp_path):
    columns = dict(zip(NAMES, ROWS.T, strict=True)) | {"insect": range(20)}
    for suffix in (".csv", ".parquet"):
        path, out = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
        write(columns, path)
        code, _, error = unlabel("apply", path, saved, "--out", out)
        assert (code, error) == (
            2,
            f"Error: {path}: it has a column 'insect' already: rename it first.\n",
        )
        assert not out.exists()


def test_pandas_reads_changed_labels(saved, tmp_path):
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame(ROWS, columns=NAMES).to_parquet(tmp_path / "in.parquet")
    out = tmp_path / "out.parquet"
    assert unlabel("apply", tmp_path / "in.parquet", saved, "--out", out)[0] == 0
    result = pandas.read_parquet(out)
    assert result.columns.tolist() == ["insect", "cat", "red", "grey"]
    # The names of new columns need not be numbers, as those of the old ones were.
    doors.mask(range(5), {1: "other", 2: "other"}).save(saved)
    frame = pandas.DataFrame(ROWS, index=pandas.Index(range(100, 120), name="id"))
    frame.to_parquet(tmp_path / "in.parquet")
    out = tmp_path / "numbers.parquet"
    assert unlabel("apply", tmp_path / "in.parquet", saved, "--out", out)[0] == 0
    result = pandas.read_parquet(out)
    assert result.columns.tolist() == ["0", "other", "3", "4"]
    assert result.index.tolist() == [*range(100, 120)]


# Fitting


def fit(path, *options):
    out = path.with_name("fitted.safetensors")
    code, _, error = unlabel("fit", path, "--out", out, "--force", *options)
    assert code == 0, error
    return OutputFilter.load(out), error


def test_a_plan_is_fitted_with_its_title(tmp_path):
    np.savez(tmp_path / "r.npz", p=ROWS, label=TRUTH, classes=NAMES)
    LabelPlan(PLAN, title="Version 1").save(tmp_path / "plan.toml")
    fitted, output = fit(tmp_path / "r.npz", "--plan", tmp_path / "plan.toml")
    assert fitted.plan == LabelPlan(PLAN, title="Version 1")
    assert "1 of 5 labels removed, 2 merged into 1, 1 split (4 reference rows).\n" in output
    steps = plain.steps_of(PLAN, NAMES, ROWS, TRUTH)
    expected = plain.changed_rows(PLAN, NAMES, ROWS, steps)
    np.testing.assert_allclose(fitted.apply(ROWS), expected, rtol=0, atol=1e-12)


def test_a_plan_that_removes_nothing_needs_no_true_labels(tmp_path):
    plan = {"ant": "insect", "bee": "insect", "fox": "vixen"}
    write(dict(zip(NAMES, ROWS.T, strict=True)), tmp_path / "r.parquet")
    LabelPlan(plan).save(tmp_path / "plan.toml")
    fitted, output = fit(tmp_path / "r.parquet", "--plan", tmp_path / "plan.toml")
    assert "fitted.safetensors: 2 of 5 labels merged into 1, 1 renamed.\n" in output
    expected = plain.changed_rows(plan, NAMES, ROWS)
    np.testing.assert_allclose(fitted.apply(ROWS), expected, rtol=0, atol=1e-12)
    out = tmp_path / "g.safetensors"
    code, _, error = unlabel("fit", tmp_path / "r.parquet", "--remove", "ant", "--out", out)
    assert (code, out.exists()) == (2, False)
    assert "no column 'label'" in error
