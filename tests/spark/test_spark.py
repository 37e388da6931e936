"""The Spark integration on a real local Spark, with float and double: Spark has no float16."""

import datetime
import importlib
import os
import shutil
import sys
from decimal import Decimal
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import pytest
from hypothesis import Phase, example, given, settings

import plain_plan
from commands import unlabel
from golden_integrations import (
    CLASSES,
    GOLDEN,
    KINDS,
    METHODS,
    REMOVED,
    TOLERANCE,
    golden_case,
    golden_filter,
)
from signals import outcomes
from unlabel import LabelPlan, OutputFilter, UnlabelError
from unlabel._method.run import thread_limit
from unlabel._plans.outcome import outcome_of
from unlabel._tables.columns.layout import ListColumn

try:
    from unlabel import spark as face
    from unlabel.spark import files as spark_files
    from unlabel.spark.batches import CheckedRows, on_one_thread
    from unlabel.spark.files import COMPLETE, whole_folder
    from unlabel.spark.fitting import Sample
except ModuleNotFoundError as missing:
    WHY_NOT = f"PySpark is not installed ({missing.name})"
else:
    WHY_NOT = ""

pytestmark = [
    # PySpark says so at every Arrow function, and works.
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
    pytest.mark.filterwarnings("ignore:Fewer than 100 reference rows"),
    pytest.mark.filterwarnings("ignore:No reference rows of"),
]

needs_pyspark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "it is there")

SPARK_DTYPES = ("float32", "float64")
OTHERS = """
    SELECT timestamp'2026-01-02 03:04:05.678901' AS seen, date'1969-12-31' AS day,
        timestamp_ntz'2026-03-29 02:30:00' AS wall, 'naïve' AS text, X'00FF' AS raw,
        CAST(12.345678901 AS DECIMAL(38, 9)) AS price, array('a', NULL) AS words,
        map('k', 1) AS counts, named_struct('x', 1L, 'y', named_struct('z', 2.5)) AS nested,
        true AS flag, 7Y AS tiny
    UNION ALL
    SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
"""


def wide_table(rows, classes=CLASSES, **others):
    return pa.table(
        {"id": np.arange(len(rows)), **others} | dict(zip(classes, rows.T, strict=True))
    )


def array_table(rows, **others):
    return pa.table({"id": np.arange(len(rows)), "confidences": list(rows), **others})


def reference_table(dtype="float64"):
    labels = GOLDEN["classes"][GOLDEN["reference_labels"]]
    return wide_table(GOLDEN["reference"].astype(dtype), label=labels)


def rows_of(df, classes):
    table = df.toArrow().sort_by("id")
    if "confidences" in table.schema.names:
        return np.array(table["confidences"].to_pylist())
    return np.column_stack([table[name].to_numpy() for name in classes])


