"""Confidences in structs, maps and lists of labels with their scores."""

import csv
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import doors
import plain_plan as plain
from nested_cells import KINDS, TEXT, column, entry, map_of, named, struct_of
from unlabel._tables.columns.layout import ColumnPart
from unlabel._tables.columns.nested import nested_column
from unlabel._tables.columns.output import ColumnOutput, target_columns
from unlabel._tables.files import formats
from unlabel._tables.opening import open_predictions
from unlabel._tables.predictions import Reading
from unlabel._tables.rewriting import LOG_OF_NOTHING, ApplyOptions, Rewriting, Rewritten
from unlabel._tables.streaming import apply_table, fit_table

NAMES = ["ant", "bee", "cat", "emu"]
ROWS = np.random.default_rng(6).dirichlet(np.ones(4), size=20)
TRUTH = np.array(NAMES)[np.arange(20) % 4]


def no_progress(part):
    pass


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(formats, "BATCH_ROWS", 7)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("random")


def write(path, kind, dicts, **others):
    table = pa.table({"id": range(len(dicts)), "p": column(dicts, kind)} | others)
    pa.parquet.write_table(table, path)


def dicts_of(rows, orders):
    return [
        {NAMES[at]: float(row[at]) for at in orders[i % len(orders)]} for i, row in enumerate(rows)
    ]


def apply(fitted, source, out, **options):
    return apply_table(fitted, source, out, ApplyOptions(overwrite=True, **options), no_progress)


@given(
    plan=plain.changes_of(NAMES),
    kind=st.sampled_from([*KINDS]),
    orders=st.lists(st.permutations(range(4)), min_size=1, max_size=4),
    descending=st.booleans(),
    number=st.sampled_from([pa.float32(), pa.float64()]),
    by_name=st.booleans(),
)
@example({"emu": None}, "list", [[3, 2, 1, 0]], True, pa.float32(), False)
@example({"ant": "bee", "bee": "ant"}, "struct", [[3, 2, 1, 0]], False, pa.float64(), True)
def test_random_plans(folder, plan, kind, orders, descending, number, by_name):
    rows = ROWS.astype(number.to_pandas_dtype())
    if descending:
        orders = np.argsort(-rows, axis=1).tolist()
    names = [NAMES[at] for at in orders[0]]
    nested = KINDS[kind](names, number)
    write(folder / "in.parquet", nested, dicts_of(rows, orders), tail=["x"] * 20)
    fitted = doors.fit(ROWS, TRUTH, classes=NAMES, plan=plan, method="mask")
    reading = Reading(list_column="p" if by_name else None)
    apply(fitted, folder / "in.parquet", folder / "out.parquet", reading=reading)
    result = pa.parquet.read_table(folder / "out.parquet")
    assert result.column_names == ["id", "p", "tail"]
    labels, expected = plain.result_labels(plan, NAMES), plain.changed_rows(plan, NAMES, rows)
    stored = pa.parquet.read_schema(folder / "in.parquet").field("p").type
    after = struct_of(labels, number) if kind == "struct" else stored
    assert result["p"].type == after
    found = [named(value, nested) for value in result["p"].to_pylist()]
    assert {frozenset(row) for row in found} == {frozenset(labels)}
    values = np.array([[row[label] for label in labels] for row in found])
    tolerance = 1e-12 if number == pa.float64() else 1e-6
    np.testing.assert_allclose(values, expected, rtol=0, atol=tolerance)
    for i, row in enumerate(found):
        before = rows[i][orders[i % len(orders)]].tolist()
        if kind != "struct" and before == sorted(before, reverse=True):
            assert [*row.values()] == sorted(row.values(), reverse=True)
        else:
            assert [*row] == labels


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ending", ["csv", "npy", "npz"])
def test_other_formats(tmp_path, kind, ending):
    nested = KINDS[kind](NAMES)
    pa.parquet.write_table(
        pa.table({"p": column(dicts_of(ROWS, [[3, 1, 2, 0]]), nested)}), tmp_path / "in.parquet"
    )
    out = tmp_path / f"out.{ending}"
    apply(doors.mask(NAMES, {"bee": None}), tmp_path / "in.parquet", out)
    if ending == "csv":
        with out.open(newline="") as file:
            header, *lines = csv.reader(file)
        assert header == ["ant", "cat", "emu"]
        found = np.array(lines, dtype=float)
    elif ending == "npy":
        found = np.load(out)
    else:
        with np.load(out) as stored:
            assert stored["classes"].tolist() == ["ant", "cat", "emu"]
            found = stored["confidences"]
    expected = plain.changed_rows({"bee": None}, NAMES, ROWS)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_partial_rows(tmp_path, kind):
    nested = KINDS[kind](NAMES, pa.float32())
    dicts = [{"cat": 0.5, "ant": 0.25}, {"emu": 1.0}]
    write(tmp_path / "in.parquet", nested, dicts)
    reading = Reading(partial=True)
    predictions = open_predictions(tmp_path / "in.parquet", NAMES, reading)
    [part] = predictions.parts(no_progress)
    nan = np.nan
    rows = part.confidences()
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows, [[0.25, nan, 0.5, nan], [nan, nan, nan, 1]])
    fitted = doors.mask(NAMES, {"emu": None, "ant": "x"})
    lower = np.array([[0.25, nan, 0.5], [nan, nan, nan]], dtype="f4")
    target = target_columns(fitted, predictions.columns)
    output = ColumnOutput(Rewriting(fitted, ApplyOptions()), predictions.columns, target)
    changed = np.ones(2, dtype=bool)
    after = output.of(part.batch, Rewritten(lower, {}, {}, changed))
    assert after.schema.names == ["id", "p"]
    found = after.column("p").to_pylist()
    if kind == "struct":
        assert found[0] == {"x": 0.25, "bee": None, "cat": 0.5}
        assert found[1] == {"x": None, "bee": None, "cat": None}
    elif "list" not in kind:
        assert found == [[("cat", 0.5), ("x", 0.25)], []]  # descending, as the rows were
    else:
        score, label = nested.value_type.names
        assert found == [[{score: 0.5, label: "cat"}, {score: 0.25, label: "x"}], []]


