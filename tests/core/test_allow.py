"""Lists of allowed labels that differ from row to row."""

import json
from enum import Enum

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import doors
from unlabel import UnlabelError

pytestmark = pytest.mark.usefixtures("both_ways")


class Region(str, Enum):  # noqa: UP042 (StrEnum has another text)
    NORTH = "north"


LABELS = ["ant", "bee", "cat", "dog", "emu", "fox"]
MASK = doors.mask(LABELS, ["fox"])
LISTS = {"north": ["ant", "bee"], "south": ["bee", "cat", "dog"], "zoo": ["emu"]}


def restricted(row, allowed):
    """Restrict one row, entry by entry."""
    kept = [entry if may else 0.0 for entry, may in zip(row, allowed, strict=True)]
    if sum(kept) == 0:
        return [1 / sum(allowed) if may else 0.0 for may in allowed]
    return [entry / sum(kept) for entry in kept]


def test_a_plain_loop_agrees_on_many_rows_and_lists():
    rng = np.random.default_rng(0)
    n, n_lists, n_rows = 12, 500, 100_000
    labels = [f"label {number}" for number in range(n)]
    fitted = doors.mask(labels, labels[:2])
    sizes = rng.integers(1, n - 1, size=n_lists).tolist()
    lists = {
        f"list {k}": rng.permutation(labels[2:])[:size].tolist() for k, size in enumerate(sizes)
    }
    rows = rng.dirichlet(np.full(n, 0.2), n_rows)
    rows[::7, 5:] = 0.0
    rows[::7] /= rows[::7].sum(axis=1, keepdims=True)
    names = [f"list {k}" for k in rng.integers(n_lists, size=n_rows)]
    may_have = {name: [label in each for label in labels[2:]] for name, each in lists.items()}
    plain_rows = fitted.apply(rows).tolist()
    expected = [
        restricted(row, may_have[name]) for row, name in zip(plain_rows, names, strict=True)
    ]
    result = doors.apply(fitted, rows, allow=lists, allow_by=names)
    np.testing.assert_array_equal(result == 0, np.array(expected) == 0)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-15)


@given(
    st.lists(st.sampled_from(["north", "south", "zoo"]), min_size=1, max_size=8),
    st.sampled_from([np.float16, np.float32, np.float64]),
    st.sampled_from(["probabilities", "logits"]),
    st.integers(0, 2**32),
)
def test_lists_matrices_and_single_lists_agree_with_a_plain_loop(names, dtype, kind, seed):
    logits = np.random.default_rng(seed).normal(scale=3, size=(len(names), 6))
    rows = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    rows = (logits if kind == "logits" else rows).astype(dtype)
    reference = np.random.default_rng(0).dirichlet(np.ones(6), 12)
    fitted = doors.fit(reference, ["fox"] * 12, classes=LABELS, remove=["fox"])
    fitted = doors.with_kind(fitted, kind)
    filtered = fitted.apply(rows.astype(np.float64)).tolist()
    matrix = np.array([[label in LISTS[name] for label in LABELS[:5]] for name in names])
    expected = [restricted(row, may) for row, may in zip(filtered, matrix, strict=True)]
    result, _, lost = doors.run(fitted, rows, allow=LISTS, allow_by=names)
    np.testing.assert_array_equal(result, doors.apply(fitted, rows, allow=matrix))
    singles = [
        doors.apply(fitted, row, allow=LISTS[name]) for row, name in zip(rows, names, strict=True)
    ]
    np.testing.assert_array_equal(result, singles)
    tolerance = {np.float16: 2e-3, np.float32: 1e-6, np.float64: 1e-14}[dtype]
    assert result.dtype == dtype
    np.testing.assert_allclose(result, expected, rtol=0, atol=tolerance)
    kept = np.where(matrix, filtered, 0).sum(axis=1)
    np.testing.assert_allclose(lost, 1 - kept, rtol=0, atol=max(tolerance, 1e-12))


def test_a_row_whose_allowed_labels_hold_nothing_is_uniform_over_them():
    rows = [[0, 0, 0.5, 0.25, 0.25, 0]]
    np.testing.assert_array_equal(MASK.apply(rows, allow=["ant", "bee"]), [[0.5, 0.5, 0, 0, 0]])
    np.testing.assert_array_equal(doors.run(MASK, rows, allow=["ant", "bee"]).not_allowed, [1.0])