def assert_same_numbers(found, expected, dtype="float64"):
    """What OutputFilter.apply gives, but for the last digit: workers may have numba or not."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=2 * np.finfo(dtype).eps)


def refusal(act, *arguments, **options):
    with pytest.raises(UnlabelError) as caught, face.row_errors():
        act(*arguments, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    return message


# Applying


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS)
def test_golden(spark, method, kind):
    fitted = golden_filter(method, kind)
    cases, results = [], []
    for dtype in SPARK_DTYPES:
        rows, expected = golden_case(method, kind, dtype)
        exact = fitted.apply(rows).astype(np.float64)
        for table in (wide_table(rows), array_table(rows)):
            result = face.apply(spark.createDataFrame(table), fitted)
            names = ["confidences"] if "confidences" in result.columns else list(fitted.classes_out)
            assert result.columns == ["id", *names]
            entries = [f"double(`{name}`)" for name in fitted.classes_out]
            lists = "confidences" if names == ["confidences"] else f"array({', '.join(entries)})"
            number = len(cases)
            cases.append((expected, exact, dtype))
            results.append(
                result.selectExpr(
                    f"{number} AS number", "id", f"CAST({lists} AS ARRAY<DOUBLE>) AS confidences"
                )
            )
    collected = reduce(lambda a, b: a.union(b), results).toArrow()
    for number, (expected, exact, dtype) in enumerate(cases):
        table = collected.filter(pa.compute.field("number") == number).sort_by("id")
        found = np.array(table["confidences"].to_pylist())
        np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE[dtype])
        assert_same_numbers(found, exact, dtype)


def test_the_float_type_stays(spark):
    fitted = golden_filter("osr", "probabilities")
    rows = golden_case("osr", "probabilities", "float32")[0]
    wide = face.apply(spark.createDataFrame(wide_table(rows)), fitted)
    assert {wide.schema[str(name)].dataType.typeName() for name in fitted.classes_out} == {"float"}
    array = face.apply(spark.createDataFrame(array_table(rows)), fitted)
    assert array.schema["confidences"].dataType.simpleString() == "array<float>"


@pytest.fixture(scope="module")
def changed():
    confidences = [[0.7, 0.2, 0.1], [0.6, 0.1, 0.3], [0.1, 0.8, 0.1]]
    labels, classes = ["cat", "cat", "dog"], ["cat", "dog", "fox"]
    return OutputFilter.fit(confidences, labels, classes=classes, remove=["cat"])


ROWS = np.array([[0.6, 0.3, 0.1], [0.2, 0.1, 0.7], [0.5, 0.1, 0.4], [0.1, 0.8, 0.1]])


def test_other_columns_stay_as_they_are(spark, changed):
    confidences = "0.6D AS cat, 0.3D AS dog, 0.1D AS fox"
    df = spark.sql(f"SELECT tiny AS first, {confidences}, * FROM ({OTHERS})")
    result = face.apply(df, changed)
    assert result.columns == [name for name in df.columns if name != "cat"]
    others = [name for name in df.columns if name not in changed.classes_in]
    assert [result.schema[name] for name in others] == [df.schema[name] for name in others]
    before, after = df.select(others).collect(), result.select(others).collect()
    assert after == before
    assert before[0].price == Decimal("12.345678901")
    assert before[0].day == datetime.date(1969, 12, 31)


def test_columns_of_one_name_are_refused(spark, changed):
    twice = spark.createDataFrame([(0.5, 0.3, 0.2, 1, 2)], ["cat", "dog", "fox", "note", "note"])
    with pytest.raises(UnlabelError, match="2 columns 'note': give each a name of its own"):
        face.apply(twice, changed)


@needs_pyspark
def test_a_folder_that_cannot_be_put_in_place_leaves_the_old_one(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / COMPLETE).write_text("")
    with (
        pytest.raises(UnlabelError, match="out: it could not be written"),
        whole_folder(tmp_path / "out", overwrite=True),
    ):
        pass  # nothing was written that could be renamed
    assert os.listdir(tmp_path) == ["out"]
    assert os.listdir(tmp_path / "out") == [COMPLETE]


@needs_pyspark
def test_a_folder_is_the_old_or_the_new_one_whenever_a_signal_comes(tmp_path):
    out = tmp_path / "out"

    def write():
        with whole_folder(out, overwrite=True) as new:
            new.mkdir()
            (new / COMPLETE).write_text("new")

    def found():
        text = (out / COMPLETE).read_text() if out.exists() else None
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        (out / COMPLETE).write_text("old")
        return text

    first, *rest = outcomes(write, found, spark_files)
    assert first is None
    assert set(rest) == {"old", "new"}


def test_further_columns_and_only_changed_rows(spark, changed):
    df = spark.createDataFrame(wide_table(ROWS, changed.classes_in)).repartition(8)
    result = face.apply(df, changed, top_label=True, removed_mass=True, only_changed=True)
    table = result.toArrow().sort_by("id").to_pydict()
    assert table["id"] == [0, 2]
    assert table["top_label"] == ["dog", "fox"]
    assert_same_numbers(table["removed_mass"], changed.run(ROWS[[0, 2]]).removed_mass)
    assert table["old_label"] == ["cat", "cat"]
    assert list(table) == ["id", "dog", "fox", "old_label", "top_label", "removed_mass"]


def test_columns_of_other_names_and_types(spark, changed):
    values = [["0.6", "0.3", ".1"], ["", "0.1", "0.7"]]
    df = spark.createDataFrame(
        [("a", *values[0])], "id string, `p.cat` string, dog string, q string"
    )
    result = face.apply(df, changed, columns=["p.cat", "dog", "q"])
    assert result.columns == ["id", "dog", "q"]
    assert_same_numbers(result.collect()[0][1:], changed.apply([[0.6, 0.3, 0.1]])[0])


def test_empty_partitions_and_no_rows_at_all(spark, changed):
    df = spark.createDataFrame(array_table(ROWS)).repartition(8)
    assert_same_numbers(rows_of(face.apply(df, changed), None), changed.apply(ROWS))
    assert face.apply(df.where("id < 0"), changed).collect() == []


def test_nothing_runs_before_an_action(spark, changed):
    df = spark.createDataFrame(wide_table(ROWS, changed.classes_in))
    spark.sparkContext.setJobGroup("lazy", "")
    result = face.apply(df, changed, top_label=True, only_changed=True)
    assert list(spark.sparkContext.statusTracker().getJobIdsForGroup("lazy")) == []
    assert result.count() == 2
    assert list(spark.sparkContext.statusTracker().getJobIdsForGroup("lazy")) != []
    spark.sparkContext.setJobGroup("", "")


# Plans

NAMES = ["ant", "bee", "cat", "emu", "fox"]
PLAN = {"emu": None, "ant": "insect", "bee": "insect", "fox": {"red": 0.25, "grey": 0.75}}
FIVE = np.random.default_rng(3).dirichlet(np.ones(5), size=20)
TRUTH = [NAMES[i % 5] for i in range(20)]


@settings(max_examples=6, phases=[Phase.explicit, Phase.generate])
@given(plan=plain_plan.changes_of(NAMES))
@example(plan=PLAN)
@example(plan={"ant": "fox", "fox": "ant", "cat": None})
def test_random_plans(spark, plan):
    steps = plain_plan.steps_of(plan, NAMES, FIVE, TRUTH)
    expected = plain_plan.changed_rows(plan, NAMES, FIVE, steps)
    names = plain_plan.result_labels(plan, NAMES)
    fitted = OutputFilter.fit(FIVE, TRUTH, classes=NAMES, plan=plan)
    table = wide_table(FIVE, NAMES).select(["fox", "id", *NAMES[:4]])
    wide = face.apply(spark.createDataFrame(table), fitted, top_label=True)
    order = []
    for column in table.column_names:
        here = [each for each in names if plain_plan.first_source(plan, NAMES, each) == column]
        order += ["id"] if column == "id" else here
    assert wide.columns == [*order, "top_label"]
    np.testing.assert_allclose(rows_of(wide, names), expected, rtol=0, atol=1e-12)
    arrays = face.apply(spark.createDataFrame(array_table(FIVE)), fitted, only_changed=True)
    before, after = FIVE.argmax(axis=1), expected.argmax(axis=1)
    changed = [
        i for i in range(20) if plain_plan.is_change(plan, NAMES[before[i]], names[after[i]])
    ]
    table = arrays.toArrow().sort_by("id")
    assert table["id"].to_pylist() == changed
    found = np.array(table["confidences"].to_pylist()).reshape(-1, len(names))
    np.testing.assert_allclose(found, expected[changed], rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", ["osr", "mask"])
def test_a_plan_is_fitted(spark, method):
    df = spark.createDataFrame(wide_table(FIVE, NAMES, label=TRUTH))
    plan = LabelPlan({"cat": None} | PLAN, title="Version 2", note="fewer")
    fitted = face.fit(df, plan=plan, columns=NAMES, method=method)
    expected = OutputFilter.fit(FIVE, TRUTH, classes=NAMES, plan=plan, method=method)
    assert fitted.plan == expected.plan
    assert fitted.removed == ("cat", "emu")
    assert fitted.classes_out == ("insect", "red", "grey")
    if method == "osr":
        assert_same_filter(fitted, expected)
    merged = face.fit(df.drop("label"), plan={"ant": "bee"}, columns=NAMES)
    assert merged.classes_out == ("bee", "cat", "emu", "fox")


def test_new_labels_beside_columns_of_other_names(spark):
    fitted = OutputFilter.from_plan(PLAN, classes=NAMES)
    columns = ["p.ant", "p.bee", "p.cat", "p.emu", "p.fox"]
    df = spark.createDataFrame(wide_table(FIVE, columns))
    result = face.apply(df, fitted, columns=columns)
    assert result.columns == ["id", "insect", "p.cat", "red", "grey"]
    expected = plain_plan.changed_rows(PLAN, NAMES, FIVE)
    np.testing.assert_allclose(rows_of(result, result.columns[1:]), expected, rtol=0, atol=1e-12)
    taken = spark.createDataFrame(wide_table(FIVE, NAMES, insect=["x"] * 20))
    with pytest.raises(UnlabelError, match="has a column 'insect' already: rename it first"):
        face.apply(taken, fitted)


def test_the_command_changes_labels(spark, tmp_path):
    OutputFilter.from_plan(PLAN, classes=NAMES).save(tmp_path / "f.safetensors")
    pa.parquet.write_table(array_table(FIVE), tmp_path / "in.parquet")
    arguments = ("apply", tmp_path / "in.parquet", tmp_path / "f.safetensors", "--engine", "spark")
    code, out, said = unlabel(*arguments, "--out", tmp_path / "out.csv")
    assert (code, out) == (0, "")
    assert "20 rows written (1 of 5 labels removed, 2 merged into 1, 1 split)." in said
    lines = "".join(path.read_text() for path in (tmp_path / "out.csv").glob("part-*"))
    assert lines.startswith("id,insect,cat,red,grey\n")


# Fitting


def assert_same_filter(fitted, expected):
    assert fitted.classes_in == expected.classes_in
    assert fitted.removed == expected.removed
    assert fitted.temperature == pytest.approx(expected.temperature, rel=1e-9)
    assert fitted.counts == expected.counts
    assert (fitted.method, fitted.kind) == (expected.method, expected.kind)
    np.testing.assert_allclose(fitted.means, expected.means, rtol=0, atol=1e-12)
    np.testing.assert_allclose(fitted.shares, expected.shares, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("partitions", "removed", "dtype"),
    [
        (1, REMOVED, "float64"),
        (3, REMOVED[:1], "float32"),
        (8, REMOVED[::-1], "float32"),
    ],
)
def test_fit_equals_one_machine(spark, partitions, removed, dtype):
    df = spark.createDataFrame(reference_table(dtype)).repartition(partitions)
    fitted = face.fit(df, remove=removed, columns=CLASSES)
    expected = OutputFilter.fit(
        GOLDEN["reference"].astype(dtype),
        GOLDEN["classes"][GOLDEN["reference_labels"]],
        classes=CLASSES,
        remove=removed,
    )
    assert_same_filter(fitted, expected)


@pytest.mark.parametrize("calibrate", [False, True])
def test_the_rows_that_are_chosen_are_those_of_one_machine(spark, calibrate):
    rng = np.random.default_rng(0)
    truth = rng.integers(4, size=3000)
    rows = (rng.dirichlet(np.full(4, 0.5), 3000) * 2 + np.eye(4)[truth]) / 3
    df = spark.createDataFrame(array_table(rows, label=truth)).repartition(4)
    options = {"remove": [1, 0], "calibrate": calibrate}
    fitted = face.fit(df, **options)
    assert fitted.counts == (500, 500)
    assert_same_filter(fitted, OutputFilter.fit(rows, truth, **options))
    assert (fitted.temperature != 1) == calibrate


def test_at_most_so_many_rows_of_labels_that_stay_are_chosen():
    outcome = outcome_of(LabelPlan(["a"]), ("a", "b", "c"))
    sample = Sample.of(outcome, ("a", "b", "c"), 3)
    rng = np.random.default_rng(0)

    def batch(count):
        lists = pa.array([[0.5, 0.5, 0.0]] * count, pa.list_(pa.float64()))
        columns = rng.integers(3, size=count), rng.integers(1 << 60, size=count)
        others = pa.nulls(count, pa.string())
        names = ["position", "hash", "confidences", "other"]
        return pa.record_batch([*map(pa.array, columns), lists, others], names)

    batches = [batch(40) for _ in range(50)]
    table = pa.Table.from_batches(batches)
    found = pa.Table.from_batches([*sample.choose(iter(batches))])
    for positions, most in ([0], 500), ([1, 2], 3):
        hashes = [
            sorted(each.filter(pc.field("position").isin(positions))["hash"].to_pylist())
            for each in (table, found)
        ]
        assert hashes[1] == hashes[0][:most]
        assert len(hashes[0]) > most


@pytest.mark.filterwarnings("ignore:The model answers most rows")
def test_rows_no_better_than_chance_are_refused(spark):
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=300)
    rows = (rng.dirichlet(np.ones(3), 300) + np.eye(3)[truth]) / 2
    df = spark.createDataFrame(array_table(rows, label=(truth + 1) % 3))
    assert "(allow_chance=)" in refusal(face.fit, df, remove=[0])
    assert face.fit(df, remove=[0], allow_chance=True).removed == (0,)


def test_fit_on_an_array_of_logits(spark):
    logits = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32) * 4
    labels = np.arange(40) % 3
    labels[5] = 3  # a label with a single row has no directions
    df = spark.createDataFrame(array_table(logits, truth=labels)).repartition(3)
    fitted = face.fit(df, remove=[3, 1], label_column="truth", kind="logits")
    assert_same_filter(fitted, OutputFilter.fit(logits, labels, remove=[3, 1], kind="logits"))
    found = rows_of(face.apply(df, fitted), None)
    assert_same_numbers(found, fitted.apply(logits), "float32")


@pytest.mark.parametrize(
    ("kind", "classes"),
    [
        ("double", [0, 1, 2]),
        ("double", ["0", "1", "2"]),
        ("decimal(4, 2)", [0, 1, 2]),
        ("bigint", ["0", "1", "2"]),
    ],
)
def test_fit_on_labels_as_spark_ml_has_them(spark, kind, classes):
    rows = np.vstack([ROWS, ROWS[::-1] * 0.5 + 0.5 / 3])
    labels = np.array([0, 2, 0, 1, 1, 0, 2, 0])
    df = spark.createDataFrame(array_table(rows, label=labels))
    df = df.selectExpr("id", "confidences", f"CAST(label AS {kind}) AS label")
    fitted = face.fit(df, remove=[classes[2], classes[0]], classes=classes)
    named = [classes[label] for label in labels]
    assert_same_filter(
        fitted, OutputFilter.fit(rows, named, classes=classes, remove=[classes[2], classes[0]])
    )


def test_fit_on_two_spellings_of_one_label(spark):
    rows = ROWS[:, :2] / ROWS[:, :2].sum(axis=1, keepdims=True)
    df = spark.createDataFrame(array_table(rows, label=["1.0", "0", "1", "0.0"]))
    expected = OutputFilter.fit(rows, [1, 0, 1, 0], remove=[1])
    assert_same_filter(face.fit(df, remove=[1]), expected)


def test_doubles_that_are_no_labels(spark):
    for value, says in [
        ("double('nan')", "^1 row without a true label was skipped"),
        ("null", "^1 row without a true label was skipped"),
        ("1.5", "^1 row of labels that the model does not have, such as '1.5',"),
    ]:
        df = spark.createDataFrame(array_table(ROWS)).selectExpr(
            "*", f"double(IF(id = 1, {value}, 0)) AS label"
        )
        with pytest.warns(UserWarning, match=says):
            assert face.fit(df, remove=[0]).counts == (3,)
    nested = df.withColumnRenamed("label", "other").selectExpr("*", "array(other) AS label")
    assert "'label' has the type array<double>: give true labels" in refusal(
        face.fit, nested, remove=[0], columns="confidences"
    )


def test_names_that_differ_in_case_are_names_of_their_own(spark):
    df = spark.createDataFrame(wide_table(ROWS, ["a", "A", "b.c"], label=["a", "A", "a", "b.c"]))
    df = df.selectExpr("*", "'no label' AS Label")
    fitted = face.fit(df, remove=["A"], classes=["a", "A", "b.c"])
    expected = OutputFilter.fit(
        ROWS, ["a", "A", "a", "b.c"], classes=["a", "A", "b.c"], remove=["A"]
    )
    assert_same_filter(fitted, expected)
    table = face.apply(df, fitted).toArrow().sort_by("id")
    assert table.schema.names == ["id", "label", "a", "b.c", "Label"]
    assert_same_numbers(np.column_stack([table["a"], table["b.c"]]), expected.apply(ROWS))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_a_declared_kind(spark, kind):
    other = next(each for each in KINDS if each != kind)
    rows = golden_case("osr", other, "float64")[0]
    fitted = golden_filter("osr", kind)
    df = spark.createDataFrame(array_table(rows))
    found = rows_of(face.apply(df, fitted, kind=other), None)
    assert_same_numbers(found, golden_filter("osr", other).apply(rows))
    message = refusal(face.apply(df, fitted).collect)
    assert "(kind=)" in message or NO_ROW in message


def test_mask_and_no_removal_run_nothing(spark):
    df = spark.createDataFrame(reference_table().drop(["label"]))
    spark.sparkContext.setJobGroup("mask", "")
    masked = face.fit(df, keep=CLASSES[2:], classes=CLASSES, method="mask")
    assert_same_filter(
        masked,
        OutputFilter.fit(GOLDEN["reference"], classes=CLASSES, keep=CLASSES[2:], method="mask"),
    )
    assert face.fit(df, remove=[], columns=CLASSES).removed == ()
    assert list(spark.sparkContext.statusTracker().getJobIdsForGroup("mask")) == []
    spark.sparkContext.setJobGroup("", "")


# What goes wrong


NO_ROW = "it is not a probability vector:"


@needs_pyspark
@pytest.mark.parametrize(
    ("row", "says"),
    [
        ([0.5, np.nan, 0.5], f"{NO_ROW} the label 'dog' is NaN; give a number or drop the row."),
        ([0.5, None, 0.5], f"{NO_ROW} the label 'dog' is NaN; give a number or drop the row."),
        ([-0.5, 1.0, 0.5], f"{NO_ROW} the label 'cat' is -0.5;"),
        ([0.5, 0.2, 0.2], f"{NO_ROW} it sums to 0.9"),
        ([0.5, 0.5], "it has 2 entries in column 'c' and there are 3 labels:"),
        (None, "it has no list in column 'c' and there are 3 labels:"),
    ],
)
def test_a_bad_row_is_named(row, says):
    good = [0.6, 0.3, 0.1]
    lists = pa.array([good, good, row, good, row], pa.list_(pa.float64()))
    batch = pa.record_batch({"id": list("abcde"), "c": lists})
    checked = CheckedRows(
        ListColumn("c", ("cat", "dog", "fox"), fixed_size=False), "probabilities", "id"
    )
    batches = iter([batch.slice(0, 2), batch.slice(2)])
    message = refusal(lambda: list(checked.of(batches)))
    assert message.startswith(f"Partition 0 (id='c'), row 2: {says}")


SUMS = [[0.5, 0.1, 0.1], [0.9, 0.8, 0.2], [0.2, 0.1, 0.1]]


@needs_pyspark
def test_the_other_rows_show_that_scores_are_independent():
    batch = pa.record_batch({"id": list("abc"), "c": pa.array(SUMS)})
    source = ListColumn("c", (0, 1, 2), fixed_size=False)
    checked = CheckedRows(source, "probabilities", "id")
    message = refusal(lambda: list(checked.of(iter([batch]))))
    assert message.startswith(f"Partition 0 (id='a'), row 0: {NO_ROW} it sums to 0.7; these")
    assert "look like independent (sigmoid) scores" in message


def test_the_command_line_normalises_with_spark_too(spark, changed, tmp_path):
    scores = {label: [2.0, 1.0 + i] for i, label in enumerate(changed.classes_in)}
    pa.parquet.write_table(pa.table(scores), tmp_path / "scores.parquet")
    changed.save(tmp_path / "f")
    options = ("apply", tmp_path / "scores.parquet", tmp_path / "f", "--normalize", "--out")
    for out, engine in (("a.parquet", "local"), ("b.parquet", "spark")):
        assert unlabel(*options, tmp_path / out, "--engine", engine, "-q") == (0, "", "")
    local, distributed = (
        pa.parquet.read_table(tmp_path / out) for out in ("a.parquet", "b.parquet")
    )
    assert distributed.to_pydict() == local.to_pydict()
    rows = np.column_stack([*scores.values()])
    expected = changed.apply(rows / rows.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(np.column_stack([*local.to_pydict().values()]), expected)


@needs_pyspark
def test_probabilities_in_place_of_logits():
    batch = pa.record_batch({"id": range(12), "c": list(np.tile(ROWS, (3, 1)))})
    checked = CheckedRows(ListColumn("c", (0, 1, 2), fixed_size=False), "logits", "id")
    for rows in (12, 2):  # small tables have few rows in a partition
        message = refusal(list, checked.of(iter([batch.slice(0, rows)])))
        assert message.startswith("Partition 0: the rows are probabilities, not logits")
    few = list(checked.of(iter([batch.slice(0, 1)])))  # logits may sum to 1, too
    np.testing.assert_array_equal(few[0][1], ROWS[:1])


def test_a_bad_cell_of_a_wide_table_is_named(spark, changed):
    data = [(0, "0.6", "0.3", "0.1"), (1, "0.6", "much", "0.1")]
    df = spark.createDataFrame(data, "id int, cat string, dog string, fox string").coalesce(1)
    message = refusal(face.apply(df, changed).write.format("noop").mode("overwrite").save)
    assert message == "Partition 0 (id=1), row 1: it has 'much' in column 'dog': give a number."


def test_a_bad_row_in_a_fit_is_named(spark, changed):
    data = [(i, "fox", 0.1, 0.1, 0.8) for i in range(3)]
    data += [(i, "cat", 0.8, 0.1, 0.1 if i != 5 else 0.3) for i in range(3, 7)]
    df = spark.createDataFrame(data, "id int, label string, cat float, dog float, fox float")
    message = refusal(face.fit, df.coalesce(1), remove=["cat"], columns=changed.classes_in)
    assert message.startswith(f"Partition 0 (id=5), row 5: {NO_ROW}")


def test_true_labels_that_do_not_exist(spark, changed):
    columns = list(changed.classes_in)
    df = spark.createDataFrame(wide_table(ROWS, columns, label=["cat", "dgo", "cat", None]))
    with pytest.warns(UserWarning, match="skipped") as caught:
        fitted = face.fit(df, remove=["cat"], columns=columns)
    [warning] = [each for each in caught if "skipped" in str(each.message)]
    assert str(warning.message) == (
        "1 row without a true label and 1 row of labels that the model does not have, such as "
        "'dgo' (the nearest is 'dog'), were skipped."
    )
    assert warning.filename == __file__
    assert_same_filter(
        fitted, OutputFilter.fit(ROWS[[0, 2]], ["cat"] * 2, classes=columns, remove=["cat"])
    )
    message = refusal(face.fit, df.where("id = 1"), remove=["cat"], columns=columns)
    assert message == "The model has no label 'dgo': the nearest is 'dog' (labels=)."
    message = refusal(face.fit, df.where("id = 3"), remove=["cat"], columns=columns)
    assert message.startswith("No row has a true label")


def test_many_other_labels_hide_none_of_the_model(spark):
    labels = [f"id-{i}" if i % 10 else "b" for i in range(3000)]
    rows = np.random.default_rng(0).dirichlet(np.ones(3), 3000)
    df = spark.createDataFrame(array_table(rows, label=labels))
    with pytest.warns(UserWarning, match=r"^2,700 rows of labels .*, such as 'id-1'"):
        fitted = face.fit(df, remove=["b"], classes=["a", "b", "c"])
    expected = OutputFilter.fit(rows[::10], ["b"] * 300, classes=["a", "b", "c"], remove=["b"])
    assert_same_filter(fitted, expected)


def test_top_labels_of_several_types_are_texts(spark):
    several = OutputFilter.from_plan({"cat": None}, classes=["cat", "dog", 7])
    df = spark.createDataFrame(wide_table(ROWS, ["cat", "dog", "fox"]))
    result = face.apply(df, several, columns=["cat", "dog", "fox"], top_label=True)
    assert {row.top_label for row in result.collect()} <= {"dog", "7"}


def test_wrong_columns_are_refused_at_once(spark, changed):
    names = list(changed.classes_in)
    df = spark.createDataFrame(wide_table(ROWS, names, label=["cat"] * 4, day=["x"] * 4))
    typo = df.withColumnRenamed("dog", "dogs")
    assert refusal(face.apply, typo, changed) == (
        "The DataFrame: it has no column 'dog'; the nearest is 'dogs'."
    )
    assert "has no column 'lable'; the nearest is 'label'" in refusal(
        face.fit, df, remove=["cat"], columns=names, label_column="lable"
    )
    assert "'cat' holds confidences and cannot hold the true labels too" in refusal(
        face.fit, df, remove=["cat"], columns=names, label_column="cat"
    )
    assert "The model has no label 'cow'" in refusal(face.fit, df, remove=["cow"], columns=names)
    assert "does not show which columns hold the confidences" in refusal(
        face.fit, df, remove=["cat"]
    )
    counted = df.selectExpr(
        "array(cat, dog, fox) AS p", *[f"int({name}) AS {name}" for name in names]
    )
    assert refusal(face.apply, counted, changed) == (
        "The DataFrame: it has int32 values for the label 'cat', and lists in column 'p': if those "
        "hold the confidences, say so (columns=)."
    )
    assert "There are 2 columns and 3 labels" in refusal(
        face.apply, df, changed, columns=["cat", "dog"]
    )
    for unordered in ({*names}, dict.fromkeys(names), {0: "cat", 1: "dog", 2: "fox"}):
        assert ": give a list, in order" in refusal(face.apply, df, changed, columns=unordered)
    assert refusal(face.apply, df, changed, columns=["cat", "fox", "dog"]).startswith(
        "The column 'fox' stands where the model has the label 'dog':"
    )
    assert "The column 'dog' stands where the model has the label 'cat':" in refusal(
        face.fit, df, remove=["cat"], columns=["dog", "cat", "fox"], classes=names
    )
    assert "'scores' is not known" in refusal(face.apply, df, changed, kind="scores")
    assert "The filter is a str: give an OutputFilter" in refusal(face.apply, df, "f.safetensors")
    assert "has the type string and confidences are an array" in refusal(
        face.apply, df, changed, columns="day"
    )
    assert "has the type array<string> and confidences are" in refusal(
        face.apply, df.selectExpr("array(day) AS lists"), changed, columns="lists"
    )
    assert "has a column 'top_label' already: rename it first" in refusal(
        face.apply, df.withColumnRenamed("day", "top_label"), changed, top_label=True
    )
    empty = spark.createDataFrame([], "id int, lists array<double>, label int")
    assert "The first row has no list in column 'lists'" in refusal(face.fit, empty, remove=[0])


def test_vectors_are_refused_with_the_way_out(spark, changed):
    from pyspark.ml.linalg import Vectors

    df = spark.createDataFrame([(Vectors.dense(0.6, 0.3, 0.1),)], ["probability"])
    message = refusal(face.apply, df, changed, columns="probability")
    assert "pyspark.ml.functions.vector_to_array turns vectors into arrays" in message
    assert "name one column per label, or one array column" in refusal(face.apply, df, changed)


def test_other_errors_pass_row_errors_unchanged(spark):
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"), face.row_errors():
        spark.sql("SELECT 1 / 0").collect()


@pytest.mark.parametrize("hidden", ["pyspark", "pyarrow"])
def test_without_the_extra_its_name_is_said(monkeypatch, hidden):
    for name in list(sys.modules):
        if name.partition(".")[0] == hidden or name.startswith("unlabel.spark"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, hidden, None)
    with pytest.raises(ModuleNotFoundError) as caught:
        importlib.import_module("unlabel.spark")
    missing = caught.value.name
    assert missing is not None
    assert missing.partition(".")[0] == hidden
    assert (
        str(caught.value) == f"The module {missing} is not installed: pip install 'unlabel[spark]'."
    )


# The command line


@pytest.fixture
def files(tmp_path, changed):
    changed.save(tmp_path / "f.safetensors")
    table = wide_table(ROWS, changed.classes_in, note=['say "hi"', "two\nlines", " blank ", ""])
    pa.parquet.write_table(table, tmp_path / "in.parquet", row_group_size=2)
    pa.parquet.write_table(array_table(ROWS), tmp_path / "lists[1].parquet")
    return tmp_path


def spark_apply(folder, source, out, *options):
    paths = [folder / source, folder / "f.safetensors", "--out", folder / out]
    return unlabel("apply", *paths, "--engine", "spark", *options)


def left_over(folder):
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


def test_command_line_parquet(spark, files, changed):
    code, out, said = spark_apply(files, "in.parquet", "kept.parquet", "--top-label")
    assert (code, out) == (0, "")
    assert said.endswith("4 rows written (1 of 3 labels removed).\n")
    kept = pa.parquet.read_table(files / "kept.parquet").sort_by("id")
    found = np.column_stack([kept["dog"], kept["fox"]])
    assert_same_numbers(found, changed.apply(ROWS))
    assert kept["note"].to_pylist() == ['say "hi"', "two\nlines", " blank ", ""]
    assert kept["top_label"].to_pylist() == ["dog", "fox", "fox", "dog"]
    code, _, err = spark_apply(files, "in.parquet", "kept.parquet")
    assert code == 2
    assert "exists already" in err
    code, _, _ = spark_apply(files, "kept.parquet", "kept.parquet", "--force")
    assert code == 2  # the filter's columns are gone: the table is left as it was
    assert pa.parquet.read_table(files / "kept.parquet").num_rows == 4
    code, _, _ = spark_apply(files, "in.parquet", "kept.parquet", "--force", "--only-changed")
    assert code == 0
    assert pa.parquet.read_table(files / "kept.parquet").num_rows == 2
    assert left_over(files) == []


def test_command_line_csv_there_and_back(spark, files, changed):
    assert spark_apply(files, "lists[1].parquet", "kept[1].csv", "-q") == (0, "", "")
    names = sorted(path for path in (files / "kept[1].csv").iterdir() if path.suffix == ".csv")
    lines = [line for name in names for line in name.read_text().splitlines()]
    assert lines[0] == "id,dog,fox"
    found = np.array([line.split(",") for line in lines if line != lines[0]], dtype=np.float64)
    assert_same_numbers(found[np.argsort(found[:, 0]), 1:], changed.apply(ROWS))
    notes = ['"say ""hi"""', '"two\nlines"', " blank ", "x"]
    rows = [f"{note},{','.join(map(str, row))}" for note, row in zip(notes, ROWS, strict=True)]
    (files / "in.csv").write_text("note,cat,dog,fox\n" + "\n".join(rows) + "\n")
    assert spark_apply(files, "in.csv", "kept.parquet")[0] == 0
    kept = pa.parquet.read_table(files / "kept.parquet")
    assert kept["note"].to_pylist() == ['say "hi"', "two\nlines", " blank ", "x"]
    assert_same_numbers(np.column_stack([kept["dog"], kept["fox"]]), changed.apply(ROWS))


