"""Change the labels of trained classifiers without retraining them."""

from unlabel.answers import AnswerRule
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter
from unlabel.plan import LabelPlan, PlanCheck, PlanDiff

__all__ = ["AnswerRule", "LabelPlan", "OutputFilter", "PlanCheck", "PlanDiff", "UnlabelError"]


def __getattr__(name: str) -> str:
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version  # slow to import

    return version(__name__)
