"""Spark's answers with lists of allowed labels, unknown and columns of labels."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import plain_answers
import plain_plan
from commands import unlabel
from unlabel import AnswerRule, OutputFilter, UnlabelError

# PySpark says so at every Arrow function, and works.
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")

NAMES = ["ant", "bee", "cat", "emu", "fox"]
PLAN = {"emu": None, "ant": "insect", "bee": "insect", "fox": {"red": 0.25, "grey": 0.75}}
RESULTS = ["insect", "cat", "red", "grey"]
ROWS = np.random.default_rng(3).dirichlet(np.ones(5), size=40)
OLD_TOP = [NAMES[column] for column in ROWS.argmax(axis=1)]
SECOND = [[*NAMES, "", "a note"][i * i % 7] for i in range(40)]
LISTS = {"DE": ["insect", "cat"], "AU": ["cat", "red"]}
PLACES = ["DE", "AU", "AU", "DE"] * 10
ABOVE = 0.3
RULE = AnswerRule(max_removed_mass=ABOVE, unknown="none")


@pytest.fixture
def table():
    columns = {"id": range(40), "place": PLACES, "second": SECOND}
    return pa.table(columns | dict(zip(NAMES, ROWS.T, strict=True)))


@pytest.fixture(scope="module")
def fitted():
    return OutputFilter.from_plan(PLAN, classes=NAMES)


def assert_answers(found):
    """Compare a table, sorted by id, with plain loops over its rows."""
    kept = []
    for i, row in enumerate(plain_plan.changed_rows(PLAN, NAMES, ROWS).tolist()):
        allowed = LISTS[PLACES[i]]
        new, lost = plain_answers.restricted(row, [name in allowed for name in RESULTS])
        answer = plain_answers.top(RESULTS, new, allowed)
        mass = plain_answers.removed_mass(PLAN, NAMES, ROWS[i])
        is_change = mass > ABOVE or plain_plan.is_change(PLAN, OLD_TOP[i], answer)
        answer = "none" if mass > ABOVE else answer
        if is_change:
            second = plain_answers.updated(PLAN, NAMES, SECOND[i], OLD_TOP[i], answer, allowed)
            kept.append((i, new, second, OLD_TOP[i], answer, mass, lost))
    assert 0 < len(kept) < 40
    ids, rows, seconds, old, answers, masses, losses = zip(*kept, strict=True)
    assert found["id"].to_pylist() == [*ids]
    numbers = np.column_stack([found[name] for name in RESULTS])
    np.testing.assert_allclose(numbers, rows, rtol=0, atol=1e-15)
    assert found["second"].to_pylist() == [*seconds]
    assert found["old_label"].to_pylist() == [*old]
    assert found["top_label"].to_pylist() == [*answers]
    np.testing.assert_allclose(found["removed_mass"], masses, rtol=0, atol=1e-15)
    np.testing.assert_allclose(found["not_allowed"], losses, rtol=0, atol=1e-15)


def test_every_option_agrees_with_plain_loops(spark, table, fitted):
    from unlabel.spark import apply

    result = apply(
        spark.createDataFrame(table).repartition(5),
        fitted,
        removed_mass=True,
        only_changed=True,
        update_column="second",
        rule=RULE,
        allow=LISTS,
        allow_by="place",
    )
    assert_answers(result.toArrow().sort_by("id"))


@pytest.mark.parametrize("engine", ["spark", "local"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_the_command_agrees_with_plain_loops(spark, table, fitted, tmp_path, engine, suffix):
    fitted.save(tmp_path / "f.safetensors")
    if suffix == ".csv":
        pa.csv.write_csv(table, tmp_path / "in.csv")
    else:
        pa.parquet.write_table(table, tmp_path / "in.parquet")
    RULE.save(tmp_path / "rule.toml")
    lines = [f"{name},{label}\n" for name, labels in LISTS.items() for label in labels]
    (tmp_path / "lists.csv").write_text("list,label\n" + "".join(lines))
    code, out, said = unlabel(
        *("apply", tmp_path / f"in{suffix}", tmp_path / "f.safetensors", "--engine", engine),
        *("--out", tmp_path / "out.parquet", "--removed-mass", "--only-changed"),
        *("--update-column", "second", "--rule", tmp_path / "rule.toml"),
        *("--allow", tmp_path / "lists.csv", "--allow-by", "place"),
    )
    assert (code, out) == (0, "")
    assert "1 split)." in said
    found = pa.parquet.read_table(tmp_path / "out.parquet")
    found = found.set_column(0, "id", found["id"].cast(pa.int64())).sort_by("id")
    if suffix == ".csv" and engine == "spark":  # Spark reads an empty text as none
        found = found.set_column(2, "second", found["second"].fill_null(""))
    assert_answers(found)


def test_rows_without_a_list_are_named(spark, table, fitted):
    from unlabel.spark import apply, row_errors

    df = spark.createDataFrame(table).replace("AU", "XX", "place").coalesce(1)
    with pytest.raises(UnlabelError, match="the unknown list 'XX'") as caught, row_errors():
        apply(df, fitted, allow=LISTS, allow_by="place").collect()
    assert str(caught.value).startswith("Partition 0 (id=1), row 1: it names")


@pytest.mark.parametrize("unknown", [-1, None])
def test_unknown_is_null_or_a_number_beside_numbers(spark, unknown):
    from unlabel.spark import apply

    df = spark.createDataFrame(pa.table({"id": range(40), "p": ROWS.tolist()}))
    fitted = OutputFilter.from_plan({3: None}, classes=range(5))
    rule = AnswerRule(max_removed_mass=ABOVE, unknown=unknown)
    result = apply(df, fitted, top_label=True, rule=rule)
    expected = []
    for row in ROWS.tolist():
        rest = [entry for column, entry in enumerate(row) if column != 3]
        expected.append(unknown if row[3] > ABOVE else [0, 1, 2, 4][rest.index(max(rest))])
    assert result.toArrow().sort_by("id")["top_label"].to_pylist() == expected


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"allow": LISTS}, "name the column with each row's"),
        ({"allow_by": "place"}, "and there are none"),
        ({"allow": LISTS, "allow_by": "plaice"}, "no column 'plaice'; the nearest is"),
        ({"allow": {"zoo": ["gnu"]}, "allow_by": "place"}, "no label 'gnu'"),
        ({"allow": ["emu"]}, "'emu' is now removed"),
        ({"rule": AnswerRule(0.5)}, "and none is written"),
        ({"rule": AnswerRule(0.5, unknown="cat"), "top_label": True}, "'cat' stands for unknown"),
        ({"rule": AnswerRule({"emu": 0.5}), "top_label": True}, "no label 'emu'"),
        ({"update_column": "id"}, "'id' has the type int64"),
        ({"update_column": "cat"}, "has confidences in column 'cat'"),
    ],
)
def test_options_that_do_not_fit_are_refused_at_once(spark, table, fitted, options, says):
    from unlabel.spark import apply

    with pytest.raises(UnlabelError) as caught:
        apply(spark.createDataFrame(table), fitted, **options)
    assert says in str(caught.value)
