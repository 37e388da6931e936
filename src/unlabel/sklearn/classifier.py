"""The scikit-learn integration: a classifier whose labels are changed, and a scorer for it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import _is_fitted, check_is_fitted, column_or_1d

from unlabel._typing import Floats, Label, Method
from unlabel.answers import AnswerRule, can_abstain
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter
from unlabel.fitting import fit_filter
from unlabel.labels import known_columns, label_array
from unlabel.plan import LabelPlan
from unlabel.validation import distinct_labels


class RelabeledClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Change the labels of a classifier: remove, merge, rename and split them.

    Parameters
    ----------
    estimator : classifier with `predict_proba`
        Wrap a trained model in `sklearn.frozen.FrozenEstimator`; otherwise `fit` trains a clone
        on the rows it is given.
    plan : LabelPlan, mapping, or list of labels to remove
        The change of labels.
    method : {"osr", "mask"}
        "osr" is the method; "mask" drops the removed labels and divides by the sum.
    calibrate : bool
        Whether to fit one temperature, on the rows of labels that stay.
    rule : AnswerRule, optional
        When `predict` answers with unknown, which the rule must name. It is not one of `classes_`,
        and has no column in `predict_proba`. A name of the labels' own type keeps the type of the
        answers; scikit-learn's metrics refuse mixed ones. The rule may be set after `fit`.

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
        If the estimator is fitted but not frozen, so that `fit` trains a clone of it anew; if it
        has numbered the labels anew; and what `OutputFilter.fit` warns of.

    Notes
    -----
    Sample weights go to the estimator itself: fit it with them first, and freeze it.

    Some tools renumber the labels from 0 before they call `fit`, as `VotingClassifier` and XGBoost
    do, or take column i of `predict_proba` to be label i. Then the plan names other labels than it
    seems to, or removed labels come back. Wrap a `VotingClassifier` or a `StackingClassifier` as a
    whole rather than its members, number labels from 0 for XGBoost, and do not call
    ``cross_val_predict`` with ``method="predict_proba"`` unless the labels are 0 to n - 1.

    Columns stand in the order of `classes_`, which is not sorted if labels were merged or renamed.
    Tools that take it to be sorted, such as MAPIE, need a wrapper that sorts both.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.frozen import FrozenEstimator
    >>> from sklearn.linear_model import LogisticRegression
    >>> from unlabel import AnswerRule
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LogisticRegression(max_iter=5000).fit(X[:700], y[:700])
    >>> relabeled = RelabeledClassifier(FrozenEstimator(model), [3, 8]).fit(X[700:], y[700:])
    >>> relabeled.classes_
    array([0, 1, 2, 4, 5, 6, 7, 9])
    >>> y[703:706], relabeled.predict(X[703:706])
    (array([2, 6, 3]), array([2, 6, 5]))
    >>> rule = AnswerRule(max_removed_mass=.5, unknown=-1)
    >>> relabeled.set_params(rule=rule).predict(X[703:706])
    array([ 2,  6, -1])
    """

    def __init__(
        self,
        estimator: Any,
        plan: Any = None,
        *,
        method: Method = "osr",
        calibrate: bool = False,
        rule: AnswerRule | None = None,
    ) -> None:
        self.estimator = estimator
        self.plan = plan
        self.method = method
        self.calibrate = calibrate
        self.rule = rule

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the filter on reference inputs and their true labels.

        Parameters
        ----------
        X : inputs of the estimator
            Some inputs of each label to remove. With `calibrate`, inputs of labels that stay too,
            preferably ones that the estimator was not trained on.
        y : array of shape (n_rows,)
            Their true labels.

        Returns
        -------
        RelabeledClassifier
            The fitted classifier itself.
        """
        y = None if y is None else column_or_1d(y, warn=True)
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
        confidences, classes = self.estimator_.predict_proba(X), self.estimator_.classes_
        is_plan = isinstance(self.plan, LabelPlan | Mapping)
        fit = fit_filter(
            confidences,
            y,
            classes=classes,
            plan=self.plan if is_plan else None,
            remove=None if is_plan else self.plan,
            method=self.method,
            calibrate=self.calibrate,
            allow_chance=True,  # the order of the labels is the estimator's own
        )
        self.filter_ = OutputFilter(**fit.state)
        for remark in [*_renumbered(self.estimator_, self.filter_.classes_in, y), *fit.remarks]:
            warnings.warn(remark, stacklevel=2)
        self.classes_ = label_array(self.filter_.classes_out)
        self._answers(confidences[:0])  # to refuse a wrong rule early
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return the probabilities of the result's labels, in the order of `classes_`."""
        check_is_fitted(self)
        return self.filter_.apply(self.estimator_.predict_proba(X))

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithms of `predict_proba`, minus infinity for 0."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Predict one of the result's labels, or what the rule calls unknown."""
        check_is_fitted(self)
        return self._answers(self.estimator_.predict_proba(X))

    def _answers(self, confidences: Any) -> npt.NDArray[Any]:
        rule = AnswerRule() if self.rule is None else self.rule
        if can_abstain(rule) and rule.unknown is None:
            raise UnlabelError(
                "The rule can answer with unknown and has no name for it: name it with "
                "AnswerRule(unknown=...).",
                argument="rule",
            )
        names = self.filter_.classes_out
        answers = self.filter_.answer(confidences, rule)
        # An array of labels has their own type, whatever the answers to these rows.
        return answers.astype(
            label_array(names if rule.unknown is None else (*names, rule.unknown)).dtype
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags


def _loses_training(estimator: Any, cloned: Any) -> bool:
    """Whether an estimator is fitted, and its clone, or a step of it, no longer is."""

    def parts(whole: Any) -> list[Any]:
        # A pipeline counts as fitted if its last step is, which may be frozen.
        return [step for _, step in whole.steps] if isinstance(whole, Pipeline) else [whole]

    return _is_fitted(estimator) and any(
        hasattr(part, "fit") and _is_fitted(part) and not _is_fitted(copied)
        for part, copied in zip(parts(estimator), parts(cloned), strict=True)
    )


def _renumbered(estimator: Any, known: tuple[Label, ...], y: Any) -> list[str]:
    """Return what to warn of if an estimator has other labels than those it was trained on."""
    if y is None or isinstance(estimator, FrozenEstimator):
        return []
    given = distinct_labels(y)[0]
    lost = np.flatnonzero(known_columns(given, known) < 0).tolist()
    made = np.flatnonzero(known_columns(known, given) < 0).tolist()
    if not lost or not made:
        return []
    return [
        f"The {type(estimator).__name__} has numbered the labels anew: it has no label "
        f"{given[lost[0]]!r} and a label {known[made[0]]!r} instead, and the plan is of its labels."
    ]
