"""The public names, as they are agreed on, and what using them takes."""

import types
from importlib import metadata

import pytest

import doors
import unlabel
from processes import run_python

PLAN = unlabel.LabelPlan({"cat": None})
FITTED = doors.mask(["cat", "dog", "fox"], PLAN)

NAMES = ["AnswerRule", "LabelPlan", "OutputFilter", "PlanCheck", "PlanDiff", "UnlabelError"]
PUBLIC = [
    (PLAN, "changes unlisted title note load save check diff then"),
    (
        FITTED,
        "fit from_plan load save apply run answer then classes_in plan means shares counts method "
        "kind temperature classes_out removed",
    ),
    (FITTED.run([[0.5, 0.3, 0.2]]), "confidences removed_mass not_allowed count index"),  # a tuple
    (
        unlabel.AnswerRule(),
        # The last three are for other parts of the package.
        "fit load save min_confidence max_removed_mass unknown",
    ),
    (
        PLAN.check(["cat", "dog"]),
        "unchanged renamed merged split removed merged_into unlisted unknown "
        "misspelt other_meaning result problems never_answers to_dict",
    ),
    (PLAN.diff(PLAN), "dropped changed added order unlisted to_dict"),
    (
        unlabel.UnlabelError("It is."),
        "problem argument row path text add_note args with_traceback",  # an exception
    ),
]


def public(thing):
    return {name for name in dir(thing) if not name.startswith("_")}


def test_the_public_names_are_exactly_those_of_all():
    found = {each for each in public(unlabel) if not is_module(getattr(unlabel, each))}
    assert found == {*unlabel.__all__}
    assert unlabel.__all__ == NAMES
    assert all(getattr(unlabel, name).__doc__ for name in NAMES)


def is_module(value):
    return isinstance(value, types.ModuleType)


@pytest.mark.parametrize(("thing", "names"), PUBLIC, ids=lambda each: type(each).__name__)
def test_what_each_has_is_exactly_what_was_agreed_on(thing, names):
    assert public(thing) == {*names.split()}


def test_the_version_is_that_of_the_installation():
    assert unlabel.__version__ == metadata.version("unlabel")


def test_other_names_are_not_found():
    with pytest.raises(AttributeError, match="has no attribute 'LabelRemover'"):
        unlabel.LabelRemover  # noqa: B018


# Other libraries are hidden: that one is not imported would not prove that it is not needed.
USE_WITHOUT_OTHERS = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        known = name in ("unlabel", "numpy", "safetensors") or name in sys.stdlib_module_names
        if path is None and not known and not name.startswith("_"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Hidden())
import numpy as np
from unlabel import AnswerRule, LabelPlan, OutputFilter
rng = np.random.default_rng(0)
truth = np.arange(400) % 4
rows = (rng.dirichlet(np.ones(4), 400) + np.eye(4)[truth]) / 2
rows[::3] = np.roll(rows[::3], 1, axis=1)
plan = LabelPlan({0: None, 1: 2})
fitted = OutputFilter.fit(rows, truth, plan=plan, calibrate=True)
fitted.save(sys.argv[1])
plan.save(sys.argv[1] + ".toml")
fitted = OutputFilter.load(sys.argv[1]).then(OutputFilter.from_plan({3: "new"}, classes=[2, 3]))
rule = AnswerRule.fit(rows, truth, fitted, target_loss=0.1)
rule.save(sys.argv[1] + ".rule.toml")
fitted.answer(rows, AnswerRule.load(sys.argv[1] + ".rule.toml"), allow=["new"])
assert LabelPlan.load(sys.argv[1] + ".toml").check(range(4)).result == (2, 3)
"""


def test_numpy_and_safetensors_are_all_that_the_core_needs(tmp_path):
    done = run_python(USE_WITHOUT_OTHERS, tmp_path / "filter", options=["-W", "error"])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