def test_empty_cells_of_partial_wide_tables(tmp_path):
    (tmp_path / "in.csv").write_text("ant,bee,cat,emu\n.5,,.25,\n")
    predictions = open_predictions(tmp_path / "in.csv", NAMES, Reading(partial=True))
    [part] = predictions.parts(no_progress)
    np.testing.assert_array_equal(part.confidences(), [[0.5, np.nan, 0.25, np.nan]])
    fitted = doors.mask(NAMES, {"emu": None})
    lower = np.array([[0.5, np.nan, 0.25]])
    output = ColumnOutput(
        Rewriting(fitted, ApplyOptions()),
        predictions.columns,
        target_columns(fitted, predictions.columns),
    )
    after = output.of(part.batch, Rewritten(lower, {}, {}, np.ones(1, bool)))
    assert after.to_pylist() == [{"ant": 0.5, "bee": None, "cat": 0.25}]


@pytest.mark.parametrize("name", ["logprob", "logProbability", "score"])
def test_log_probabilities(tmp_path, name):
    scores = np.array([[0.5, 0.0, 0.25, 0.25], [0.25, 0.5, 0.25, 0.0]])
    with np.errstate(divide="ignore"):
        logs = np.log(scores).clip(LOG_OF_NOTHING)
    nested = pa.list_(entry(name))
    write(tmp_path / "in.parquet", nested, dicts_of(logs, [range(4)]))
    reading = Reading(logs=name == "score")
    fitted = doors.mask(NAMES, {"ant": None})
    apply(fitted, tmp_path / "in.parquet", tmp_path / "out.parquet", reading=reading)
    result = pa.parquet.read_table(tmp_path / "out.parquet")["p"].to_pylist()
    found = [[named(value, nested)[label] for label in NAMES[1:]] for value in result]
    with np.errstate(divide="ignore"):
        expected = np.log(plain.changed_rows({"ant": None}, NAMES, scores)).clip(LOG_OF_NOTHING)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_fit_finds_the_labels(tmp_path, kind):
    dicts = dicts_of(ROWS, [[3, 1, 2, 0]])
    write(tmp_path / "in.parquet", KINDS[kind](dicts[0]), dicts, label=TRUTH)
    fitted, sentences, _ = fit_table(
        tmp_path / "in.parquet",
        plan=None,
        remove=["bee"],
        keep=None,
        method="osr",
        kind="probabilities",
        allow_chance=True,
        calibrate=False,
        classes=None,
        reading=Reading(),
        label_column="label",
        progress=no_progress,
    )
    order = [3, 1, 2, 0]
    expected = doors.fit(ROWS[:, order], TRUTH, classes=[*dicts[0]], remove=["bee"])
    np.testing.assert_array_equal(fitted.apply(ROWS[:, order]), expected.apply(ROWS[:, order]))
    assert sentences[-1].startswith("The labels were taken to be 'emu', 'bee', 'cat', 'ant'")


