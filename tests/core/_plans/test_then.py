"""Two plans as one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import doors
from plain_plan import OLD, changes_of
from unlabel import LabelPlan, UnlabelError


def through_both(label, first, second):
    """Follow a label through two plans, part by part; None stands for a part that is removed."""
    ends = []
    for between in parts(first.get(label, label)):
        ends += [None] if between is None else parts(second.get(between, between))
    return ends


def parts(destination):
    return [*destination] if isinstance(destination, dict) else [destination]


@given(st.data())
def test_composing_is_applying_one_after_the_other(data):
    changes = data.draw(changes_of(OLD))
    one = doors.mask(OLD, changes)
    more = data.draw(changes_of([*one.classes_out]))
    first, second = LabelPlan(changes), LabelPlan(more)
    ends = {label: through_both(label, changes, more) for label in OLD}
    gone = {label for label in OLD if set(ends[label]) == {None}}
    refused = None
    if any(None in ends[label] and isinstance(changes.get(label), dict) for label in OLD):
        refused = "and the second removes .*: one plan cannot remove a part"
    elif gone & {to for label in OLD for to in ends[label]}:
        refused = "^The two plans cannot be one: the plan sends"
    if refused:
        with pytest.raises(UnlabelError, match=refused):
            first.then(second, classes=OLD)
        return
    both = doors.mask(OLD, first.then(second, classes=OLD))
    other = doors.mask(one.classes_out, second)
    rows = np.random.default_rng(0).dirichlet(np.ones(len(OLD)), 3)
    assert both.classes_out == other.classes_out
    np.testing.assert_allclose(both.apply(rows), other.apply(one.apply(rows)), atol=1e-12)


def test_weights_multiply_and_add_up_and_a_single_part_is_a_plain_destination():
    first = LabelPlan({"a": {"x": 0.5, "y": 0.5}, "b": {"x": 0.25, "z": 0.75}})
    second = LabelPlan({"x": {"p": 0.5, "q": 0.5}, "y": "p", "z": {"p": 0.5, "q": 0.5}})
    plan = first.then(second, classes=["a", "b", "c"])
    assert plan.changes == {"a": {"p": 0.75, "q": 0.25}, "b": {"p": 0.5, "q": 0.5}}
    assert first.then(LabelPlan({"y": "x"}), classes=["a", "b"]).changes["a"] == "x"


def test_labels_are_removed_by_the_first_plan_and_then_by_the_second():
    first = LabelPlan({"e": None, "a": "m", "d": "m", "b": None})
    second = LabelPlan({"f": None, "m": None, "c": "x"})
    changes = first.then(second, classes=[*"abcdefg"]).changes
    assert [label for label, to in changes.items() if to is None] == ["e", "b", "f", "a", "d"]
    assert {label: to for label, to in changes.items() if to is not None} == {"c": "x"}


def test_rules_for_unlisted_labels_are_resolved():
    first = LabelPlan({"a": "x"}, unlisted="error")
    second = LabelPlan({"x": "y"}, unlisted="remove")
    assert first.then(second, classes=["a"]).unlisted == "keep"
    plan = LabelPlan({"a": "x"}).then(second, classes=["a", "b"])
    assert plan.changes == {"b": None, "a": "y"}
    assert plan.unlisted == "keep"


def test_without_labels_the_result_is_for_the_labels_that_the_first_plan_lists_and_no_others():
    plan = LabelPlan({"a": "b"}).then(LabelPlan({"b": "c"}))
    assert plan.changes == {"a": "c"}
    with pytest.raises(UnlabelError, match="does not list 'b'"):
        doors.mask(["a", "b"], plan)


def test_titles_and_notes_are_joined():
    first, second = LabelPlan({}, title="one", note="n"), LabelPlan({}, title="two")
    plan = first.then(second, classes=["a"])
    assert (plan.title, plan.note) == ("one; two", "n")


@pytest.mark.parametrize(
    ("first", "second", "sentence"),
    [
        (
            {"a": {"x": 0.5, "y": 0.5}},
            ["y"],
            "The first plan sends a part of 'a' to 'y', and the second removes 'y': ",
        ),
        (
            {"a": ["x", "y"]},
            [],
            "^The first plan: the plan splits 'a' without weights",
        ),
        (
            {"a": "z"},
            {"z": ["x", "y"]},
            "^The second plan: the plan splits 'z' without weights",
        ),
        (
            {"a": "colour"},
            {"color": "x"},
            "^The second plan: the first plan's result has no label 'color': the nearest is ",
        ),
        ({"c": None}, [], "^The first plan: the model has no label 'c'"),
        (["a"], ["b"], "^The second plan: all 1 labels"),
        (
            ["a"],
            {"b": "a"},
            "^The two plans cannot be one: the plan sends 'b' to 'a'",
        ),
    ],
)
def test_plans_that_cannot_be_composed_are_refused(first, second, sentence):
    with pytest.raises(UnlabelError, match=sentence):
        LabelPlan(first).then(LabelPlan(second), classes=["a", "b"])
