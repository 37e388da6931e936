"""Plans compared with the labels of a model."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import doors
from plain_plan import OLD, changes_of
from unlabel import LabelPlan, UnlabelError

LABELS = ["cat", "dog", "lynx", "puma", "other", "colour"]


def plain_kinds(labels, changes):
    """Sort labels into kinds by looking at all pairs of a label and a destination."""
    pairs = []
    for label in labels:
        to = changes.get(label, label)
        if to is not None:
            pairs += [(label, each) for each in (to if isinstance(to, dict) else [to])]
    kinds = {"unchanged": [], "renamed": [], "merged": [], "split": [], "removed": []}
    for label in labels:
        to = [there for here, there in pairs if here == label]
        others = [here for here, there in pairs if here != label and there in to]
        if not to:
            kinds["removed"].append(label)
        elif len(to) > 1:
            kinds["split"].append(label)
        elif others:
            kinds["merged"].append(label)
        elif to == [label]:
            kinds["unchanged"].append(label)
        else:
            kinds["renamed"].append(label)
    result = list(dict.fromkeys(there for _, there in pairs))
    kinds["other_meaning"] = [
        label
        for label in result
        if label in labels and [p for p in pairs if label in p] != [(label, label)]
    ]
    kinds["result"] = result
    return kinds


@given(changes_of(OLD))
def test_every_label_is_of_the_kind_that_all_pairs_say(changes):
    check = LabelPlan(changes).check(OLD)
    kinds = plain_kinds(OLD, changes)
    assert list(check.unchanged) == kinds["unchanged"]
    for name in ("renamed", "merged", "split"):
        assert [label for label, _ in getattr(check, name)] == kinds[name]
    assert sorted(check.removed) == sorted(kinds["removed"])
    assert list(check.result) == kinds["result"]
    assert list(check.other_meaning) == kinds["other_meaning"]
    assert check.result == doors.mask(OLD, changes).classes_out
    assert check.problems == ()
    assert str(check).endswith("remain.") or len(check.result) == 1


@given(
    changes_of([*OLD, "unknown"]),
    st.sampled_from(["keep", "error", "remove"]),
    st.booleans(),
)
def test_the_first_problem_is_the_sentence_that_a_fit_refuses_the_plan_with(
    changes, unlisted, weights
):
    if not weights:
        changes = {label: [*to] if isinstance(to, dict) else to for label, to in changes.items()}
    plan = LabelPlan(changes, unlisted=unlisted)
    check = plan.check(OLD)
    if check.problems:
        assert "The plan cannot be fitted:" in str(check)
        with pytest.raises(UnlabelError) as refusal:
            doors.mask(OLD, plan)
        assert str(refusal.value) == check.problems[0]
    else:
        doors.mask(OLD, plan)
    json.dumps(check.to_dict())


def test_everything_is_reported_at_once():
    plan = LabelPlan(
        {
            "cat": "dog",
            "lynx": ["Other", "wild"],
            "pumma": None,
            "colour": "color",
            "puma": "puma",
        },
        unlisted="error",
    )
    check = plan.check(LABELS)
    assert check.unchanged == ("puma", "other")
    assert check.renamed == (("colour", "color"),)
    assert check.merged == (("cat", "dog"), ("dog", "dog"))
    assert check.merged_into == (("dog", ("cat", "dog")),)
    assert check.split == (("lynx", ("Other", "wild")),)
    assert check.removed == ()
    assert check.unlisted == ("dog", "other")
    assert check.unknown == (("pumma", "puma"),)
    assert check.misspelt == (("Other", "other"),)
    assert check.other_meaning == ("dog",)
    assert check.result == ("dog", "Other", "wild", "puma", "other", "color")
    assert check.problems == (
        "The model has no label 'pumma': the nearest is 'puma'.",
        "The plan does not list 'dog', 'other': list all labels.",
        "The plan splits 'lynx' without weights: give each part a weight.",
    )


def test_the_table_is_plain_text_within_80_columns():
    labels = [f"a label with a rather long name, number {i}" for i in range(30)]
    plan = LabelPlan(dict.fromkeys(labels[:20], "x\x1b[2J\n") | {labels[21]: ["a" * 300, "b"]})
    text = str(plan.check(labels))
    lines = text.split("\n")
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("unchanged    9  'a label with a rather")
    assert r"into 1: 'x\x1b[2J\n'" in text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("Colour", "colour"),
        ("col our", "colour"),
        ("col-our!", "colour"),
        ("colou", "colour"),
        ("colours", "colour"),
        ("coluor", "colour"),
        ("colomr", "colour"),
        ("Cat", "cat"),
        ("layer 2a", "layer 2"),
        ("e\u0301le\u0300ve", "\u00e9l\u00e8ve"),
        ("\uff43\uff41\uff54", "cat"),
    ],
)
def test_new_labels_that_look_like_an_old_one_are_reported(new, old):
    labels = ["dog", "cat", "colour", "layer 2", "C++", "\u00e9l\u00e8ve"]
    check = LabelPlan({"dog": new}).check(labels)
    assert check.misspelt == ((new, old),)


@pytest.mark.parametrize("new", ["cot", "coal", "layer 3", "layer2 2", "c", "C#", "uolocr", "?"])
def test_labels_that_differ_by_more_or_in_a_digit_are_not(new):
    check = LabelPlan({"dog": new}).check(["dog", "cat", "colour", "layer 2", "C++"])
    assert check.misspelt == ()


def test_a_label_that_is_renamed_is_not_misspelt():
    check = LabelPlan({"colour": "color", "dog": "color"}).check(["dog", "colour"])
    assert check.misspelt == ()


def test_so_many_unknown_labels_are_compared_as_there_is_time_for():
    labels = ["dog", "puma", *(f"number {number}" for number in range(9_998))]
    unknown = ["dgo", "xyz dog", "bird", "pummas", "pumas", "doog"]
    nearest = ["dog", None, None, "puma", "puma", None]
    assert LabelPlan(unknown).check(labels).unknown == tuple(zip(unknown, nearest, strict=True))


def test_texts_in_a_plan_are_the_labels_that_are_written_like_them():
    check = LabelPlan({"1": "2", "3": None}).check([1, 2, 3])
    assert check.merged == ((1, 2), (2, 2))
    assert check.removed == (3,)


def test_an_id2label_mapping_will_do():
    assert LabelPlan(["cat"]).check({0: "cat", 1: "dog"}).result == ("dog",)


def test_parts_that_can_never_be_the_top_answer_are_named():
    plan = LabelPlan(
        {"a": {"x": 0.5, "y": 0.3, "z": 0.2}, "b": {"p": 0.5, "q": 0.5}, "c": {"x": 0.2, "r": 0.8}}
    )
    check = plan.check([*"abcd"])
    assert check.never_answers == (("a", ("y", "z")), ("b", ("q",)))
    rows = np.random.default_rng(0).dirichlet(np.ones(4), 2000)
    fitted = doors.mask([*"abcd"], plan)
    answers = {fitted.classes_out[at] for at in fitted.apply(rows).argmax(axis=1)}
    assert {*check.result} - answers == {"y", "z", "q"}
    assert "compete one by one" in str(check)
    assert "compete" not in str(LabelPlan({"a": "b"}).check([*"ab"]))
