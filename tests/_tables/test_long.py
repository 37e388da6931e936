"""Long tables: one row per id and label."""

import csv
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import doors
import plain_long
import plain_plan as plain
from unlabel._tables.files import csv_input, formats
from unlabel._tables.opening import open_predictions
from unlabel._tables.predictions import Reading
from unlabel._tables.rewriting import LOG_OF_NOTHING, ApplyOptions
from unlabel._tables.streaming import apply_table

NAMES = ["ant", "bee", "cat", "emu"]
ROWS = np.random.default_rng(5).dirichlet(np.ones(4), size=12)
TRUTH = np.array(NAMES)[np.arange(12) % 4]
PLAN = {"emu": None, "ant": "insect", "bee": "insect"}
LONG = Reading(long=("id", "label", "score"))


def no_progress(part):
    pass


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(formats, "BATCH_ROWS", 7)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("random")


def long_rows(ids, orders=None, rows=ROWS):
    """Make the rows of a long table, as dicts, with a column of their numbers."""
    table = []
    for i, key in enumerate(ids):
        for at in range(4) if orders is None else orders[i % len(orders)]:
            row = {"id": key, "label": NAMES[at], "n": str(len(table)), "score": rows[i][at]}
            table.append(row | {"prediction": NAMES[int(rows[i].argmax())]})
    return table


def write(rows, path):
    if path.suffix == ".parquet":
        pa.parquet.write_table(pa.Table.from_pylist(rows), path)
        return
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0]])
        writer.writeheader()
        writer.writerows([row | {"score": repr(float(row["score"]))} for row in rows])


def read(path):
    if path.suffix == ".parquet":
        return pa.parquet.read_table(path).to_pylist()
    with path.open(newline="") as file:
        return [*csv.DictReader(file)]


def assert_rows(found, expected, tolerance=1e-12):
    others = [{k: v for k, v in row.items() if k != "score"} for row in found]
    assert others == [{k: v for k, v in row.items() if k != "score"} for row in expected]
    scores = [float(row["score"]) for row in found]
    wanted = [float(row["score"]) for row in expected]
    np.testing.assert_allclose(scores, wanted, rtol=0, atol=tolerance)


def apply(fitted, source, out, **options):
    options = {"reading": LONG, "overwrite": True} | options
    return apply_table(fitted, source, out, ApplyOptions(**options), no_progress)


def orders_of(descending):
    """Give orders of the four labels."""
    if descending:
        return [np.argsort(-row).tolist() for row in ROWS]
    return [np.random.default_rng(i).permutation(4).tolist() for i in range(len(ROWS))]


KEYS = st.text("ab,\"'; \né", min_size=1, max_size=3)


@given(
    plan=plain.changes_of(NAMES),
    ids=st.lists(KEYS, min_size=1, max_size=12, unique=True),
    sorting=st.sampled_from([lambda ids: ids, sorted, lambda ids: sorted(ids)[::-1]]),
    descending=st.booleans(),
    suffix=st.sampled_from([".csv", ".parquet"]),
    method=st.sampled_from(["osr", "mask"]),
    batch=st.integers(1, 20),
)
@example({"ant": "bee", "bee": "ant"}, ["b", "a"], sorted, False, ".csv", "osr", 3)
@example({"ant": {"x": 0.5, "y": 0.5}}, ["a", "b"], sorted, True, ".parquet", "mask", 4)
def test_random_plans(folder, plan, ids, sorting, descending, suffix, method, batch):
    fitted = doors.fit(ROWS, TRUTH, classes=NAMES, plan=plan, method=method)
    rows = long_rows(sorting(ids), orders_of(descending))
    source, out = folder / f"in{suffix}", folder / f"out{suffix}"
    write(rows, source)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formats, "BATCH_ROWS", batch)
        patch.setattr(csv_input, "LEAST_BLOCK", 16 * batch)
        patch.setattr(csv_input, "ROWS_PER_BLOCK", 1)
        applied = apply(fitted, source, out)
    steps = None if method == "mask" else plain.steps_of(plan, NAMES, ROWS, TRUTH)
    expected = plain_long.changed(rows, plan, NAMES, steps=steps)
    found, before = plain_long.groups(read(out)), plain_long.groups(rows)
    assert [*found] == [*before]
    for key, own in plain_long.groups(expected).items():
        if not plain_long.descends(before[key]):
            assert_rows(found[key], own)
        else:  # equal scores may be told apart by rounding
            assert plain_long.descends(found[key])
            by_label = [sorted(part, key=lambda row: row["label"]) for part in (found[key], own)]
            assert_rows(*by_label)
    before, after = plain_long.answers(rows), plain_long.answers(read(out))
    changed = sum(plain.is_change(plan, before[key], after[key]) for key in before)
    assert (applied.rows, applied.written, applied.changed) == (len(ids), len(ids), changed)


