"""The plan that the arguments of a fit name."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import numpy as np

from unlabel._plans.outcome import matched
from unlabel._typing import Label
from unlabel.errors import UnlabelError
from unlabel.labels import as_labels, known_columns, no_such_label
from unlabel.plan import LabelPlan


def plan_for(
    classes: Sequence[Label], *, plan: Any = None, remove: Any = None, keep: Any = None
) -> LabelPlan:
    """Return the plan that one of `plan`, `remove` and `keep` names, with the model's own labels.

    `plan` may be a mapping of labels to destinations or a list of labels to remove, and `keep` a
    set, as labels that are kept stay in the model's order.

    Examples
    --------
    >>> plan_for(["cat", "dog", "fox"], keep={"dog"})
    <LabelPlan: 2 changes, unlisted='keep'>
    """
    if sum(given is not None for given in (plan, remove, keep)) != 1:
        raise UnlabelError("Give one of a plan, labels to remove and labels to keep.")
    if plan is not None:
        return matched(plan if isinstance(plan, LabelPlan) else LabelPlan(plan), classes)
    argument, given = ("remove", remove) if keep is None else ("keep", keep)
    labels = as_labels([*given] if keep is not None and isinstance(given, Set) else given, argument)
    chosen = [*matched(LabelPlan(labels), classes).changes]
    columns = known_columns(chosen, classes)
    if (columns < 0).any():
        raise no_such_label(chosen[int(np.argmin(columns))], classes, argument=argument)
    kept = {*chosen}
    return LabelPlan(chosen if keep is None else [c for c in classes if c not in kept])