def test_command_line_rows_of_a_declared_kind(spark, files, changed):
    pa.parquet.write_table(wide_table(np.log(ROWS), changed.classes_in), files / "logits.parquet")
    assert spark_apply(files, "logits.parquet", "kept.parquet", "--kind", "logits")[0] == 0
    kept = pa.parquet.read_table(files / "kept.parquet").sort_by("id")
    assert_same_numbers(np.column_stack([kept["dog"], kept["fox"]]), changed.apply(ROWS))


def test_neither_pipes_nor_folders_among_csv_files_are_waited_for(spark, files):
    os.mkfifo(files / "pipe.csv")
    assert "it is not a regular file" in spark_apply(files, "pipe.csv", "kept.parquet")[2]
    (files / "in.csv" / "inner.csv").mkdir(parents=True)
    os.mkfifo(files / "in.csv" / "pipe.csv")
    (files / "in.csv" / "1.csv").write_text("cat,dog,fox\n.6,.3,.1\n")
    code, _, err = spark_apply(files, "in.csv", "kept.parquet")
    assert code in (0, 2)
    assert "Traceback" not in err


def test_a_folder_of_csv_files_with_other_headers_is_refused(spark, files):
    (files / "in.csv").mkdir()
    (files / "in.csv" / "1.csv").write_text("cat,dog,fox\n.6,.3,.1\n")
    (files / "in.csv" / "2.csv").write_text("fox,dog,cat\n.6,.3,.1\n")
    code, _, err = spark_apply(files, "in.csv", "kept.parquet")
    assert code == 2
    assert "CSV header does not conform to the schema" in err
    assert err.count("\n") == 1
    (files / "in.csv" / "2.csv").write_text("cat,dog,fox\n.1,.8,.1\n")
    assert spark_apply(files, "in.csv", "kept.parquet")[0] == 0
    assert pa.parquet.read_table(files / "kept.parquet").num_rows == 2


