"""Filters and retrained models judged on rows with known labels."""

from unlabel.evaluation.samples import load_cifar10
from unlabel.evaluation.summary import read_summary, summarise, write_summary
from unlabel.evaluation.trial import Trial, try_filter, try_labels

__all__ = [
    "Trial",
    "load_cifar10",
    "read_summary",
    "summarise",
    "try_filter",
    "try_labels",
    "write_summary",
]
