"""Lists of allowed labels that differ from row to row."""

import json
from enum import Enum

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import doors
from unlabel import AllowLists, UnlabelError

pytestmark = pytest.mark.usefixtures("both_ways")

LABELS = ["ant", "bee", "cat", "dog", "emu", "fox"]
MASK = doors.mask(LABELS, ["fox"])
LISTS = {"north": ["ant", "bee"], "south": ["bee", "cat", "dog"], "zoo": ["emu"]}


class Region(str, Enum):  # noqa: UP042 (StrEnum has another text)
    NORTH = "north"


def restricted(row, allowed, scores="renormalised"):
    """Restrict one row, entry by entry."""
    kept = [entry if may else 0.0 for entry, may in zip(row, allowed, strict=True)]
    if scores == "absolute":
        return kept
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
    result = fitted.apply(rows, allow=AllowLists(lists).rows(names))
    np.testing.assert_array_equal(result == 0, np.array(expected) == 0)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-15)


@given(
    st.lists(st.sampled_from(["north", "south", "zoo"]), min_size=1, max_size=8),
    st.sampled_from(["renormalised", "absolute"]),
    st.sampled_from([np.float16, np.float32, np.float64]),
    st.sampled_from(["probabilities", "logits"]),
    st.integers(0, 2**32),
)
def test_lists_matrices_and_single_lists_agree_with_a_plain_loop(names, scores, dtype, kind, seed):
    logits = np.random.default_rng(seed).normal(scale=3, size=(len(names), 6))
    rows = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    rows = (logits if kind == "logits" else rows).astype(dtype)
    reference = np.random.default_rng(0).dirichlet(np.ones(6), 12)
    fitted = doors.with_kind(
        doors.fit(reference, ["fox"] * 12, classes=LABELS, remove=["fox"]), kind
    )
    filtered = fitted.apply(rows.astype(np.float64)).tolist()
    matrix = np.array([[label in LISTS[name] for label in LABELS[:5]] for name in names])
    expected = [restricted(row, may, scores) for row, may in zip(filtered, matrix, strict=True)]
    options = {"scores": scores}
    results = [
        fitted.apply(rows, allow=AllowLists(LISTS).rows(names), **options),
        fitted.apply(rows, allow=matrix, **options),
        *(fitted.apply(rows[i : i + 1], allow=LISTS[n], **options) for i, n in enumerate(names)),
    ]
    tolerance = {np.float16: 2e-3, np.float32: 1e-6, np.float64: 1e-14}[dtype]
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], np.vstack(results[2:]))
    assert results[0].dtype == dtype
    np.testing.assert_allclose(results[0], expected, rtol=0, atol=tolerance)
    kept = [sum(restricted(r, m, "absolute")) for r, m in zip(filtered, matrix, strict=True)]
    lost = 1 - np.array(kept)
    mass = doors.run(fitted, rows, allow=matrix).not_allowed
    np.testing.assert_allclose(mass, lost, rtol=0, atol=max(tolerance, 1e-12))


def test_a_row_whose_allowed_labels_hold_nothing_is_uniform_over_them():
    rows = [[0, 0, 0.5, 0.25, 0.25, 0]]
    np.testing.assert_array_equal(MASK.apply(rows, allow=["ant", "bee"]), [[0.5, 0.5, 0, 0, 0]])
    absolute = MASK.apply(rows, allow=["ant", "bee"], scores="absolute")
    np.testing.assert_array_equal(absolute, np.zeros((1, 5)))
    np.testing.assert_array_equal(doors.run(MASK, rows, allow=["ant", "bee"]).not_allowed, [1.0])


def test_lists_come_after_the_change_and_name_its_labels():
    fitted = doors.mask(LABELS, {"ant": "insect", "bee": "insect", "fox": None})
    result = fitted.apply([[0.1, 0.3, 0.2, 0.2, 0.1, 0.1]], allow=["insect", "cat"])
    np.testing.assert_allclose(result, [[2 / 3, 1 / 3, 0, 0]], rtol=1e-15)


def test_labels_that_the_plan_retired_are_counted_and_others_are_unmatched():
    lists = AllowLists({"a": ["ant", "fox", "cow"], "b": ["bea"]})
    matched = lists.matched(MASK.classes, MASK.removed, unmatched="ignore")
    assert (matched.unmatched, matched.retired) == (("cow", "bea"), 1)
    with pytest.raises(UnlabelError, match=r"not give 2 of the 4 .* 'bea', of which .* 'bee'"):
        MASK.apply([[0.5, 0.5, 0, 0, 0, 0]], allow=lists.rows(["a"]))
    ignoring = lists.rows(["a"], unmatched="ignore")
    np.testing.assert_array_equal(
        MASK.apply([[0.5, 0.5, 0, 0, 0, 0]], allow=ignoring), [[1, 0, 0, 0, 0]]
    )


def test_labels_of_the_same_text_are_not_told_apart_silently():
    fitted = doors.mask([1, "1", "a"], ["a"])
    with pytest.raises(UnlabelError, match="labels are the same text"):
        fitted.apply([[0.5, 0.25, 0.25]], allow=AllowLists({"x": ["1"]}).rows(["x"]))


def test_labels_of_lists_with_the_same_text_are_one_label():
    numbered = doors.mask([1, 2, 3, 4], [4])
    lists = AllowLists({"one": [1, 2], "other": ["1", "3"]})
    expected = [[True, True, False], [True, False, True]]
    assert lists.matched(numbered.classes).allowed.tolist() == expected


