"""Remove labels from trained classifiers without retraining them."""

from unlabel.filter import OutputFilter
from unlabel.sklearn import LabelRemovalClassifier, LabelRemover
from unlabel.validation import UnlabelError

__all__ = ["LabelRemovalClassifier", "LabelRemover", "OutputFilter", "UnlabelError"]