@pytest.mark.parametrize("batch", [4, 100])
def test_each_id_keeps_its_own_order(tmp_path, monkeypatch, batch):
    monkeypatch.setattr(formats, "BATCH_ROWS", batch)
    ascending, descending = np.argsort(ROWS[:2], axis=1).tolist()
    for orders in ([ascending, descending[::-1]], [ascending[::-1], descending]):
        rows = long_rows("ab", orders)
        write(rows, tmp_path / "in.parquet")
        apply(doors.mask(NAMES, {}), tmp_path / "in.parquet", tmp_path / "out.parquet")
        assert_rows(read(tmp_path / "out.parquet"), rows)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_added_and_updated_columns_repeat_on_each_row_of_an_id(tmp_path, suffix):
    rows = long_rows([f"i{i}" for i in range(12)], orders_of(False))
    write(rows, tmp_path / f"in{suffix}")
    fitted = doors.mask(NAMES, PLAN)
    options = {"only_changed": True, "removed_mass": True, "update_column": "prediction"}
    applied = apply(fitted, tmp_path / f"in{suffix}", tmp_path / f"out{suffix}", **options)
    expected = plain_long.changed(rows, PLAN, NAMES)
    before, after = plain_long.answers(rows), plain_long.answers(expected)
    changed = [key for key in before if plain.is_change(PLAN, before[key], after[key])]
    assert 0 < len(changed) < 12
    assert (applied.changed, applied.written) == (len(changed), len(changed))
    found, wanted = read(tmp_path / f"out{suffix}"), []
    for row in (row for row in expected if row["id"] in changed):
        answer = {"old_label": before[row["id"]], "top_label": after[row["id"]]}
        wanted.append(row | {"prediction": answer["top_label"]} | answer)
    masses = [float(row.pop("removed_mass")) for row in found]
    assert_rows(found, wanted)
    emu = {row["id"]: row["score"] for row in rows if row["label"] == "emu"}
    np.testing.assert_allclose(masses, [emu[row["id"]] for row in found], rtol=1e-12)


def test_stale_columns_are_counted_by_id(tmp_path):
    write(long_rows("abcdefgh"), tmp_path / "in.csv")
    applied = apply(doors.mask(NAMES, PLAN), tmp_path / "in.csv", tmp_path / "out.csv")
    stale = sum(NAMES[int(row.argmax())] in PLAN for row in ROWS[:8])
    assert [*applied.remarks] == [
        f"The column 'prediction' still names removed or changed labels in {stale} rows: "
        "name it as the column to update."
    ]


IDS = {
    "text": pa.array(["b", "a"]),
    "large": pa.array(["b", "a"], pa.large_string()),
    "view": pa.array(["b", "a"], pa.string_view()),
    "dictionary": pa.array(["b", "a"]).dictionary_encode(),
    "int": pa.array([-2, -1], pa.int64()),
    "uint": pa.array([2**64 - 1, 0], pa.uint64()),
    "decimal": pa.array([Decimal("-1.00"), Decimal("-2.00")]),
    "float": pa.array([-1.0, -2.0]),
    "half": pa.array([-1.0, -2.0], pa.float16()),
    "date": pa.array([5, 3], pa.date32()),
    "time": pa.array([5, 3], pa.timestamp("ns")),
    "bytes": pa.array([b"\xff", b"\x00"]),
    "uuid": pa.array([b"\xff" * 16, bytes(16)], pa.binary(16)),
    "bool": pa.array([True, False]),
}


@pytest.mark.parametrize("kind", IDS)
def test_ids_of_any_type_are_kept(tmp_path, kind):
    ids = IDS[kind]
    if kind == "view":  # Arrow cannot repeat them itself
        ids = pa.array([*np.repeat(["b", "a"], 4)], pa.string_view())
    else:
        ids = ids.take(pa.array(np.repeat([0, 1], 4)))
    scores = pa.array(ROWS[:2].reshape(-1).astype("f4"))
    table = pa.table({"id": ids, "label": NAMES * 2, "score": scores})
    pa.parquet.write_table(table, tmp_path / "in.parquet")
    stored = pa.parquet.read_table(tmp_path / "in.parquet")
    apply(doors.mask(NAMES, {"bee": None}), tmp_path / "in.parquet", tmp_path / "out.parquet")
    result = pa.parquet.read_table(tmp_path / "out.parquet")
    assert result.schema == stored.schema
    assert result["id"].to_pylist() == [stored["id"][0].as_py()] * 3 + [stored["id"][4].as_py()] * 3
    expected = plain.changed_rows({"bee": None}, NAMES, ROWS[:2].astype("f4"))
    np.testing.assert_allclose(result["score"].to_numpy(), expected.reshape(-1), rtol=1e-6)