@pytest.mark.parametrize("given", [[1, 2, None], [1.0, 2.0, None], ["1", "2", ""], [1, "2", 7]])
def test_lists_are_named_by_texts_and_only_rows_without_one_are_free(given):
    lists = AllowLists({1: ["ant"], 2: ["bee"]})
    assert (1 in lists, lists["2"], lists.names) == (True, ("bee",), ("1", "2"))
    row = [0.4, 0.3, 0.1, 0.1, 0.1, 0.0]
    found = MASK.apply([row] * 3, allow=lists.rows(given, missing="all"))
    expected = [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], MASK.apply(row)]
    np.testing.assert_allclose(found, expected, rtol=1e-15)
    with pytest.raises(UnlabelError, match="Row 2 names"):
        MASK.apply([row] * 3, allow=lists.rows(given))


def test_lists_may_be_named_by_members_of_an_enumeration():
    lists = AllowLists({Region.NORTH: ["ant"]})
    assert (lists.names, Region.NORTH in lists, lists["north"]) == (("north",), True, ("ant",))
    row = np.full(6, 1 / 6)
    for names in (["north"], [Region.NORTH]):
        assert MASK.apply(row, allow=lists.rows(names)).tolist() == [1, 0, 0, 0, 0]


def test_allowed_labels_in_other_dimensions_than_the_rows_are_refused():
    rows = np.full((2, 3, 6), 1 / 6)
    allow = np.ones((3, 2, 5), dtype=bool)
    for call in (MASK.apply, MASK.not_allowed_mass):
        with pytest.raises(UnlabelError, match=r"shape \(3, 2, 5\), not \(2, 3, 5\)"):
            call(rows, allow=allow)
        assert len(call(rows, allow=allow.transpose(1, 0, 2))) == 2
        assert len(call(rows, allow=allow.reshape(6, 5))) == 2


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


def test_many_rows_far_from_their_lists_are_those_of_float64():
    fitted = doors.mask(["a", "b", "c", "d"], ["d"], kind="logits")
    rows = np.random.default_rng(0).normal(0, 2, (40_000, 4)).astype(np.float32)
    rows[:, 1:3] -= 100
    found = fitted.apply(rows, allow=["b", "c"])
    expected = fitted.apply(rows.astype(np.float64), allow=["b", "c"])
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_rows_without_a_list_may_be_allowed_everything():
    rows = np.tile([0.1, 0.2, 0.3, 0.2, 0.1, 0.1], (3, 1))
    names = ["zoo", None, "elsewhere"]
    with pytest.raises(UnlabelError, match="Row 1 names no list: the lists are 'north', 'south'"):
        MASK.apply(rows, allow=AllowLists(LISTS).rows(names))
    result = MASK.apply(rows, allow=AllowLists(LISTS).rows(names, missing="all"))
    np.testing.assert_array_equal(result[1:], MASK.apply(rows)[1:])
    np.testing.assert_array_equal(result[0], [0, 0, 0, 0, 1])


@pytest.mark.parametrize(
    ("allow", "words"),
    [
        (AllowLists(LISTS), "do not tell which one a row has: give allow=lists.rows"),
        (AllowLists(LISTS).rows(["north"]), "2 rows have 1 names of lists"),
        (AllowLists(LISTS).rows(["north", "nroth"]), "Row 1 names the unknown list 'nroth'"),
        (AllowLists({"none": ["fox"]}).rows(["none"] * 2), "'none' allows no label of the filter"),
        (np.ones((2, 6), dtype=bool), r"shape \(2, 6\), not \(2, 5\)"),
        (np.array([[True] * 5, [False] * 5]), "Row 1 is allowed no label"),
        (["ant", "ape"], "no label 'ape': the nearest is"),
        (["fox"], "allows none of the filter's labels"),
        ("ant", "is a string"),
    ],
)
def test_lists_that_cannot_be_used_get_one_sentence(allow, words):
    rows = np.full((2, 6), 1 / 6)
    with pytest.raises(UnlabelError, match=words):
        MASK.apply(rows, allow=allow)


@pytest.mark.parametrize(
    ("lists", "words"),
    [
        ([("north", ["ant"])], "The lists are a list: give a mapping"),
        ({"north": 5}, "The list 'north' is 5: give a list of labels"),
        ({"north": None}, "The list 'north' is None"),
        ({"north": [["ant"]]}, r"the list 'north' holds \['ant'\]: labels are"),
        ({"north": ["ant", "ant"]}, "'ant' appears twice in the list 'north'"),
        ({1: ["ant"], "1": ["bee"]}, "Two lists have the name '1'"),
    ],
)
def test_lists_that_cannot_be_made_get_one_sentence(lists, words):
    with pytest.raises(UnlabelError, match=words):
        AllowLists(lists)


def test_a_label_that_an_iterator_gives_twice_is_refused_too():
    with pytest.raises(UnlabelError, match="'ant' appears twice in the list 'north'"):
        AllowLists({"north": iter(["ant", "ant"])})


def test_the_literal_method_takes_no_lists():
    fitted = doors.fit(np.eye(3), [0, 1, 2], remove=[0], method="literal")
    with pytest.raises(UnlabelError, match="leave out `allow`"):
        fitted.apply(np.eye(3), allow=[1])


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
        lines = [
            "list" + sign + "note" + sign + "label",
            *(sign.join((a, "", b)) for a, b in pairs),
        ]
        (tmp_path / f"lists{ending}").write_text("\n".join(lines), encoding="utf-8-sig")
    (tmp_path / "lists.json").write_text(json.dumps(LISTS))
    for ending in (".csv", ".tsv", ".json"):
        lists = AllowLists.read(tmp_path / f"lists{ending}")
        assert {name: [*lists[name]] for name in lists.names} == LISTS
        assert len(lists) == 3
        assert "zoo" in lists
        assert "moon" not in lists
