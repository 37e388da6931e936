"""Long tables are read for fitting and evaluating, partly, and without keeping their ids."""

from itertools import count, repeat
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import doors
import plain_long
import plain_plan as plain
from unlabel import UnlabelError
from unlabel._tables.evaluate import evaluate_tables
from unlabel._tables.files import formats
from unlabel._tables.files.formats import Table
from unlabel._tables.long.output import LongOutput
from unlabel._tables.long.part import LongColumns, LongPart
from unlabel._tables.long.predictions import open_long
from unlabel._tables.long.seen_ids import SeenIds
from unlabel._tables.opening import names_in, open_predictions
from unlabel._tables.predictions import Reading
from unlabel._tables.rewriting import ApplyOptions, Rewriting, Rewritten
from unlabel._tables.streaming import fit_table

NAMES = ["ant", "bee", "cat", "emu"]
ROWS = np.random.default_rng(5).dirichlet(np.ones(4), size=12)
TRUTH = np.array(NAMES)[np.arange(12) % 4]
LONG = Reading(long=("id", "label", "score"))


def no_progress(part):
    pass


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(formats, "BATCH_ROWS", 7)


def long_rows():
    """Make the rows of a long table; each of them has the true label of its id."""
    return [
        {"id": i, "label": label, "score": row[at], "truth": TRUTH[i]}
        for i, row in enumerate(ROWS)
        for at, label in enumerate(NAMES)
    ]


def test_fit_reads_the_labels_of_the_first_id(tmp_path):
    pa.parquet.write_table(pa.Table.from_pylist(long_rows()), tmp_path / "in.parquet")
    options = {"plan": None, "remove": ["bee"], "keep": None, "method": "osr"}
    fitted, sentences, _ = fit_table(
        tmp_path / "in.parquet",
        **options,
        kind="probabilities",
        calibrate=False,
        allow_chance=True,
        classes=None,
        reading=LONG,
        label_column="truth",
        progress=no_progress,
    )
    expected = doors.fit(ROWS, TRUTH, classes=NAMES, remove=["bee"])
    np.testing.assert_array_equal(fitted.apply(ROWS), expected.apply(ROWS))
    assert sentences[-1].startswith("The labels were taken to be 'ant', 'bee', 'cat', 'emu'")
    assert names_in(tmp_path / "in.parquet", LONG) == {*NAMES}


def test_evaluate_reads_long_tables(tmp_path):
    rows = long_rows()
    pa.parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "long.parquet")
    wide = {"truth": TRUTH} | dict(zip(NAMES, ROWS.T, strict=True))
    pa.parquet.write_table(pa.table(wide), tmp_path / "wide.parquet")
    new = plain_long.changed(rows, {"bee": None}, NAMES)
    pa.parquet.write_table(pa.Table.from_pylist(new), tmp_path / "retrained.parquet")
    expected = plain.changed_rows({"bee": None}, NAMES, ROWS)
    left = dict(zip(["ant", "cat", "emu"], expected.T, strict=True))
    pa.parquet.write_table(pa.table({"truth": TRUTH} | left), tmp_path / "wide_retrained.parquet")

    def evaluated(base, retrained, reading):
        return evaluate_tables(
            tmp_path / base,
            plan=None,
            remove=["bee"],
            keep=None,
            filter=None,
            same_recipe=False,
            truth="old",
            rule=None,
            date=None,
            retrained=[tmp_path / retrained],
            kind=None,
            label_column="truth",
            classes=NAMES,
            reading=reading,
            strict=True,
            progress=no_progress,
        )

    long = evaluated("long.parquet", "retrained.parquet", LONG)
    wide = evaluated("wide.parquet", "wide_retrained.parquet", Reading())
    assert long | {"made_from": wide["made_from"]} == wide


def test_partial_rows_are_nan_where_no_label_is_named(tmp_path):
    (tmp_path / "in.csv").write_text("id,label,score\na,cat,.5\na,ant,.25\nb,emu,1\n")
    reading = Reading(long=("id", "label", "score"), partial=True)
    predictions = open_predictions(tmp_path / "in.csv", NAMES, reading)
    rows = np.concatenate([part.confidences() for part in predictions.parts(no_progress)])
    nan = np.nan
    expected = [[0.25, nan, 0.5, nan], [nan, nan, nan, 1.0]]
    np.testing.assert_array_equal(rows, expected)