@pytest.mark.parametrize("n", [3, 40])
def test_what_counts_as_nothing_is_nothing_in_rows_and_answers(n):
    fitted = doors.mask(range(n), [])
    row = np.zeros(n)
    row[:2] = 1.0, 1e-300
    found = fitted.run(row, allow=[1, 2])
    np.testing.assert_array_equal(found.confidences[:3], [0, 0.5, 0.5])
    assert found.not_allowed == 1
    assert fitted.answer(row, allow=[1, 2]).item() is None


def test_lists_come_after_the_change_and_name_its_labels():
    fitted = doors.mask(LABELS, {"ant": "insect", "bee": "insect", "fox": None})
    result = fitted.apply([[0.1, 0.3, 0.2, 0.2, 0.1, 0.1]], allow=["insect", "cat"])
    np.testing.assert_allclose(result, [[2 / 3, 1 / 3, 0, 0]], rtol=1e-15)


def test_listed_labels_are_matched_by_text_and_lists_are_named_by_texts():
    numbered = doors.mask([1, 2, "x"], {})
    row = [0.4, 0.3, 0.3]
    lists = {1: ["1", 2], 2: np.array([1, 2]), "3": {"x", 1}, Region.NORTH: ["2"]}
    for names, expected in (
        (
            [1, 2.0, "3", "north"],
            [[4 / 7, 3 / 7, 0], [4 / 7, 3 / 7, 0], [4 / 7, 0, 3 / 7], [0, 1, 0]],
        ),
        (np.array(["1", "2"]), [[4 / 7, 3 / 7, 0]] * 2),
        ([Region.NORTH], [[0, 1, 0]]),
    ):
        found = numbered.apply([row] * len(names), allow=lists, allow_by=names)
        np.testing.assert_allclose(found, expected, rtol=1e-15)


@pytest.mark.parametrize("lead", [20, 88, 100, 300])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_allowed_labels_far_below_the_others_keep_their_ratio(lead, dtype):
    fitted = doors.mask(["a", "b", "c", "d"], ["d"], kind="logits")
    row = np.array([[0, -lead, -lead - 2, 1], [1, 0, 1, 0]], dtype=dtype)
    found = fitted.apply(row, allow=["b", "c"])
    expected = fitted.apply(row.astype(np.float64), allow=["b", "c"])
    np.testing.assert_allclose(found, expected, rtol=2 * np.finfo(dtype).eps)
    ratio = 1 / (1 + np.exp(row[0, 2].astype(float) - row[0, 1]))
    assert found[0, 1] == pytest.approx(ratio, rel=2e-3)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_allowed_labels_keep_their_ratio_at_a_low_temperature(dtype):
    fitted = doors.at_temperature(doors.mask(["a", "b", "c", "d"], ["d"]), 1 / 16)
    row = np.array([1, 2**-10, 0.75 * 2**-10, 0], dtype=dtype)  # their powers are below 2**-159
    found = fitted.run(row, allow=["b", "c"])
    expected = [0, 1 / (1 + 0.75**16), 0.75**16 / (1 + 0.75**16)]
    np.testing.assert_allclose(found.confidences, expected, rtol=2 * np.finfo(dtype).eps)
    assert fitted.answer(row[[0, 2, 1, 3]], allow=["b", "c"]).item() == "c"


