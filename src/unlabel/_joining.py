"""Two filters, one after the other, as one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unlabel._plans.outcome import SPLIT, Outcome, outcome_of
from unlabel.errors import UnlabelError
from unlabel.labels import listing

if TYPE_CHECKING:
    from unlabel.filter import OutputFilter


def joined(first: OutputFilter, second: OutputFilter) -> OutputFilter:
    """Join two filters where that is exact, as `OutputFilter.then` describes."""
    if second.classes_in != first.classes_out:
        raise UnlabelError(
            f"The second filter is for the labels {listing(second.classes_in)}, and the first "
            f"gives {listing(first.classes_out)}: fit the second on the first's results"
        )
    if second.kind != "probabilities":
        raise UnlabelError("The second filter takes logits, and the first gives probabilities")
    if second.temperature != 1:
        raise _not_exact("the second is calibrated")
    outcomes = [outcome_of(each.plan, each.classes_in) for each in (first, second)]
    # Without removed labels all methods are the same.
    methods = {each.method for each in (first, second) if each.removed}
    has_splits = any((outcome.columns == SPLIT).any() for outcome in outcomes)
    are_masks = methods == {"mask"} and not has_splits
    only_remove = methods == {"osr"} and not any(map(_has_destinations, (first, second), outcomes))
    if second.removed and not are_masks and not only_remove:
        raise _not_exact("the second removes labels")
    plan = first.plan.then(second.plan, classes=first.classes_in)
    changes: dict[str, Any] = {"plan": plan}
    if second.removed:
        # One step per removed label: of the first, and of the second in the first's label space.
        n_first, outcome = len(first.removed), outcome_of(plan, first.classes_in)
        n_steps = len(outcome.removed)
        counts = (0,) * n_steps
        steps = np.zeros((2, n_steps if only_remove else 0, len(first.classes_in)))
        if only_remove:
            steps[:, :n_first] = first.means, first.shares
            steps[:, n_first:, outcomes[0].retained] = second.means, second.shares
            counts = (*first.counts, *second.counts)
        changes |= {"means": steps[0], "shares": steps[1], "counts": counts}
        changes["method"] = second.method
    return replace(first, **changes)


def _has_destinations(fitted: OutputFilter, outcome: Outcome) -> bool:
    """Whether labels are renamed, merged or split, beside those that are removed."""
    retained = tuple(fitted.classes_in[column] for column in outcome.retained.tolist())
    return outcome.merge is not None or fitted.classes_out != retained


def _not_exact(why: str) -> UnlabelError:
    return UnlabelError(
        f"The filters cannot be joined exactly, as {why}: fit one filter for both changes"
    )
