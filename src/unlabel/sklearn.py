"""The scikit-learn integration: a transformer over confidences, a classifier over a classifier."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    MetaEstimatorMixin,
    TransformerMixin,
    clone,
)
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from unlabel._labels import as_classes, label_array
from unlabel._typing import Floats, InputKind, Method
from unlabel.errors import UnlabelError
from unlabel.fitting import fit_filter
from unlabel.validation import check_columns, column_names, readable

FLOATS = [np.float64, np.float32, np.float16]


class LabelRemover(TransformerMixin, BaseEstimator):
    """Removes labels from confidence vectors.

    Parameters
    ----------
    remove, keep : list of labels
        The labels to remove, in that order, or the labels to keep, which may also be a set.
        One of them.
    method : {"osr", "mask", "literal"}, default "osr"
        "osr" is the method. "mask" drops the labels and divides by the sum, and needs no
        reference rows. "literal" is the published algorithm to the letter, for audit only:
        its outputs need not be probabilities.
    input : {"probabilities", "logits"}, default "probabilities"
        What the confidences are. The result is probabilities in either case.
    calibrate : bool, default False
        Also fit one temperature by log-loss, on the rows of labels that remain. It changes
        no ranking.
    classes : list of labels, optional
        The names of the columns, or an ``id2label`` that maps 0 to n - 1 to them. By default the
        column names of a data frame, otherwise 0 to n - 1. A data frame that has the column of
        one of them in the place of another is refused.

    Attributes
    ----------
    filter_ : OutputFilter
        The fitted filter, to be saved and applied elsewhere.
    classes_ : array of labels
        The labels that remain, in the order of the result's columns.

    Examples
    --------
    >>> from unlabel import LabelRemover
    >>> confidences = [[.7, .2, .1], [.6, .1, .3], [.1, .8, .1]]
    >>> labels = ["cat", "cat", "dog"]
    >>> remover = LabelRemover(remove=["cat"], classes=["cat", "dog", "fox"])
    >>> remover.fit(confidences, labels).transform(confidences).round(3)
    array([[0.659, 0.341],
           [0.25 , 0.75 ],
           [0.889, 0.111]])
    >>> remover.classes_
    array(['dog', 'fox'], dtype='<U3')
    """

    def __init__(
        self,
        remove: Iterable[Any] | None = None,
        keep: Iterable[Any] | None = None,
        *,
        method: Method = "osr",
        input: InputKind = "probabilities",
        calibrate: bool = False,
        classes: Iterable[Any] | None = None,
    ) -> None:
        self.remove = remove
        self.keep = keep
        self.method = method
        self.input = input
        self.calibrate = calibrate
        self.classes = classes

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the filter on reference confidences and their true labels.

        Parameters
        ----------
        X : array of shape (n_rows, n_labels)
            The model's confidences on the reference inputs.
        y : array of shape (n_rows,), optional
            Their true labels. Rows of labels that remain are used by `calibrate` alone.
            ``method="mask"`` needs no true labels.

        Returns
        -------
        LabelRemover
            This very object.
        """
        X = readable(X, "confidences")
        rows = validate_data(self, X, dtype=FLOATS, ensure_all_finite=False)
        # scikit-learn looks at names that are texts alone, and for these at more kinds of tables.
        names = tuple(getattr(self, "feature_names_in_", column_names(X)))
        classes = names or None
        if self.classes is not None:
            classes = as_classes(self.classes)
            check_columns(names, classes)
        self.filter_ = fit_filter(
            rows,
            y,
            classes=classes,
            remove=self.remove,
            keep=self.keep,
            method=self.method,
            input=self.input,
            calibrate=self.calibrate,
        )
        self.classes_ = label_array(self.filter_.classes)
        return self

    def transform(self, X: Any) -> Floats:
        """Turn confidences over all labels into confidences over the labels that remain.

        Parameters
        ----------
        X : array of shape (n_rows, n_labels)

        Returns
        -------
        array of shape (n_rows, n_labels - n_removed)
            Rows that sum to 1, in the dtype of `X`.
        """
        check_is_fitted(self)
        X = readable(X, "confidences")
        rows = validate_data(self, X, dtype=FLOATS, ensure_all_finite=False, reset=False)
        check_columns(column_names(X), self.filter_.classes_in)
        return self.filter_.apply(rows)

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Names of the result's columns: the labels that remain, as texts."""
        check_is_fitted(self)
        return np.array([str(label) for label in self.filter_.classes], dtype=object)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.method != "mask" or self.calibrate
        tags.transformer_tags.preserves_dtype = ["float64", "float32", "float16"]
        return tags


class LabelRemovalClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A classifier without some of its labels.

    Parameters
    ----------
    estimator : classifier with `predict_proba`
        Wrap a trained model in `sklearn.frozen.FrozenEstimator`, or `fit` trains a clone
        on the rows it is given.
    remove, keep, method, calibrate
        As in `LabelRemover`.

    Attributes
    ----------
    estimator_ : classifier
        The classifier with all labels.
    filter_ : OutputFilter
        The filter on its confidences.
    classes_ : array of labels
        The labels that remain.

    Notes
    -----
    Give sample weights to the estimator itself, fitted before and frozen.

    Some of scikit-learn's tools number the labels anew, from 0, before they call `fit`, or take
    column i of `predict_proba` for label i: there `remove` names other labels than it seems to,
    or removed labels come back. Put the removal outermost, around a `VotingClassifier` or a
    `StackingClassifier` and not inside it, and do not ask ``cross_val_predict`` for
    ``method="predict_proba"`` unless the labels are 0 to n - 1.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.frozen import FrozenEstimator
    >>> from sklearn.linear_model import LogisticRegression
    >>> from unlabel import LabelRemovalClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegression(max_iter=1000).fit(X, y)
    >>> retired = LabelRemovalClassifier(FrozenEstimator(model), remove=[1]).fit(X, y)
    >>> retired.classes_
    array([0, 2])
    >>> retired.predict(X[[0, 77, 149]])
    array([0, 2, 2])
    """

    def __init__(
        self,
        estimator: Any,
        remove: Iterable[Any] | None = None,
        keep: Iterable[Any] | None = None,
        *,
        method: Method = "osr",
        calibrate: bool = False,
    ) -> None:
        self.estimator = estimator
        self.remove = remove
        self.keep = keep
        self.method = method
        self.calibrate = calibrate

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the filter on reference inputs and their true labels.

        Parameters
        ----------
        X : inputs of the estimator
            Some inputs of each label to be removed; with `calibrate`, inputs of the labels
            that remain too, and best ones that the estimator was not trained on.
        y : array of shape (n_rows,)
            Their true labels.

        Returns
        -------
        LabelRemovalClassifier
            This very object.
        """
        y = None if y is None else column_or_1d(readable(y, "true labels"), warn=True)
        self.estimator_ = clone(self.estimator).fit(X, y)
        if not hasattr(self.estimator_, "predict_proba"):  # some have it only now
            raise UnlabelError(
                f"{type(self.estimator).__name__} has no predict_proba: use a classifier that "
                "gives probabilities, or wrap it in sklearn.calibration.CalibratedClassifierCV."
            )
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        self.filter_ = fit_filter(
            self.estimator_.predict_proba(X),
            y,
            classes=self.estimator_.classes_,
            remove=self.remove,
            keep=self.keep,
            method=self.method,
            calibrate=self.calibrate,
        )
        self.classes_ = label_array(self.filter_.classes)
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the labels that remain, in the order of `classes_`."""
        check_is_fitted(self)
        return self.filter_.apply(self.estimator_.predict_proba(X))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Most probable of the labels that remain."""
        probabilities = self.predict_proba(X)
        return np.asarray(self.classes_[probabilities.argmax(axis=1)])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags
