"""Two plans compared."""

import json

from hypothesis import given

import doors
from plain_plan import OLD, changes_of
from unlabel import LabelPlan


@given(changes_of(OLD), changes_of(OLD))
def test_the_labels_that_differ_are_those_whose_destinations_do(a, b):
    found = LabelPlan(a).diff(LabelPlan(b))
    unlisted = object()
    different = {
        label for label in OLD if as_list(a.get(label, unlisted)) != as_list(b.get(label, unlisted))
    }
    assert {each.label for each in found.destinations} == different
    for each in found.destinations:
        assert (each.first is None) == (each.label not in a)
        assert (each.second is None) == (each.label not in b)
    retired = [[x for x in p if p[x] is None and q.get(x, 0) is None] for p, q in ((a, b), (b, a))]
    assert (found.retirement is not None) == (retired[0] != retired[1])
    assert bool(found) == (different != set() or retired[0] != retired[1])
    json.dumps(found.to_dict())


def as_list(destination):
    return list(destination.items()) if isinstance(destination, dict) else destination


def test_destinations_that_are_not_listed_and_labels_that_are_retired_are_told_apart():
    a = LabelPlan({"cat": None, "dog": {"x": 0.25, "y": 0.75}, "fox": None, "owl": "owl"})
    b = LabelPlan({"fox": None, "cat": None, "dog": ["x", "y"]}, unlisted="remove")
    assert str(a.diff(b)).split("\n") == [
        "label                 first plan          second plan",
        "'dog'                 0.25 'x', 0.75 'y'  'x', 'y' (without weights)",
        "'owl'                 'owl'               not listed",
        "retired in the order  'cat', 'fox'        'fox', 'cat'",
        "labels not listed     keep                retire",
    ]


def test_equal_plans_make_the_same_changes():
    plan = LabelPlan({1: "a", 2: {"x": 0.5, 3: 0.5}})
    assert not plan.diff(LabelPlan(plan.changes, title="another"))
    assert str(plan.diff(plan)) == "The plans make the same changes."


def test_long_cells_are_wrapped_within_80_columns():
    long = LabelPlan({f"a long label {i} " * 5: f"another long label {i} " * 5 for i in range(5)})
    assert max(map(len, str(long.diff(LabelPlan({}))).split("\n"))) <= 80
