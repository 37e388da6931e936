"""Two filters, one after the other, as one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unlabel._labels import label_key, listing
from unlabel.errors import UnlabelError
from unlabel.plan import compose

if TYPE_CHECKING:
    from unlabel.filter import OutputFilter


def joined(first: OutputFilter, second: OutputFilter) -> OutputFilter:
    """Join two filters where that is exact, as `OutputFilter.then` describes."""
    if [*map(label_key, second.classes_in)] != [*map(label_key, first.classes)]:
        raise UnlabelError(
            f"The second filter is for the labels {listing(second.classes_in)}, and the first "
            f"gives {listing(first.classes)}: fit the second on the first's results."
        )
    if second.input != "probabilities":
        raise UnlabelError("The second filter takes logits: use second.taking('probabilities').")
    # Without retired labels all methods are the same.
    methods = {each.method for each in (first, second) if each.removed}
    are_masks = methods == {"mask"} and not (first.has_splits or second.has_splits)
    only_retire = methods == {"osr"} and not (first.has_destinations or second.has_destinations)
    if first.temperature != 1:
        raise _not_exact("the first is calibrated")
    if second.removed and not are_masks and not only_retire:
        raise _not_exact("the second retires labels")
    plan = compose(first.plan, second.plan, first.classes_in, by_text=False)
    changes: dict[str, Any] = {"plan": plan, "temperature": second.temperature}
    if second.removed:
        # One step per retired label: of the first, and of the second in the first's label space.
        n_first, n_steps = len(first.removed), len(plan.outcome(first.classes_in).removed)
        counts = (0,) * n_steps
        steps = np.zeros((2, n_steps if only_retire else 0, len(first.classes_in)))
        if only_retire:
            steps[:, :n_first] = first.means, first.shares
            steps[:, n_first:, first.retained_columns] = second.means, second.shares
            counts = (*first.counts, *second.counts)
        changes |= {"means": steps[0], "shares": steps[1], "counts": counts, "_fitted": None}
        changes["method"] = second.method
    return replace(first, **changes)


def _not_exact(why: str) -> UnlabelError:
    return UnlabelError(
        f"The filters cannot be joined exactly, as {why}: fit one filter for both changes."
    )
