"""Destinations, and what becomes of a model's labels."""

import pickle

import numpy as np
import pytest

import doors
from unlabel import LabelPlan, OutputFilter, UnlabelError


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"a": "b", "b": "a"}, {"b": 0.5, "a": 0.25, "c": 0.25}),
        ({"a": "b", "b": "c", "c": "a"}, {"b": 0.5, "c": 0.25, "a": 0.25}),
        ({"a": "b", "b": "c"}, {"b": 0.5, "c": 0.5}),
        ({"a": "b"}, {"b": 0.75, "c": 0.25}),  # a sum, and never a maximum
        ({"a": "x", "c": "x"}, {"x": 0.75, "b": 0.25}),
    ],
)
def test_destinations_are_of_the_old_labels_all_at_once_and_merging_is_a_sum(changes, expected):
    fitted = doors.mask(["a", "b", "c"], changes)
    result = fitted.apply([0.5, 0.25, 0.25]).tolist()
    assert dict(zip(fitted.classes_out, result, strict=True)) == expected


def test_labels_stand_where_the_first_that_goes_there_stood_and_parts_in_their_order():
    plan = LabelPlan({"d": "b", "c": {"z": 0.5, "b": 0.25, "y": 0.25}, "a": None})
    assert plan.check(["a", "b", "c", "d", "e"]).result == ("b", "z", "y", "e")


def test_labels_are_removed_in_the_order_given_and_then_those_that_are_not_listed():
    plan = LabelPlan({"d": None, "b": "x", "a": None}, unlisted="remove")
    assert doors.mask([*"abcde"], plan).removed == ("d", "a", "c", "e")


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        (LabelPlan({"a": None, "x": "b"}), "The model has no label 'x'"),
        (LabelPlan({"a": "x"}, unlisted="error"), "The plan does not list 'b', 'c'"),
        (LabelPlan({"a": "b"}, unlisted="remove"), "sends 'a' to 'b' and removes"),
        (LabelPlan(["a", "b", "c"]), "All 3 labels"),
        (LabelPlan({}, unlisted="remove"), "All 3 labels"),
        (LabelPlan({"a": ["b", "x"]}), "splits 'a' without weights"),
    ],
)
def test_plans_that_do_not_fit_a_model_are_refused_when_they_meet_it(plan, sentence):
    with pytest.raises(UnlabelError, match=sentence):
        doors.mask(["a", "b", "c"], plan)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"a": None, "b": "a"}, "sends 'b' to 'a' and removes"),
        ({"a": {"x": 0.5, "a": 0.5}, "x": None}, "sends 'a' to 'x' and removes"),
        (
            {"a": {"x": 0.5, "y": 0.4}},
            r"destination of 'a': the weights sum to 0\.9: make them sum to 1 \(changes=\)",
        ),
        ({"a": {"x": 0.5, "y": -0.5}}, "the weight of 'y' is -0.5"),
        ({"a": {"x": float("nan"), "y": 0.5}}, "the weight of 'x' is nan"),
        ({"a": {"x": True}}, "the weight of 'x' is True"),
        ({"a": []}, "it is empty: to remove"),
        ({"a": ["x", "x"]}, "the label 'x' appears twice"),
        ({"a": float("inf")}, "The destination of 'a': the label inf is neither"),
        ({"a": [("x", 0.5, 1)]}, r"the label \('x', 0.5, 1\) is neither"),
    ],
)
def test_destinations_that_cannot_be_are_refused_at_once(changes, sentence):
    with pytest.raises(UnlabelError, match=sentence):
        LabelPlan(changes)


def test_weights_may_miss_a_sum_of_1_by_rounding_alone():
    plan = LabelPlan({"a": {"x": 0.3333333, "y": 0.3333333, "z": 0.3333333}})
    result = doors.mask(["a"], plan).apply([[1.0]])
    np.testing.assert_allclose(result, [[1 / 3, 1 / 3, 1 / 3]], rtol=1e-15)


def test_a_single_weight_is_1(tmp_path):
    fitted = doors.mask(["a", "b"], {"a": {"x": 0.999999}})
    assert fitted.plan == LabelPlan({"a": "x"})
    fitted.save(tmp_path / "filter")
    assert OutputFilter.load(tmp_path / "filter") == fitted


