"""Plans as the command line gives them: a file, or labels to remove or to keep."""

from __future__ import annotations

import os
from collections.abc import Sequence

from unlabel._typing import Label
from unlabel.plan import LabelPlan, plan_for


def plan_of_options(
    classes: Sequence[Label],
    plan: str | os.PathLike[str] | None,
    remove: Sequence[str] | None,
    keep: Sequence[str] | None,
) -> LabelPlan:
    """Return the plan that one of a plan's file, labels to remove and labels to keep names.

    Labels are found among the model's by their text.

    Examples
    --------
    >>> plan_of_options([1, 2, 3], None, ["2"], None).changes
    mappingproxy({2: None})
    """
    given = None if plan is None else LabelPlan.load(plan)
    return plan_for(classes, plan=given, remove=remove or None, keep=keep or None)