def test_integers_are_labels_of_maps(tmp_path):
    kind = pa.map_(pa.int32(), pa.float64())
    cells = [[(0, 0.25), (2, 0.5), (1, 0.25)]]
    pa.parquet.write_table(pa.table({"p": pa.array(cells, kind)}), tmp_path / "in.parquet")
    fitted = doors.mask([0, 1, 2], {1: None})
    apply(fitted, tmp_path / "in.parquet", tmp_path / "out.parquet")
    result = pa.parquet.read_table(tmp_path / "out.parquet")["p"]
    assert result.type.key_type == pa.int32()
    [[zero, two]] = result.to_pylist()
    assert (zero[0], two[0]) == (0, 2)
    np.testing.assert_allclose([zero[1], two[1]], [1 / 3, 2 / 3])


def test_a_slice_of_maps_with_empty_cells():
    kind = map_of(TEXT)
    cells = pa.array([[("cat", 1.0)], None, [], [("bee", 0.5), ("ant", 0.5)]], kind)
    of_maps = nested_column(pa.field("p", kind), partial=True)
    of_maps = replace(of_maps, classes=tuple(NAMES))
    for start in range(4):
        batch = pa.record_batch({"p": cells})[start:]
        found = ColumnPart(batch, of_maps).confidences()
        nan = np.nan
        expected = [[nan, nan, 1, nan], [nan] * 4, [nan] * 4, [0.5, 0.5, nan, nan]]
        np.testing.assert_array_equal(found, expected[start:])


def test_other_columns_come_before_nested_ones(tmp_path):
    """Tables whose confidences were found before keep working."""
    fitted = doors.mask(NAMES, {"bee": None})
    others = {
        "where": pa.array([{"lat": 1.0, "lon": 2.0}] * 20),
        "weights": pa.array([[("ant", 2.0)]] * 20, map_of(TEXT)),
        "top": pa.array([[{"label": "ant", "score": 1.0}]] * 20),
    }
    wide = dict(zip(NAMES, ROWS.T, strict=True))
    expected = plain.changed_rows({"bee": None}, NAMES, ROWS)
    pa.parquet.write_table(pa.table(wide | others), tmp_path / "wide.parquet")
    apply(fitted, tmp_path / "wide.parquet", tmp_path / "out.parquet")
    result = pa.parquet.read_table(tmp_path / "out.parquet")
    np.testing.assert_allclose(result["cat"].to_numpy(), expected[:, 1])
    assert result["weights"].to_pylist() == others["weights"].to_pylist()
    others.pop("top")  # a list, too
    pa.parquet.write_table(pa.table({"p": ROWS.tolist()} | others), tmp_path / "list.parquet")
    apply(fitted, tmp_path / "list.parquet", tmp_path / "out.parquet")
    result = pa.parquet.read_table(tmp_path / "out.parquet")
    np.testing.assert_allclose(result["p"].to_pylist(), expected)
    others["p"] = column(dicts_of(ROWS, [range(4)]), struct_of(NAMES))
    others["weights"] = pa.array([[("u", 2.0)]] * 20, map_of(TEXT))
    pa.parquet.write_table(pa.table(others), tmp_path / "struct.parquet")
    apply(fitted, tmp_path / "struct.parquet", tmp_path / "out.parquet")
    result = pa.parquet.read_table(tmp_path / "out.parquet")
    assert result.column_names == [*others]
    np.testing.assert_allclose([[*row.values()] for row in result["p"].to_pylist()], expected)


@pytest.mark.parametrize("kind", ["struct", "map"])
def test_an_empty_table(tmp_path, kind):
    write(tmp_path / "in.parquet", KINDS[kind](NAMES), [])
    applied = apply(
        doors.mask(NAMES, {"bee": None}), tmp_path / "in.parquet", tmp_path / "out.parquet"
    )
    assert applied.rows == 0
    assert pa.parquet.read_table(tmp_path / "out.parquet").column_names == ["id", "p"]