@pytest.mark.parametrize("number", [np.float32, np.float16, np.int64])
def test_weights_may_be_numbers_of_numpy(number):
    weights = {"x": number(1)} if number is np.int64 else {"x": number(0.5), "y": number(0.5)}
    plan = LabelPlan({"a": weights})
    assert plan == LabelPlan({"a": {label: float(weight) for label, weight in weights.items()}})


def test_a_plan_is_matched_to_a_model_by_text():
    plan = LabelPlan({"8": 10, 3: "x", "5": None})
    fitted = doors.mask([3, 5, 8, 9], plan)
    assert fitted.classes_out == ("x", 10, 9)
    assert fitted.plan.changes == {8: 10, 3: "x", 5: None}
    assert doors.mask(["3", "5", "8"], plan).classes_out == ("x", 10)
    assert doors.mask([3, 5, 8], {"8": "10", 3: "012", 5: "-4"}).classes_out == ("012", -4, 10)
    assert doors.mask([3, 5, "8"], {3: "10"}).classes_out == ("10", 5, "8")  # not all are numbers


def test_plans_are_equal_if_their_changes_texts_and_order_are():
    plan = LabelPlan({"a": None, "b": "x"}, title="t")
    assert plan == LabelPlan({"a": None, "b": "x"}, title="t")
    assert hash(plan) == hash(pickle.loads(pickle.dumps(plan)))
    for other in (
        LabelPlan({"b": "x", "a": None}, title="t"),
        LabelPlan({"a": None, "b": "x"}),
        LabelPlan({"a": None, "b": "y"}, title="t"),
        LabelPlan({"a": None, "b": "x"}, title="t", unlisted="error"),
    ):
        assert plan != other


@pytest.mark.parametrize("name", ["title", "note", "unlisted"])
def test_a_plan_cannot_be_changed_behind_the_back_of_its_filters(name):
    fitted = doors.mask(["a", "b"], LabelPlan({"a": "x"}))
    with pytest.raises(AttributeError):
        setattr(fitted.plan, name, "remove")
    with pytest.raises(TypeError):
        fitted.plan.changes["b"] = None


def test_a_plan_holds_the_changes_it_was_made_of():
    changes = {"a": None, "b": "x", "c": {"x": 0.25, "y": 0.75}, "d": ("y", "z")}
    plan = LabelPlan(changes)
    assert plan.changes == changes
    assert repr(plan) == "<LabelPlan: 4 changes, unlisted='keep'>"
    assert repr(LabelPlan(["a"])) == "<LabelPlan: 1 change, unlisted='keep'>"


def test_a_series_is_a_mapping():
    pandas = pytest.importorskip("pandas")
    series = pandas.Series({"cat": "pet", "dog": "pet"})
    assert LabelPlan(series) == LabelPlan({"cat": "pet", "dog": "pet"})


def test_weights_that_people_rounded_are_divided_by_their_sum():
    fitted = doors.mask(["cat", "dog"], {"cat": {"small": 0.333, "big": 0.666}})
    np.testing.assert_allclose(fitted.apply([0.75, 0.25]), [0.25, 0.5, 0.25], rtol=1e-15)


@pytest.mark.parametrize(
    ("weights", "words"),
    [((0.5, 0.498), r"sum to 0\.998"), ((0.5, 0.502), r"sum to 1\.002"), ((0, 1), "'a' is 0")],
)
def test_weights_that_are_not_shares_of_1_are_refused(weights, words):
    with pytest.raises(UnlabelError, match=words):
        LabelPlan({"cat": dict(zip("ab", weights, strict=True))})


def test_new_labels_are_numbers_where_all_labels_are_and_one_of_a_text_is_one():
    assert doors.mask([1, 2], {1: "7"}).classes_out == (7, 2)
    assert doors.mask([1, "x"], {"x": "7"}).classes_out == (1, "7")
    assert doors.mask(["a", "b", "c"], {"a": 7, "b": "7"}).classes_out == (7, "c")
