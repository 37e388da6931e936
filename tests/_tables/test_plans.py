"""Plans as the command line names them: a file, or labels to remove or to keep."""

import pytest

from unlabel import UnlabelError
from unlabel._tables.plans import plan_of_options


def test_labels_are_found_by_their_text():
    assert dict(plan_of_options([1, 2, 3], None, ["3", "1"], None).changes) == {3: None, 1: None}
    assert dict(plan_of_options(["a,b", "c=d"], None, ["a,b"], []).changes) == {"a,b": None}
    assert dict(plan_of_options(["a", "b", "c"], None, None, ["c", "a"]).changes) == {"b": None}


def test_a_plan_file(tmp_path):
    (tmp_path / "plan.toml").write_text('title = "t"\n[changes]\n1 = "2"\n3 = false')
    plan = plan_of_options([1, 2, 3], tmp_path / "plan.toml", None, None)
    assert dict(plan.changes) == {1: 2, 3: None}
    assert plan.title == "t"


@pytest.mark.parametrize(
    ("remove", "keep", "says"),
    [
        (None, None, "one of a plan, labels to remove and labels to keep"),
        (["a"], ["b"], "one of a plan"),
        (["x"], None, "no label 'x'"),
        (None, ["x"], "no label 'x'"),
        (["a", "a"], None, "'a' appears twice"),
    ],
)
def test_mistakes_get_one_sentence(remove, keep, says):
    with pytest.raises(UnlabelError, match=says):
        plan_of_options(["a", "b"], None, remove, keep)
