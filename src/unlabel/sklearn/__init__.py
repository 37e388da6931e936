"""The scikit-learn integration: a classifier with other labels, and scorers of it."""

from unlabel.errors import needs_extra

with needs_extra("sklearn"):
    from unlabel.sklearn.classifier import RelabeledClassifier
    from unlabel.sklearn.scorer import retained_scorer

__all__ = ["RelabeledClassifier", "retained_scorer"]
