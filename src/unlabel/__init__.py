"""Change the labels of trained classifiers without retraining them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unlabel.answers import AnswerRule
    from unlabel.errors import UnlabelError
    from unlabel.filter import OutputFilter
    from unlabel.plan import LabelPlan, PlanCheck, PlanDiff

    __version__: str

_HOMES = {
    "AnswerRule": "unlabel.answers",
    "LabelPlan": "unlabel.plan",
    "OutputFilter": "unlabel.filter",
    "PlanCheck": "unlabel.plan",
    "PlanDiff": "unlabel.plan",
    "UnlabelError": "unlabel.errors",
}

__all__ = ["AnswerRule", "LabelPlan", "OutputFilter", "PlanCheck", "PlanDiff", "UnlabelError"]


def __getattr__(name: str) -> Any:
    """Find a public name when it is asked for: reading a plan needs no filter."""
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version(__name__)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
