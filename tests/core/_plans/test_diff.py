"""Two plans compared."""

import json

from hypothesis import given

from plain_plan import OLD, changes_of
from unlabel import LabelPlan


@given(changes_of(OLD), changes_of(OLD))
def test_the_labels_that_differ_are_those_whose_destinations_do(a, b):
    found = LabelPlan(a).diff(LabelPlan(b))
    pairs = {label: [as_list(plan.get(label, label)) for plan in (a, b)] for label in OLD}
    signs = {
        label: "-" if second == label else "+" if first == label else "~"
        for label, (first, second) in pairs.items()
        if first != second
    }
    by_sign = {"-": found.dropped, "~": found.changed, "+": found.added}
    assert {each[0]: sign for sign, listed in by_sign.items() for each in listed} == signs
    gone = [[x for x in p if p[x] is None and q.get(x, x) is None] for p, q in ((a, b), (b, a))]
    assert (found.order is not None) == (gone[0] != gone[1])
    assert bool(found) == (signs != {} or gone[0] != gone[1])
    json.dumps(found.to_dict())


def as_list(destination):
    return list(destination.items()) if isinstance(destination, dict) else destination


def test_a_diff_shows_what_is_dropped_changed_and_added():
    a = LabelPlan({"cat": None, "dog": {"x": 0.25, "y": 0.75}, "fox": None, "owl": "bird"})
    b = LabelPlan({"fox": None, "cat": None, "dog": ["x", "y"], "elk": "deer"}, unlisted="error")
    assert str(a.diff(b)).split("\n") == [
        "- 'owl'              'bird'",
        "~ 'dog'              0.25 'x', 0.75 'y' -> 'x', 'y' (without weights)",
        "+ 'elk'              'deer'",
        "~ order of removal   ('cat', 'fox') -> ('fox', 'cat')",
        "~ labels not listed  keep -> error",
        "1 dropped, 1 changed, 1 added.",
    ]


def test_labels_are_told_apart_by_text_and_those_not_listed_go_as_the_plan_says():
    assert not LabelPlan({1: "2"}).diff(LabelPlan({"1": 2}))
    found = LabelPlan({"cat": "dog"}).diff(LabelPlan({}, unlisted="remove"))
    assert found.changed == (("cat", (("dog", 1.0),), ()),)
    assert found.unlisted == ("keep", "remove")


def test_equal_plans_make_the_same_changes():
    plan = LabelPlan({1: "a", 2: {"x": 0.5, 3: 0.5}})
    assert not plan.diff(LabelPlan(plan.changes, title="another"))
    assert str(plan.diff(plan)) == "The plans make the same changes."


def test_long_cells_are_wrapped_within_80_columns():
    long = LabelPlan({f"a long label {i} " * 2: f"another long label {i} " * 5 for i in range(5)})
    assert max(map(len, str(long.diff(LabelPlan({}))).split("\n"))) <= 80
