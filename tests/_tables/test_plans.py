"""Plans given as texts, as on the command line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unlabel import UnlabelError
from unlabel._tables.plans import plan_of_options

LABELS = ["a", "b", "c", "a,b", "b=c", "x=", "@home", "1"]


@pytest.mark.parametrize(
    ("remove", "changes"),
    [
        (["a"], {"a": None}),
        (["a", "c"], {"a": None, "c": None}),
        (["c,a"], {"c": None, "a": None}),
        (["a=c"], {"a": "c"}),
        (["a=new"], {"a": "new"}),
        (["a=new,c=new", "b"], {"a": "new", "c": "new", "b": None}),
        # An exact label wins before the signs are looked at, and the longest of several.
        (["a,b"], {"a,b": None}),
        (["a,b,c"], {"a,b": None, "c": None}),
        (["c,a,b"], {"c": None, "a,b": None}),
        (["c=a,b"], {"c": "a,b"}),
        (["b=c"], {"b=c": None}),
        (["b=c=a"], {"b=c": "a"}),
        (["b=c,b=1"], {"b=c": None, "b": "1"}),
        (["a=b=c"], {"a": "b=c"}),
        (["a=c=b"], {"a": "c=b"}),
        (["x==a"], {"x=": "a"}),
        (["c=x="], {"c": "x="}),
        (["@home"], {"@home": None}),
        (["@home=a,c"], {"@home": "a", "c": None}),
        (["a= b"], {"a": " b"}),
    ],
)
def test_labels_and_destinations(remove, changes):
    plan = plan_of_options(LABELS, remove)
    assert dict(plan) == changes
    assert [*plan] == [*changes]


@given(st.lists(st.sampled_from(["a", "bb", "c", "d d"]), unique=True, min_size=1), st.data())
def test_labels_without_signs_are_read_in_any_mixture(labels, data):
    to = {label: data.draw(st.sampled_from([None, "new", "x y"])) for label in labels}
    pieces = [label if to[label] is None else f"{label}={to[label]}" for label in labels]
    split = data.draw(st.integers(0, len(pieces)))
    remove = [*pieces[:split], *([",".join(pieces[split:])] if pieces[split:] else [])]
    plan = plan_of_options(["a", "bb", "c", "d d"], remove)
    assert dict(plan) == to
    assert [*plan] == labels


def test_texts_are_the_labels_that_are_written_like_them():
    assert dict(plan_of_options([0, 1, 2.5], ["0=2.5,1=7"])) == {0: 2.5, 1: "7"}
    assert dict(plan_of_options([1, "1"], ["1"])) == {"1": None}


@pytest.mark.parametrize(
    ("remove", "sentence"),
    [
        (["a="], "'a=' has no label after 'a=': write one, or 'a' alone to retire it."),
        (["x=="], "has no label after 'x==': write one, or 'x=' alone"),
        (["a=,c"], "'a=,c' has no label after 'a='"),
        ([""], "'' names an empty label: write one label between commas."),
        (["a,,c"], "'a,,c' names an empty label"),
        (["a,"], "'a,' names an empty label"),
        (["=a"], "'=a' names an empty label"),
        (["a", "a"], "The label 'a' appears twice"),
        (["a,c,a=b"], "The label 'a' appears twice"),
        (["@hme=a", "b"], "is a whole plan: give it alone"),
        (["a", "@plan.toml"], "--remove @plan.toml is a whole plan: give it alone, and the other"),
        (["aa=b"], "The model has no label 'aa': the nearest is 'a'."),
        (["a,b c"], "The model has no label 'b c': the nearest is "),
        (["a,c=b,b"], "sends 'c' to 'b', which it retires"),
    ],
)
def test_mistakes_get_one_sentence(remove, sentence):
    labels = [label for label in LABELS if label != "a,b"]
    with pytest.raises(UnlabelError, match=sentence):
        plan_of_options(labels, remove)


def test_labels_to_keep():
    assert dict(plan_of_options(["a", "b", "c", "c,d"], None, ["c", "a"])) == {
        "b": None,
        "c,d": None,
    }
    assert dict(plan_of_options(["a", "b", "c", "c,d"], None, ["a,c,d"])) == {"b": None, "c": None}
    assert dict(plan_of_options([1, 2], None, ["1"])) == {2: None}
    with pytest.raises(UnlabelError, match="The model has no label 'a=b'"):
        plan_of_options(["a", "b"], None, ["a=b"])


def test_labels_to_keep_and_to_remove_exclude_each_other():
    for remove, keep in ((None, None), (["a"], ["b"])):
        with pytest.raises(UnlabelError, match="Give either remove="):
            plan_of_options(["a", "b"], remove, keep)


def test_a_plan_file(tmp_path):
    (tmp_path / "plan.toml").write_text('title = "t"\n[changes]\n1 = "2"\n3 = false')
    plan = plan_of_options([1, 2, 3], [f"@{tmp_path / 'plan.toml'}"])
    assert dict(plan) == {1: 2, 3: None}
    assert plan.title == "t"
    (tmp_path / "plan.csv").write_text("x,y,z\n1,2,3\n")
    columns = {"from_column": "x", "to_column": "z"}
    assert dict(plan_of_options([1, 2], [f"@{tmp_path / 'plan.csv'}"], **columns)) == {1: "3"}
    with pytest.raises(UnlabelError, match="--from and --to name columns of a plan: give it as"):
        plan_of_options([1, 2], ["1"], **columns)


def test_thousands_of_labels_in_one_text():
    labels = [f"label {i}" for i in range(20_000)]
    assert len(plan_of_options([*labels, "x"], [",".join(labels)])) == 20_000