@pytest.mark.parametrize(
    "kind",
    [
        pa.large_string(),
        pa.string_view(),
        pa.binary(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.uint32(), pa.large_string()),
    ],
    ids=str,
)
@pytest.mark.parametrize("score", [pa.float16(), pa.float32(), pa.float64(), pa.decimal128(9, 6)])
def test_labels_and_scores_keep_their_type(tmp_path, kind, score):
    rows = np.array([[0.125, 0.125, 0.5, 0.25], [0.5, 0.25, 0.125, 0.125]])
    labels = pa.array(NAMES * 2).cast(kind)
    scores = pa.array(rows.reshape(-1)).cast(pa.float32()).cast(score)
    table = pa.table({"score": scores, "label": labels, "id": np.repeat([7, 3], 4)})
    pa.parquet.write_table(table, tmp_path / "in.parquet")
    apply(doors.mask(NAMES, PLAN), tmp_path / "in.parquet", tmp_path / "out.parquet")
    result = pa.parquet.read_table(tmp_path / "out.parquet")
    assert (
        result["label"].type == pa.parquet.read_schema(tmp_path / "in.parquet").field("label").type
    )
    assert pa.types.is_dictionary(result["label"].type) == pa.types.is_dictionary(kind)
    # Results hardly fit into so many decimal places: they would not sum to 1.
    assert result["score"].type == (pa.float64() if pa.types.is_decimal(score) else score)
    assert result["label"].cast(pa.string()).to_pylist() == ["insect", "cat"] * 2
    expected = plain.changed_rows(PLAN, NAMES, rows).reshape(-1)
    np.testing.assert_allclose(result["score"].to_numpy().astype(float), expected, rtol=1e-3)


def test_labels_that_are_numbers(tmp_path):
    table = {"id": np.repeat([1, 2], 3), "label": [0, 1, 2] * 2, "score": [0.5, 0.25, 0.25] * 2}
    pa.parquet.write_table(pa.table(table), tmp_path / "in.parquet")
    for classes in ([0, 1, 2], ["0", "1", "2"]):
        fitted = doors.mask(classes, {classes[1]: None, classes[2]: "7"})
        apply(fitted, tmp_path / "in.parquet", tmp_path / "out.parquet")
        result = pa.parquet.read_table(tmp_path / "out.parquet").to_pydict()
        assert result["label"] == [0, 7, 0, 7]
        np.testing.assert_allclose(result["score"], [2 / 3, 1 / 3] * 2)


def test_few_ids_at_a_time_if_there_are_many_labels(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "BATCH_ENTRIES", 9)  # two ids of four labels
    rows = long_rows([f"i{i}" for i in range(11)], orders_of(False))
    write(rows, tmp_path / "in.csv")
    predictions = open_predictions(tmp_path / "in.csv", NAMES, LONG)
    assert [len(part) for part in predictions.parts(no_progress)] == [2, 2, 2, 2, 2, 1]
    apply(doors.mask(NAMES, PLAN), tmp_path / "in.csv", tmp_path / "out.csv")
    expected = plain_long.changed(rows, PLAN, NAMES)
    assert_rows(read(tmp_path / "out.csv"), expected)


def test_an_empty_table(tmp_path):
    (tmp_path / "in.csv").write_text("id,label,score\n")
    applied = apply(doors.mask(NAMES, PLAN), tmp_path / "in.csv", tmp_path / "out.csv")
    assert (applied.rows, applied.written) == (0, 0)
    assert (tmp_path / "out.csv").read_text() == "id,label,score\n"


@pytest.mark.parametrize("name", ["logprob", "log_probability", "score"])
def test_log_probabilities(tmp_path, name):
    scores = np.array([[0.0, 0.25, 0.5, 0.25], [0.5, 0.25, 0.25, 0.0]])
    with np.errstate(divide="ignore"):
        logs = np.log(scores).clip(LOG_OF_NOTHING)
    rows = [row | {name: row["score"]} for row in long_rows("ab", rows=logs)]
    write([{k: row[k] for k in ("id", "label", name)} for row in rows], tmp_path / "in.parquet")
    reading = Reading(long=("id", "label", name), logs=name == "score")
    fitted = doors.mask(NAMES, {"bee": None})
    apply(fitted, tmp_path / "in.parquet", tmp_path / "out.parquet", reading=reading)
    found = np.array([row[name] for row in read(tmp_path / "out.parquet")]).reshape(2, 3)
    with np.errstate(divide="ignore"):
        expected = np.log(plain.changed_rows({"bee": None}, NAMES, scores)).clip(LOG_OF_NOTHING)
    np.testing.assert_allclose(found, expected, atol=1e-12)
