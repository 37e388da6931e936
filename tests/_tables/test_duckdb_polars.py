"""Long tables and nested columns that DuckDB and polars write, and read again."""

import numpy as np
import pytest

import doors
import plain_plan as plain
from unlabel._tables.files import formats
from unlabel._tables.predictions import Reading
from unlabel._tables.rewriting import ApplyOptions
from unlabel._tables.streaming import apply_table

NAMES = ["ant", "bee", "cat"]
PLAN = {"bee": None, "cat": "feline"}
RESULT = ["ant", "feline"]
ROWS = np.array([[0.125, 0.375, 0.5], [0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.125, 0.25, 0.625]])
EXPECTED = plain.changed_rows(PLAN, NAMES, ROWS)
IDS = ["b", "a", "d", "c"]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(formats, "BATCH_ROWS", 4)


def filtered(source, out, **options):
    fitted = doors.mask(NAMES, PLAN)
    apply_table(fitted, source, out, ApplyOptions(**options), lambda part: None)
    return out


def long(**reading):
    return {"reading": Reading(long=("id", "label", "score"), **reading)}


@pytest.fixture
def duck():
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        connection.execute("CREATE TYPE animal AS ENUM ('ant', 'bee', 'cat')")
        connection.execute(
            "CREATE TABLE wide (n INT, id VARCHAR, ant DOUBLE, bee DOUBLE, cat DOUBLE)"
        )
        for n, (key, row) in enumerate(zip(IDS, ROWS.tolist(), strict=True)):
            connection.execute("INSERT INTO wide VALUES (?, ?, ?, ?, ?)", [n, key, *row])
        yield connection


DUCK_LONG = """
COPY (SELECT {id} AS id, label::{label} AS label, score::{score} AS score, n * 1.5 AS price
      FROM (UNPIVOT wide ON ant, bee, cat INTO NAME label VALUE score) ORDER BY n, label)
TO '{path}'
"""


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("label", ["VARCHAR", "animal"])
@pytest.mark.parametrize("score", ["DOUBLE", "FLOAT", "DECIMAL(9, 6)"])
@pytest.mark.parametrize(
    "id", ["id", "n", "n::DECIMAL(9, 2)", "md5(id)::UUID", "DATE '2024-01-01' - n", "id::BLOB"]
)
def test_long_tables_of_duckdb(duck, tmp_path, ending, label, score, id):
    source, out = tmp_path / f"in.{ending}", tmp_path / f"out.{ending}"
    duck.execute(DUCK_LONG.format(id=id, label=label, score=score, path=source))
    filtered(source, out, **long(), top_label=True)
    before = duck.execute(f"SELECT DISTINCT id, price FROM '{source}' ORDER BY price").fetchall()
    found = duck.execute(f"FROM '{out}'").fetchall()
    rows = [(n, at) for n in range(4) for at in range(2)]
    assert [row[1] for row in found] == [RESULT[at] for _, at in rows]
    assert [(row[0], row[3]) for row in found] == [before[n] for n, _ in rows]
    assert [row[4] for row in found] == [RESULT[EXPECTED[n].argmax()] for n, _ in rows]
    np.testing.assert_allclose([float(row[2]) for row in found], EXPECTED.reshape(-1), rtol=1e-6)
    types = [
        f"SELECT column_name, column_type FROM (DESCRIBE FROM '{each}')" for each in (source, out)
    ]
    kinds = [dict(duck.execute(each).fetchall()) for each in types]
    assert kinds[1] | {"score": None} == kinds[0] | {"top_label": "VARCHAR", "score": None}
    is_exact = ending == "csv" or score.startswith("DECIMAL")
    assert kinds[1]["score"] == ("DOUBLE" if is_exact else score)


DUCK_NESTED = {
    "STRUCT": "{'cat': cat::FLOAT, 'ant': ant::FLOAT, 'bee': bee::FLOAT}",
    "MAP": "MAP {'ant': ant, 'bee': bee, 'cat': cat}",
    "LIST": "[{'class': 'ant', 'probability': ant}, {'class': 'bee', 'probability': bee}, "
    "{'class': 'cat', 'probability': cat}]",
}


