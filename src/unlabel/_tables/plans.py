"""Plans as the command line gives them: labels and destinations as texts, or a file."""

from __future__ import annotations

from collections.abc import Sequence

from unlabel._typing import Label
from unlabel.plan import LabelPlan, plan_for


def plan_of_texts(
    classes: Sequence[Label],
    remove: Sequence[str] | None,
    keep: Sequence[str] | None = None,
    *,
    from_column: str | None = None,
    to_column: str | None = None,
) -> LabelPlan:
    """Make the plan that options such as ``--remove a=b``, ``--remove @plan.toml`` say."""
    texts = {str(label): label for label in classes}
    if remove is None:
        return plan_for(classes, None, keep and [texts.get(text, text) for text in keep])
    return plan_for(classes, LabelPlan(remove), keep)
