"""The scikit-learn integration: a transformer of confidences and a wrapper of classifiers."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from numbers import Real
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, TransformerMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import _is_fitted, check_is_fitted, column_or_1d, validate_data

from unlabel._labels import as_classes, as_labels, columns_of, label_array, label_key
from unlabel._method.backend import Filtered
from unlabel._scoring import retained_scorer as retained_scorer
from unlabel._typing import Floats, InputKind, Label, Method
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter
from unlabel.fitting import fit_filter
from unlabel.validation import as_confidences, check_columns, column_names, readable

FLOATS = [np.float64, np.float32, np.float16]


class LabelRemover(TransformerMixin, BaseEstimator):
    """Change the labels of confidence vectors: retire, merge, rename and split them.

    Parameters
    ----------
    remove : list of labels, mapping or LabelPlan, optional
        The labels to retire, in that order. A mapping gives each label's destination: None
        retires it, a label takes its confidence, and a mapping of labels to weights splits it;
        `unlabel.LabelPlan` describes them.
    keep : list or set of labels, optional
        In place of `remove`, the labels to retain; all others are retired.
    method : {"osr", "mask", "literal"}, default "osr"
        "osr" is the method. "mask" drops the labels and divides by the sum, and needs no
        reference rows. "literal" follows the published algorithm to the letter, for audit
        only: its outputs need not be probabilities.
    input : {"probabilities", "logits"}, default "probabilities"
        The kind of confidences. The result is probabilities in either case.
    calibrate : bool, default False
        Also fit one temperature by log-loss, on the rows of retained labels but for those that
        are split, whose new label is not known. It changes no ranking.
    classes : list of labels, optional
        The labels of the columns, or an ``id2label`` that maps 0 to n - 1 to them. By default the
        column names of a data frame, otherwise 0 to n - 1. A data frame whose columns name these
        labels in another order is refused.
    ignore : label, optional
        A true label whose rows are left out, such as the -100 of tokens that have none.

    Attributes
    ----------
    filter_ : OutputFilter
        The fitted filter, to save and to apply elsewhere.
    classes_ : array of labels
        The result's labels, in the order of its columns.

    Warns
    -----
    UserWarning
        If rows were set aside since they have no true label (None, NaN or an empty text), or one
        that the model does not have.

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
    >>> merging = LabelRemover(remove={"cat": "pet", "dog": "pet"}, classes=["cat", "dog", "fox"])
    >>> merging.fit_transform(confidences).round(3)
    array([[0.9, 0.1],
           [0.7, 0.3],
           [0.9, 0.1]])
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
        ignore: Label | None = None,
    ) -> None:
        self.remove = remove
        self.keep = keep
        self.method = method
        self.input = input
        self.calibrate = calibrate
        self.classes = classes
        self.ignore = ignore

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the filter on reference confidences and their true labels.

        Parameters
        ----------
        X : array of shape (n_rows, n_labels)
            The model's confidences on the reference inputs.
        y : array of shape (n_rows,), optional
            Their true labels. Only `calibrate` uses rows of retained labels. Neither
            ``method="mask"`` nor a change that retires no label needs true labels.

        Returns
        -------
        LabelRemover
            The fitted transformer itself.
        """
        X = readable(X, "confidences")
        rows = validate_data(self, X, dtype=FLOATS, ensure_all_finite=False)
        # scikit-learn reads only names that are texts, but from more kinds of tables.
        names = tuple(getattr(self, "feature_names_in_", column_names(X)))
        classes = names or None
        if self.classes is not None:
            classes = as_classes(self.classes)
            check_columns(names, classes)
        options = {"classes": classes, "input": self.input, "ignore": self.ignore}
        self.filter_ = _fit_filter(self, rows, y, **options)
        self.classes_ = label_array(self.filter_.classes)
        return self

    def transform(self, X: Any) -> Floats:
        """Turn confidences over the model's labels into confidences over the result's.

        Parameters
        ----------
        X : array of shape (n_rows, n_labels)

        Returns
        -------
        array of shape (n_rows, number of `classes_`)
            Rows that sum to 1, in the dtype of `X`.
        """
        check_is_fitted(self)
        X = readable(X, "confidences")
        rows = validate_data(self, X, dtype=FLOATS, ensure_all_finite=False, reset=False)
        check_columns(column_names(X), self.filter_.classes_in)
        return self.filter_.apply(rows)

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Return the names of the result's columns, which are its labels as texts."""
        check_is_fitted(self)
        return np.array([str(label) for label in self.filter_.classes], dtype=object)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.method != "mask" or self.calibrate
        tags.transformer_tags.preserves_dtype = ["float64", "float32", "float16"]
        return tags


class LabelRemovalClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Change the labels of a classifier: retire, merge, rename and split them.

    Parameters
    ----------
    estimator : classifier with `predict_proba`
        Wrap a trained model in `sklearn.frozen.FrozenEstimator`; otherwise `fit` trains a clone
        on the rows it is given.
    remove, keep, method, calibrate
        As in `LabelRemover`.
    unknown : label, optional
        The answer of `predict` if the removed mass of a row is above `unknown_above`. It is not
        one of `classes_`, and has no column in `predict_proba`. A label of the model's own type
        keeps the type of the answers; scikit-learn's metrics refuse mixed ones. It gives inputs of
        retired labels away.
    unknown_above : float, default 0.5
        The threshold for `unknown`, from 0 to 1; `unlabel.metrics.unknown_threshold` chooses one.
        Both may be set after `fit`.

    Attributes
    ----------
    estimator_ : classifier
        The classifier with all labels.
    filter_ : OutputFilter
        The filter on its confidences.
    classes_ : array of labels
        The result's labels, in the order of the columns of `predict_proba`.

    Warns
    -----
    UserWarning
        If the estimator is fitted but not frozen, so that `fit` trains a clone of it anew.

    Notes
    -----
    Sample weights go to the estimator itself: fit it with them first, and freeze it.

    Some of scikit-learn's tools renumber the labels from 0 before they call `fit`, or take
    column i of `predict_proba` to be label i. Then `remove` names other labels than it seems to,
    or retired labels come back. Wrap a `VotingClassifier` or a `StackingClassifier` as a whole
    rather than its members, and do not call ``cross_val_predict`` with
    ``method="predict_proba"`` unless the labels are 0 to n - 1.

    Columns stand in the order of `classes_`, which is not sorted if labels were merged or renamed.
    Tools that take it to be sorted, such as MAPIE, need a wrapper that sorts both.

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
    >>> retired.set_params(unknown=-1).predict(X[[0, 60, 149]])
    array([ 0, -1,  2])
    """

    def __init__(
        self,
        estimator: Any,
        remove: Iterable[Any] | None = None,
        keep: Iterable[Any] | None = None,
        *,
        method: Method = "osr",
        calibrate: bool = False,
        unknown: Label | None = None,
        unknown_above: float = 0.5,
    ) -> None:
        self.estimator = estimator
        self.remove = remove
        self.keep = keep
        self.method = method
        self.calibrate = calibrate
        self.unknown = unknown
        self.unknown_above = unknown_above

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the filter on reference inputs and their true labels.

        Parameters
        ----------
        X : inputs of the estimator
            Some inputs of each label to retire. With `calibrate`, inputs of retained labels
            too, preferably ones that the estimator was not trained on.
        y : array of shape (n_rows,)
            Their true labels.

        Returns
        -------
        LabelRemovalClassifier
            The fitted classifier itself.
        """
        y = None if y is None else column_or_1d(readable(y, "true labels"), warn=True)
        cloned = clone(self.estimator)
        if _loses_training(self.estimator, cloned):
            warnings.warn(
                f"The {type(self.estimator).__name__} is fitted but is trained anew on these rows: "
                "to keep it as it is, wrap it in sklearn.frozen.FrozenEstimator.",
                stacklevel=2,
            )
        self.estimator_ = cloned.fit(X, y)
        if not hasattr(self.estimator_, "predict_proba"):  # some have it only once fitted
            is_frozen = isinstance(self.estimator, FrozenEstimator)
            model = self.estimator.estimator if is_frozen else self.estimator
            raise UnlabelError(
                f"{type(model).__name__} has no predict_proba: use a classifier that "
                "gives probabilities, or wrap it in sklearn.calibration.CalibratedClassifierCV."
            )
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        confidences = self.estimator_.predict_proba(X)
        self.filter_ = _fit_filter(self, confidences, y, classes=self.estimator_.classes_)
        self.classes_ = label_array(self.filter_.classes)
        self._answers()  # to refuse a wrong `unknown` early
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return the probabilities of the result's labels, in the order of `classes_`."""
        return self._filtered(X).rows

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithms of `predict_proba`, minus infinity for 0."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Predict the most probable of the result's labels, or `unknown`."""
        filtered, answers = self._filtered(X), self._answers()
        best = filtered.rows.argmax(axis=1)
        if self.unknown is not None:
            is_unknown = np.asarray(filtered.removed_mass) > self.unknown_above
            best[is_unknown] = len(self.classes_)
        return np.asarray(answers[best])

    def _filtered(self, X: Any) -> Filtered:
        check_is_fitted(self)
        rows = as_confidences(
            self.estimator_.predict_proba(X), "probabilities", self.filter_.classes_in
        )
        return self.filter_.filter_checked(rows, with_mass=True)

    def _answers(self) -> npt.NDArray[Any]:
        """Return the labels that `predict` may answer with, `unknown` last."""
        if self.unknown is None:
            return self.classes_
        (unknown,) = as_labels([self.unknown], "unknown")
        if label_key(unknown) in columns_of(self.filter_.classes):
            raise UnlabelError(f"unknown={unknown!r} is a label of the result: choose another.")
        above = self.unknown_above
        if not (isinstance(above, Real) and 0 <= above <= 1):
            raise UnlabelError(
                f"unknown_above={above!r} is not a share: give a number from 0 to 1."
            )
        return label_array((*self.filter_.classes, unknown))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags


def _loses_training(estimator: Any, cloned: Any) -> bool:
    """Tell whether an estimator is fitted, and its clone, or a step of it, no longer is."""

    def parts(whole: Any) -> list[Any]:
        # A pipeline counts as fitted if its last step is, which may be frozen.
        return [step for _, step in whole.steps] if isinstance(whole, Pipeline) else [whole]

    return _is_fitted(estimator) and any(
        hasattr(part, "fit") and _is_fitted(part) and not _is_fitted(copied)
        for part, copied in zip(parts(estimator), parts(cloned), strict=True)
    )


def _fit_filter(estimator: Any, confidences: Any, y: Any, **options: Any) -> OutputFilter:
    """Fit a filter with the parameters that both estimators have, and these options."""
    for name in ("remove", "keep", "method", "calibrate"):
        options[name] = getattr(estimator, name)
    return fit_filter(confidences, y, **options)
