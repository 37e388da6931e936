"""Nested columns that cannot be filtered: one sentence each, and nothing left behind."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import doors
from nested_cells import TEXT, cell, column, entry, map_of, struct_of
from unlabel import UnlabelError
from unlabel._tables.opening import open_predictions
from unlabel._tables.predictions import Reading
from unlabel._tables.rewriting import ApplyOptions
from unlabel._tables.streaming import apply_table

NAMES = ["ant", "bee", "cat", "emu"]
GOOD = {"ant": 0.25, "bee": 0.25, "cat": 0.25, "emu": 0.25}
MAP, LIST, STRUCT = map_of(TEXT), pa.list_(entry()), struct_of(NAMES)
MALFORMED = {
    "no label": (
        MAP,
        [[*GOOD.items()], [("ant", 1.0)]],
        "row 1: it does not name the label 'bee': give",
    ),
    "no map": (MAP, [[*GOOD.items()], None], "row 1: it does not name the label 'ant': give"),
    "twice": (
        MAP,
        [[*GOOD.items()], [*GOOD.items(), ("cat", 0.5)]],
        "row 1: it names the label 'cat' twice: give it one score.",
    ),
    "other label": (
        MAP,
        [[*GOOD.items()], [*GOOD.items(), ("cats", 0.5)]],
        "row 1: the model has no label 'cats': the nearest is 'cat'.",
    ),
    "no score": (
        MAP,
        [[*GOOD.items()], [("ant", None)]],
        "row 1: it has no score in column 'p': give it one.",
    ),
    "NaN": (
        LIST,
        [cell(GOOD, LIST), cell(GOOD | {"cat": np.nan}, LIST)],
        "row 1: it has no score in column 'p': give it one.",
    ),
    "no name": (
        LIST,
        [cell(GOOD, LIST), [{"label": None, "score": 1.0}]],
        "row 1: it has no label in column 'p': give it one.",
    ),
    "empty entry": (
        LIST,
        [cell(GOOD, LIST), [None]],
        "row 1: it has no label in column 'p': give it one.",
    ),
    "texts": (
        pa.list_(entry(number=TEXT)),
        [
            [{"label": name, "score": ".25"} for name in NAMES],
            [{"label": name, "score": "x"} for name in NAMES],
        ],
        "row 1: it has 'x' in column 'p': give a number.",
    ),
    "sum": (
        LIST,
        [cell(GOOD, LIST), cell(GOOD | {"cat": 0.5}, LIST)],
        "row 1: it is not a probability vector: it sums to 1.25",
    ),
    "empty field": (
        STRUCT,
        [GOOD, GOOD | {"cat": None}],
        "row 1: it is not a probability vector: the label 'cat' is NaN",
    ),
    "empty struct": (
        STRUCT,
        [GOOD, None],
        "row 1: it is not a probability vector: the label 'ant' is NaN",
    ),
    "no field": (
        struct_of(NAMES[:3]),
        [GOOD],
        "the column 'p' has no field for the label 'emu': give the confidences of all labels, or",
    ),
    "other field": (
        struct_of([*NAMES, "x"]),
        [GOOD],
        "the column 'p' has a field 'x', which is not among the labels 'ant', 'bee', 'cat', 'emu':",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_one_sentence_names_the_row(tmp_path, name):
    kind, cells, told = MALFORMED[name]
    source = tmp_path / "in.parquet"
    pa.parquet.write_table(pa.table({"p": pa.array(cells, kind)}), source)
    with pytest.raises(UnlabelError) as caught:
        apply_table(
            doors.mask(NAMES, {"bee": None}),
            source,
            tmp_path / "out.parquet",
            ApplyOptions(),
            lambda part: None,
        )
    assert str(caught.value).removeprefix(str(source))[2:].startswith(told)
    assert "\n" not in str(caught.value)
    assert os.listdir(tmp_path) == ["in.parquet"]


def test_several_candidates(tmp_path):
    cells = {"a": column([GOOD], MAP), "b": column([GOOD], LIST)}
    pa.parquet.write_table(pa.table(cells), tmp_path / "in.parquet")
    for classes in (NAMES, None):
        with pytest.raises(
            UnlabelError,
            match=r"may have confidences in each of the columns 'a', 'b': choose one",
        ):
            open_predictions(tmp_path / "in.parquet", classes, Reading())
    for name in cells:
        found = open_predictions(tmp_path / "in.parquet", None, Reading(list_column=name))
        assert found.classes == tuple(NAMES)


@pytest.mark.parametrize("cells", [[], None, [("ant", 0.5), ("ant", 0.5)]])
def test_labels_cannot_be_guessed(tmp_path, cells):
    pa.parquet.write_table(pa.table({"p": pa.array([cells], MAP)}), tmp_path / "in.parquet")
    with pytest.raises(
        UnlabelError, match=r"row 0 .*does not name the labels|row 0 .*appears twice"
    ):
        open_predictions(tmp_path / "in.parquet", None, Reading())
