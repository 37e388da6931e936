"""The layout of a summary. A value that does not exist is None."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from unlabel._method.temperature import COLDEST, HOTTEST
from unlabel.answers import AnswerRule
from unlabel.evaluation.impact import COUNTS_OF_TRUTH, SHARES
from unlabel.evaluation.trial import AGAIN, BASE, CALIBRATED, NAMES, RETRAINED
from unlabel.evaluation.truth import TRUTHS
from unlabel.labels import SURROGATES

SUMMARY = 3  # the number of this layout
MOST_ROWS = 1 << 53
ROUNDING = 1e-6  # by which shares may miss 0 and 1
UNKNOWN_ABOVE = [step / 100 for step in range(101)]  # the thresholds that are tried for unknown


class Value(NamedTuple):
    """A text or a number: a description of those that fit, and a test for them."""

    description: str
    fits: Callable[[Any], bool]


class Maybe(NamedTuple):
    """The layout of a part that may be None."""

    layout: Any


def _number(description: str, low: float, high: float, *types: type) -> Value:
    return Value(description, lambda value: type(value) in types and low <= value <= high)


ROW_COUNTS = (
    *("of_retained_labels", "of_removed_labels", "of_split_labels"),
    "without_true_label",  # all of them or none
)
BEFORE_AND_AFTER = ("log_loss", "calibration_error")
METHODS = (*NAMES.values(), RETRAINED, AGAIN)
OUTPUTS = {BASE, *METHODS, *(name + CALIBRATED for name in METHODS)}

TEXT = Value("a string", lambda value: isinstance(value, str) and not SURROGATES.search(value))
LABEL = Value("a string or a whole number", lambda value: type(value) in (str, int))
OUTPUT = Value("the name of an output", lambda value: isinstance(value, str) and value in OUTPUTS)
COUNT = _number("a number of rows", 0, MOST_ROWS, int)
ROWS = _number("a number of rows above 0", 1, MOST_ROWS, int)
SHARE = _number("a number from 0 to 1", -ROUNDING, 1 + ROUNDING, int, float)
PART = _number("a number above 0 and up to 1", math.ulp(0.0), 1 + ROUNDING, int, float)
NON_NEGATIVE = _number("a finite number from 0 up", 0.0, sys.float_info.max, int, float)
TRUTH = Value("old or new", lambda value: value in TRUTHS)
BOOLEAN = Value("true or false", lambda value: isinstance(value, bool))
SHA256 = Value(
    "64 hexadecimal digits",
    lambda value: isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None,
)
TEMPERATURE = _number("a temperature", COLDEST, HOTTEST, int, float)


def _kinds(layout: Any) -> dict[str, Any]:
    """Return one layout for the inputs of retained and of removed labels."""
    return {"retained": layout, "removed": layout}


DIVERGENCES = {"kl": _kinds(Maybe(NON_NEGATIVE)), "js": _kinds(Maybe(NON_NEGATIVE))}
BASE_FIGURES = {
    "output": Value(repr(BASE), lambda value: value == BASE),
    "temperature": Value("null", lambda value: value is None),
    "accuracy": _kinds(Maybe(SHARE)),  # the mean over labels
    "share_right": _kinds(Maybe(SHARE)),  # of rows
    "coverage": _kinds(Maybe(SHARE)),
    "ties": Maybe(SHARE),
    "log_loss": Maybe(NON_NEGATIVE),
    "calibration_error": Maybe(SHARE),
}
COUNTS = {"rows": ROWS, "changed": COUNT, "unknown": Maybe(COUNT)} | dict.fromkeys(
    COUNTS_OF_TRUTH, Maybe(COUNT)
)
FIGURES = BASE_FIGURES | {
    "output": OUTPUT,
    "temperature": TEMPERATURE,
    "impact": COUNTS,
    "kl_to_base": _kinds(Maybe(NON_NEGATIVE)),
    "changed": _kinds(Maybe(SHARE)),
    "to_retrained": Maybe(DIVERGENCES),
    "over_floor": Maybe(DIVERGENCES),
}
CHANGED_ROW = {
    "row": COUNT,
    "label": LABEL,
    "to": Maybe(LABEL),
    "before": LABEL,
    "before_confidence": SHARE,
    "after": LABEL,
    "after_confidence": SHARE,
}
INTERVAL = {"rows": COUNT, "low": SHARE, "high": SHARE}
LABEL_IMPACT: dict[str, Any] = {"label": LABEL, "rows": ROWS} | dict.fromkeys(
    SHARES, Maybe(INTERVAL)
)
LABEL_IMPACT["changed"] = INTERVAL
RULE = {
    "max_removed_mass": SHARE,
    "min_confidence": SHARE,
    "min_confidence_by_label": [{"label": LABEL, "min_confidence": SHARE}],
}
IMPACT = {
    "rule": Maybe(RULE),
    "pairs": [{"from": LABEL, "to": Maybe(LABEL), "rows": ROWS}],  # to None: unknown
    "other_pairs": {"pairs": COUNT, "rows": COUNT},
    "by_label": [LABEL_IMPACT],
    "before": dict.fromkeys(BEFORE_AND_AFTER, Maybe(NON_NEGATIVE)),
    "after": dict.fromkeys(BEFORE_AND_AFTER, Maybe(NON_NEGATIVE)),
}
MADE_FROM = {
    "date": Maybe(TEXT),
    "tables": [{"output": OUTPUT, "name": TEXT, "sha256": SHA256, "rows": ROWS}],
    "filter": Maybe({"name": TEXT, "sha256": SHA256}),
}
CHANGE = {"from": LABEL, "to": [{"label": LABEL, "weight": PART}]}
# A dict has exactly these keys, or any that fit if the key is a Value. A list is of any length.
# A tuple is a list whose first entry has a layout of its own.
LAYOUT = {
    "summary": Value(str(SUMMARY), lambda value: type(value) is int and value == SUMMARY),
    "unlabel": TEXT,
    "made_from": MADE_FROM,
    "truth": Maybe(TRUTH),
    "same_recipe": BOOLEAN,
    "shown": OUTPUT,
    "plan": dict.fromkeys(("title", "note", "digest"), TEXT),
    "labels": {"model": [LABEL], "removed": [LABEL], "retained": [LABEL], "changes": [CHANGE]},
    "rows": dict.fromkeys(("judged", *ROW_COUNTS, "fitted_on"), COUNT),
    "epsilon": PART,
    "figures": (BASE_FIGURES, [FIGURES]),
    "floor": Maybe(DIVERGENCES),
    "reliability": {OUTPUT: [{"confidence": SHARE, "accuracy": SHARE, "rows": ROWS}]},
    "notes": [TEXT],
    "moved_mass": _kinds(Maybe(SHARE)),
    "unknown": [{"above": SHARE, "caught": Maybe(SHARE), "lost": SHARE}],
    "changed_rows": _kinds(COUNT),
    "by_label": [
        {
            "label": LABEL,
            "to": Maybe(LABEL),
            "rows": COUNT,
            "before": Maybe(SHARE),
            "after": Maybe(SHARE),
        }
    ],
    "destinations": [
        {
            "label": LABEL,
            "rows": COUNT,
            "to": [{"label": LABEL, "share": PART}],
            "answers": [{"label": Maybe(LABEL), "rows": ROWS, "share": PART}],  # None: unknown
        }
    ],
    "most_changed": _kinds([CHANGED_ROW]),
    "impact": IMPACT,
}


def rule_as_dict(rule: AnswerRule) -> dict[str, Any]:
    """Return a rule as it stands in a summary, where unknown is null."""
    given = rule.min_confidence
    by_label = given if isinstance(given, Mapping) else {None: given}
    return {
        "max_removed_mass": rule.max_removed_mass,
        "min_confidence": by_label.get(None, 0.0),
        "min_confidence_by_label": [
            {"label": label, "min_confidence": least}
            for label, least in by_label.items()
            if label is not None
        ],
    }