def test_many_rows_far_from_their_lists_are_those_of_float64():
    fitted = doors.mask(["a", "b", "c", "d"], ["d"], kind="logits")
    rows = np.random.default_rng(0).normal(0, 2, (40_000, 4)).astype(np.float32)
    rows[:, 1:3] -= 100
    found = fitted.apply(rows, allow=["b", "c"])
    expected = fitted.apply(rows.astype(np.float64), allow=["b", "c"])
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("allow", "by", "words"),
    [
        (LISTS, ["north"], "2 rows have 1 names of lists"),
        (LISTS, ["north", "nroth"], "Row 1: it names the unknown list 'nroth'"),
        (LISTS, ["north", None], "Row 1: it names no list: the lists are 'north', 'south', 'zoo'"),
        (LISTS, ["north", float("nan")], "Row 1: it names no list"),
        (LISTS, None, "The lists have names: give the name of each row's list"),
        (["ant"], ["north"] * 2, "The allowed labels have no names"),
        (None, ["north"] * 2, "given as NoneType"),
        ({}, ["north"] * 2, "There is no list"),
        ({"": ["ant"]}, [""] * 2, "without a name of its own"),
        ({"none": ["fox"]}, ["none"] * 2, "changes allowed labels: 'fox' is now removed"),
        ({"a": ["ant", "cow"], "b": ["bea"]}, ["a"] * 2, "result has no label 'cow'"),
        ([("north", ["ant"])], None, "neither a string nor"),
        ({"north": 5}, ["north"] * 2, "The list 'north': the labels are given as int"),
        ({"north": None}, ["north"] * 2, "The list 'north': the labels are given as None"),
        ({"north": []}, ["north"] * 2, "The list 'north': no label is allowed"),
        ({"north": [["ant"]]}, ["north"] * 2, r"The list 'north': the label \['ant'\] is neither"),
        (
            {"north": ["ant", "ant"]},
            ["north"] * 2,
            "The list 'north': the label 'ant' appears twice",
        ),
        ({1: ["ant"], "1": ["bee"]}, ["1"] * 2, "without a name of its own"),
        (np.ones((2, 6), dtype=bool), None, r"shape \(2, 6\): give the result's shape, \(2, 5\)"),
        (np.array([[True] * 5, [False] * 5]), None, "Row 1: no label is allowed"),
        (["bea"], None, "has no label 'bea': the nearest is 'bee'"),
        ([], None, "No label is allowed"),
        (np.ones((2, 5), dtype=bool), ["north"] * 2, "The allowed labels have no names"),
    ],
)
def test_what_cannot_be_allowed_gets_one_sentence(allow, by, words):
    with pytest.raises(UnlabelError, match=words):
        doors.apply(MASK, np.full((2, 6), 1 / 6), allow=allow, allow_by=by)


def test_allowed_labels_in_other_dimensions_than_the_rows_are_refused():
    rows, allow = np.full((2, 3, 6), 1 / 6), np.ones((3, 2, 5), dtype=bool)
    with pytest.raises(UnlabelError, match=r"shape \(3, 2, 5\): give .* \(2, 3, 5\)"):
        doors.apply(MASK, rows, allow=allow)
    assert doors.apply(MASK, rows, allow=allow.transpose(1, 0, 2)).shape == (2, 3, 5)


# Any shape


@pytest.mark.parametrize("shape", [(6,), (1, 6), (4, 5, 6), (2, 0, 6), (2, 3, 1, 6)])
def test_rows_of_any_shape(shape):
    rows = np.random.default_rng(0).dirichlet(np.ones(6), int(np.prod(shape[:-1])))
    expected = MASK.apply(rows.reshape(-1, 6)).reshape(*shape[:-1], 5)
    np.testing.assert_array_equal(MASK.apply(rows.reshape(shape)), expected)
    mass = doors.run(MASK, rows.reshape(shape)).removed_mass
    np.testing.assert_array_equal(mass, doors.run(MASK, rows).removed_mass.reshape(shape[:-1]))
    allowed = np.ones((*shape[:-1], 5), dtype=bool)
    not_allowed = doors.run(MASK, rows.reshape(shape), allow=allowed).not_allowed
    np.testing.assert_array_equal(not_allowed, np.zeros(shape[:-1]))
    np.testing.assert_allclose(MASK.apply(rows.reshape(shape), allow=allowed), expected, rtol=1e-15)


# Files


def test_lists_are_read_from_csv_tsv_and_json(tmp_path):
    pairs = [(name, label) for name, labels in LISTS.items() for label in labels]
    for ending, sign in ((".csv", ","), (".tsv", "\t")):
        cells = [("list", "note", "label"), *((name, "", label) for name, label in pairs)]
        lines = [sign.join(line) for line in cells]
        (tmp_path / f"lists{ending}").write_text("\n".join(lines), encoding="utf-8-sig")
    (tmp_path / "lists.json").write_text(json.dumps(LISTS))
    rows, names = np.full((3, 6), 1 / 6), [*LISTS]
    expected = doors.apply(MASK, rows, allow=LISTS, allow_by=names)
    for ending in (".csv", ".tsv", ".json"):
        found = doors.apply(MASK, rows, allow=tmp_path / f"lists{ending}", allow_by=names)
        np.testing.assert_array_equal(found, expected)
    (tmp_path / "one.json").write_text('["ant", "bee"]')
    found = doors.apply(MASK, rows, allow=tmp_path / "one.json")
    np.testing.assert_array_equal(found, doors.apply(MASK, rows, allow=["ant", "bee"]))
