"""Lists as objects, rows without a list, and listed labels that the filter lacks."""

from enum import Enum

import numpy as np
import pytest

import doors
from unlabel import AllowLists, UnlabelError

pytestmark = pytest.mark.usefixtures("both_ways")

LABELS = ["ant", "bee", "cat", "dog", "emu", "fox"]
MASK = doors.mask(LABELS, ["fox"])
LISTS = {"north": ["ant", "bee"], "south": ["bee", "cat", "dog"], "zoo": ["emu"]}


class Region(str, Enum):  # noqa: UP042 (StrEnum has another text)
    NORTH = "north"


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


def test_rows_without_a_list_may_be_allowed_everything():
    rows = np.tile([0.1, 0.2, 0.3, 0.2, 0.1, 0.1], (3, 1))
    names = ["zoo", None, "elsewhere"]
    with pytest.raises(UnlabelError, match="Row 1 names no list: the lists are 'north', 'south'"):
        MASK.apply(rows, allow=AllowLists(LISTS).rows(names))
    result = MASK.apply(rows, allow=AllowLists(LISTS).rows(names, missing="all"))
    np.testing.assert_array_equal(result[1:], MASK.apply(rows)[1:])
    np.testing.assert_array_equal(result[0], [0, 0, 0, 0, 1])


def test_the_literal_method_takes_no_lists():
    fitted = doors.fit(np.eye(3), [0, 1, 2], remove=[0], method="literal")
    with pytest.raises(UnlabelError, match="leave out `allow`"):
        fitted.apply(np.eye(3), allow=[1])


def test_lists_know_their_names_and_labels():
    lists = AllowLists(LISTS)
    assert {name: [*lists[name]] for name in lists.names} == LISTS
    assert (len(lists), "zoo" in lists, "moon" in lists) == (3, True, False)
    with pytest.raises(UnlabelError, match="do not tell which one a row has"):
        MASK.apply(np.full((2, 6), 1 / 6), allow=lists)


def test_a_label_that_an_iterator_gives_twice_is_refused_too():
    with pytest.raises(UnlabelError, match="'ant' appears twice in the list 'north'"):
        AllowLists({"north": iter(["ant", "ant"])})


@pytest.mark.parametrize("shape", [(6,), (4, 5, 6)])
def test_absolute_scores_are_those_of_the_allowed_labels_as_they_are(shape):
    rows = np.random.default_rng(0).dirichlet(np.ones(6), shape[:-1])
    allow = np.random.default_rng(2).random((*shape[:-1], 5)) < 0.5
    allow[..., 0] |= ~allow.any(axis=-1)
    found = MASK.apply(rows, allow=allow, scores="absolute")
    np.testing.assert_allclose(found, np.where(allow, MASK.apply(rows), 0), rtol=1e-15)