def test_csv_files_in_another_encoding_are_refused(spark, files):
    (files / "in.csv").write_bytes("note,cat,dog,fox\nna\xefve,.6,.3,.1\n".encode("latin-1"))
    code, _, err = spark_apply(files, "in.csv", "kept.parquet")
    assert (code, err) == (
        2,
        f"Error: {files / 'in.csv'}: the file is not UTF-8: save it in that encoding.\n",
    )
    assert not (files / "kept.parquet").exists()
    (files / "in.csv").write_text("note,cat,dog,fox\nna\xefve,.6,.3,.1\n", encoding="utf-8")
    assert spark_apply(files, "in.csv", "kept.parquet")[0] == 0
    assert pa.parquet.read_table(files / "kept.parquet")["note"].to_pylist() == ["na\xefve"]


def test_command_line_mistakes(spark, files, changed, monkeypatch):
    bad = wide_table(ROWS * [1, 1, 0.5], changed.classes_in)
    pa.parquet.write_table(bad, files / "bad.parquet")
    code, _, err = spark_apply(files, "bad.parquet", "kept.parquet")
    assert code == 2
    assert f"Error: {files / 'bad.parquet'}: partition 0 (id=0), row 0: {NO_ROW}" in err
    assert err.count("\n") == 1
    (files / "broken.parquet").write_bytes(b"PAR1 no table PAR1")
    code, _, err = spark_apply(files, "broken.parquet", "kept.parquet")
    assert code == 2
    assert "broken.parquet: it could not be filtered by Spark" in err
    assert err.count("\n") == 1
    for source, out, says in [
        ("absent.parquet", "kept.parquet", "No such file"),
        ("in.parquet", "kept.npy", "name it .parquet or .csv"),
        ("in.parquet", "absent/kept.parquet", "could not be written: No such file"),
    ]:
        code, _, err = spark_apply(files, source, out)
        assert (code, says in err, err.count("\n")) == (2, True, 1)
    (files / "mine.parquet").mkdir()
    code, _, err = spark_apply(files, "in.parquet", "mine.parquet", "--force")
    assert code == 2
    assert "it is a folder that Spark did not write" in err
    assert not (files / "kept.parquet").exists()
    assert left_over(files) == []
    for name in list(sys.modules):
        if name.startswith(("unlabel.spark", "pyspark")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    code, _, err = spark_apply(files, "in.parquet", "kept.parquet")
    assert (code, err) == (
        2,
        "Error: The module pyspark is not installed: pip install 'unlabel[spark]'.\n",
    )


def test_a_filter_travels_without_what_it_computed(spark, monkeypatch):
    fitted = golden_filter("osr", "probabilities")
    fitted.apply(GOLDEN["probabilities"])
    assert "_recipe" in vars(fitted)
    travelled = []
    monkeypatch.setattr(face, "rewritten", lambda df, out: travelled.append(out.rewriting.fitted))
    face.apply(spark.createDataFrame(wide_table(GOLDEN["probabilities"])), fitted)
    assert "_recipe" not in vars(travelled[0])


def test_executors_filter_on_one_thread(monkeypatch):
    monkeypatch.setenv("UNLABEL_THREADS", "7")  # so that what the executor sets is undone
    monkeypatch.delenv("UNLABEL_THREADS")
    work = on_one_thread(lambda batches: [thread_limit() for _ in batches])
    assert work(["a batch"]) == [1]
    monkeypatch.setenv("UNLABEL_THREADS", "3")
    assert work(["a batch"]) == [3]