def test_partial_results_leave_out_what_is_not_named():
    columns = {
        "label": ["cat", "ant", "bee", "emu", "ant", "cat"],
        "score": np.float32([0.25, 0.25, 0.125, 1, 0.25, 0.5]),
        "id": [*"aaabcc"],
        "n": [*"012345"],
    }
    names = LongColumns("id", "label", "score", tuple(NAMES), partial=True)
    part = LongPart(pa.record_batch(columns), names, np.array([0, 3, 4, 6]))
    fitted = doors.mask(NAMES, {"emu": None, "ant": "x", "bee": "x"})
    lower = np.array([[0.375, 0.25], [np.nan, np.nan], [0.25, 0.5]], dtype="f4")
    changed, top = np.array([True, True, False]), pa.array(["x", None, "cat"])
    result = Rewritten(lower, {"top": top}, {}, changed)
    output = LongOutput(Rewriting(fitted, ApplyOptions()), names)
    after = output.of(part, result)
    assert after.schema.names == ["label", "score", "id", "n", "top"]
    assert after.schema.field("score").type == pa.float32()
    found = [tuple(row.values()) for row in after.to_pylist()]
    expected = [
        ("x", 0.375, "a", "1", "x"),  # as the scores of this id descend
        ("cat", 0.25, "a", "0", "x"),
        (None, None, "b", "3", None),
        ("x", 0.25, "c", "4", "cat"),
        ("cat", 0.5, "c", "5", "cat"),
    ]
    assert found == expected
    kept = output.of(part, result._replace(kept=changed))
    assert [tuple(row.values()) for row in kept.to_pylist()] == expected[:3]


def first_return(ids):
    """Find the first id that was there before another one."""
    seen = set()
    for at, key in enumerate(ids):
        if key in seen:
            return at
        seen.add(key)
    return None


@given(
    ids=st.one_of(
        st.lists(st.integers(-3, 12), max_size=40),
        st.lists(st.text("ab", max_size=4), max_size=40),
        st.lists(st.integers(-9, 9).map(float), max_size=20),
        st.integers(0, 30).flatmap(lambda n: st.just([*range(n)])),  # in order
        st.integers(2, 30)
        .flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))
        .map(
            lambda drawn: [*range(drawn[0]), drawn[1]]  # in order but for the last
        ),
        st.integers(2, 30).map(lambda n: [*range(n, 0, -1), -5, n]),
    ),
    size=st.integers(1, 8),
    can_be_read_again=st.booleans(),
)
@example([0, -1, -2, 3, -2], 2, True)  # Python gives -1 and -2 the same hash
@example([0.0, -1.0, -2.0, 3.0], 2, False)
def test_ids_that_come_back_are_noticed(ids, size, can_be_read_again):
    ids = [key for at, key in enumerate(ids) if not at or ids[at - 1] != key]
    batches = [pa.array(ids[at : at + size]) for at in range(0, len(ids), size)]
    again = [pa.array(ids[at : at + 3]) for at in range(0, len(ids), 3)]  # in other batches
    seen, found = SeenIds((lambda: iter(again)) if can_be_read_again else None), None
    for number, batch in enumerate(batches):
        if (at := seen.add(batch)) is not None:
            found = number * size + at
            break
    assert found == first_return(ids)


def test_ids_in_order_are_not_read_again():
    def never():
        raise AssertionError

    for order in (1, -1):
        seen = SeenIds(never)
        for start in range(0, 1000, 10):
            assert seen.add(pa.array(order * np.arange(start, start + 10))) is None


def endless(ids):
    """A table whose rows never end."""
    schema = pa.schema({"id": pa.int64(), "label": pa.string(), "score": pa.float64()})

    def read():
        for _ in count():
            batch = {"id": [next(ids) for _ in range(4)], "label": NAMES, "score": [0.25] * 4}
            yield pa.RecordBatch.from_pydict(batch, schema), 0.5

    return Table(Path("endless.csv"), "csv", schema, read)


@pytest.mark.parametrize("classes", [NAMES, None])
def test_one_id_for_all_rows_is_not_read_to_its_end(classes):
    def read():
        return [*open_long(endless(repeat(7)), classes, LONG.long, LONG).parts(no_progress)]

    with pytest.raises(UnlabelError) as caught:
        read()
    told = {
        True: "endless.csv, the first id in column 'label': the label 'ant' appears twice: give "
        "each label once.",
        False: "endless.csv, row 0 (id 7): it is the first of more than 4 rows of its id, and "
        "there are 4 labels: give each label once.",
    }
    assert str(caught.value) == told[classes is None]
