"""Change the labels of trained classifiers without retraining them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unlabel.allow import AllowLists
    from unlabel.errors import UnlabelError
    from unlabel.filter import OutputFilter
    from unlabel.plan import LabelPlan
    from unlabel.sklearn import LabelRemovalClassifier, LabelRemover

    __version__: str

__all__ = [
    "AllowLists",
    "LabelPlan",
    "LabelRemovalClassifier",
    "LabelRemover",
    "OutputFilter",
    "UnlabelError",
]

_HOMES = {
    "AllowLists": "unlabel.allow",
    "LabelPlan": "unlabel.plan",
    "LabelRemovalClassifier": "unlabel.sklearn",
    "LabelRemover": "unlabel.sklearn",
    "OutputFilter": "unlabel.filter",
    "UnlabelError": "unlabel.errors",
}


def __getattr__(name: str) -> Any:
    """Find a public name when it is asked for: applying a filter needs no scikit-learn."""
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version(__name__)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
