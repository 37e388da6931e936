"""Scorers of scikit-learn for classifiers whose labels were changed."""

from __future__ import annotations

import warnings
from copy import copy
from functools import partial
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import get_scorer

from unlabel._plans.outcome import REMOVED
from unlabel._typing import Booleans, Columns, Floats, Label
from unlabel.errors import UnlabelError
from unlabel.filter import outcome_of_filter
from unlabel.labels import known_columns
from unlabel.validation import distinct_labels


def retained_scorer(scoring: str) -> Any:
    """Make a scikit-learn scorer that judges a classifier by rows of labels that stay.

    True labels are changed by the classifier's plan. Rows that then have no label are left out:
    those of removed and split labels, and of labels that the model does not have. An answer of
    unknown counts as wrong, but not as another label; scorers of probabilities do not see it.

    Parameters
    ----------
    scoring : str
        The name of a scorer for `predict` or `predict_proba`, such as "accuracy" or
        "neg_log_loss". It is given labels as their columns' numbers: if two are left, the second
        is the positive one.

    Returns
    -------
    callable
        A scorer for `scoring=` of ``GridSearchCV`` or ``cross_val_score`` with a
        `RelabeledClassifier`, alone, at the end of a pipeline or in a search of its own.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.frozen import FrozenEstimator
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import GridSearchCV
    >>> from unlabel.sklearn import RelabeledClassifier, retained_scorer
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegression(max_iter=1000).fit(X, y)
    >>> relabeled = RelabeledClassifier(FrozenEstimator(model), [0], method="mask")
    >>> scorer = retained_scorer("neg_log_loss")
    >>> search = GridSearchCV(relabeled, {"calibrate": [False, True]}, scoring=scorer, cv=3)
    >>> search.fit(X, y).best_params_
    {'calibrate': True}
    """
    try:
        scorer = get_scorer(scoring)
    except ValueError as error:
        raise UnlabelError(
            f"scikit-learn has no scorer {scoring!r}: see sklearn.metrics.get_scorer_names()."
        ) from error
    return partial(_score, scorer)


def _score(scorer: Any, estimator: Any, X: Any, y: Any) -> float:
    fitted = _changed_classifier(estimator).filter_
    truth = _columns(y, fitted.classes_in)
    columns = np.where(truth < 0, REMOVED, outcome_of_filter(fitted).columns[truth])
    is_known = columns >= 0
    if not is_known.any():
        raise UnlabelError("No row has a true label that stays: give rows that have one.")
    answers, columns = _Answers(estimator, fitted.classes_out, is_known), columns[is_known]
    told = _with_labels(scorer, answers.classes_, columns)
    with warnings.catch_warnings():  # of unknown, which is no true label
        warnings.filterwarnings("ignore", "y_pred contains classes not in y_true")
        return float(told(answers, X, columns))


def _changed_classifier(estimator: Any) -> Any:
    """Find the classifier whose labels were changed, in a pipeline or a search too."""
    while not hasattr(estimator, "filter_"):
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif hasattr(estimator, "steps"):
            estimator = estimator.steps[-1][1]
        else:
            raise UnlabelError(
                f"The {type(estimator).__name__} has no filter: score a RelabeledClassifier."
            )
    return estimator


def _with_labels(scorer: Any, every: Columns, truth: Columns) -> Any:
    """Return a scorer of probabilities for all labels, one of answers for those with rows."""
    if "labels" not in signature(scorer._score_func).parameters:
        return scorer
    # Parts of a split have probabilities but no rows. Averages must not count them, or unknown.
    labels = np.unique(truth) if scorer._response_method == "predict" else every
    told = copy(scorer)
    told._kwargs = {**scorer._kwargs, "labels": labels}
    if scorer._kwargs.get("average") == "binary" and len(every) == 2:
        # The same value, but with unknown there are three answers.
        told._kwargs |= {"labels": every[1:], "average": "macro"}
    return told


class _Answers(ClassifierMixin, BaseEstimator):
    """A classifier's answers to some rows, its labels being the numbers of their columns.

    Scorers take columns to be in the order of sorted labels, which those of a result need not be.
    """

    def __init__(self, estimator: Any, labels: tuple[Label, ...], rows: Booleans) -> None:
        self.estimator = estimator
        self.labels = labels
        self.rows = rows
        self.classes_ = np.arange(len(labels))

    def predict_proba(self, X: Any) -> Floats:
        return np.asarray(self.estimator.predict_proba(X)[self.rows])

    def predict(self, X: Any) -> Columns:
        """Return the column of each answer, -1 if it is unknown."""
        return _columns(self.estimator.predict(X)[self.rows], self.labels)


def _columns(labels: Any, classes: tuple[Label, ...]) -> Columns:
    """Find the column of each row's label, -1 if it is not among the classes."""
    distinct, positions = distinct_labels(labels)
    return known_columns(distinct, classes)[positions]