@pytest.mark.parametrize("kind", DUCK_NESTED)
def test_nested_columns_of_duckdb(duck, tmp_path, kind):
    source, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    duck.execute(f"COPY (SELECT id, {DUCK_NESTED[kind]} AS p, n FROM wide) TO '{source}'")
    filtered(source, out)
    found = duck.execute(f"SELECT id, p, n FROM '{out}'").fetchall()
    assert [(row[0], row[2]) for row in found] == [*zip(IDS, range(4), strict=True)]
    cells = [row[1] for row in found]
    if kind == "LIST":
        assert [*cells[0][0]] == ["class", "probability"]
        cells = [{entry["class"]: entry["probability"] for entry in cell} for cell in cells]
    assert [[*cell] for cell in cells] == [RESULT] * 4
    np.testing.assert_allclose([[*cell.values()] for cell in cells], EXPECTED, rtol=1e-6)
    [kind_after] = duck.execute(f"SELECT DISTINCT typeof(p) FROM '{out}'").fetchone()
    assert (
        kind_after
        == {
            "STRUCT": "STRUCT(ant FLOAT, feline FLOAT)",
            "MAP": "MAP(VARCHAR, DOUBLE)",
            "LIST": 'STRUCT("class" VARCHAR, probability DOUBLE)[]',
        }[kind]
    )


@pytest.fixture
def polars():
    return pytest.importorskip("polars")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("label", ["String", "Categorical", "Enum"])
@pytest.mark.parametrize("score", ["Float32", "Float64", "Decimal"])
@pytest.mark.parametrize("id", ["String", "Int16", "Categorical"])
def test_long_tables_of_polars(polars, tmp_path, ending, label, score, id):
    label_type = polars.Enum(NAMES) if label == "Enum" else getattr(polars, label)
    score_type = polars.Decimal(9, 6) if score == "Decimal" else getattr(polars, score)
    ids = polars.Series(range(4) if id == "Int16" else IDS).cast(getattr(polars, id))
    wide = polars.DataFrame({"id": ids, "note": ["x", None, "y", "z"]}).with_columns(
        **dict(zip(NAMES, ROWS.T, strict=True))
    )
    source, out = tmp_path / f"in.{ending}", tmp_path / f"out.{ending}"
    table = (
        wide.with_row_index("n")
        .unpivot(NAMES, index=["n", "id", "note"], variable_name="label", value_name="score")
        .sort("n", "label")
        .with_columns(polars.col("label").cast(label_type), polars.col("score").cast(score_type))
    )
    getattr(table, f"write_{ending}")(source)
    filtered(source, out, **long())
    reading = getattr(polars, f"read_{ending}")
    before, after = reading(source), reading(out)
    assert after["label"].cast(polars.String).to_list() == RESULT * 4
    np.testing.assert_allclose(after["score"].to_numpy(), EXPECTED.reshape(-1), rtol=1e-6)
    kept = before.filter(polars.col("label").cast(polars.String) != "bee").drop("label", "score")
    assert after.drop("label", "score").equals(kept)
    assert after.drop("label", "score").schema == kept.schema
    if ending == "parquet":
        assert after["score"].dtype == (polars.Float64 if score == "Decimal" else score_type)
        # An Enum lists the labels that it may have, and those are others now.
        assert after["label"].dtype == (polars.Categorical if label == "Enum" else label_type)


@pytest.mark.parametrize("kind", ["struct", "list", "array"])
def test_nested_columns_of_polars(polars, tmp_path, kind):
    source, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    if kind == "struct":
        cells = [dict(zip(NAMES, row, strict=True)) for row in ROWS.tolist()]
        table = polars.DataFrame({"id": IDS, "p": cells})
    else:
        cells = [
            [{"score": s, "label": n} for n, s in zip(NAMES, row, strict=True)]
            for row in ROWS.tolist()
        ]
        struct = polars.Struct({"score": polars.Float32, "label": polars.String})
        many = polars.List(struct) if kind == "list" else polars.Array(struct, 3)
        table = polars.DataFrame({"id": IDS, "p": cells}, schema={"id": polars.String, "p": many})
    table.write_parquet(source)
    filtered(source, out)
    after = polars.read_parquet(out)
    assert after["id"].to_list() == IDS
    found = after["p"].to_list()
    if kind != "struct":
        assert after["p"].dtype == polars.List(struct)
        assert [*found[0][0]] == ["score", "label"]
        found = [{entry["label"]: entry["score"] for entry in cell} for cell in found]
    assert [[*cell] for cell in found] == [RESULT] * 4
    np.testing.assert_allclose([[*cell.values()] for cell in found], EXPECTED, rtol=1e-6)
