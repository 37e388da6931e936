"""The layout of a summary, and the check of one read from a file.

Every summary that passes the check can be rendered. A value that does not exist is None.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from reprlib import Repr
from typing import Any, NamedTuple

from unlabel._labels import SURROGATES, as_labels
from unlabel._method.temperature import COLDEST, HOTTEST
from unlabel.errors import UnlabelError
from unlabel.evaluation.trial import AGAIN, BASE, CALIBRATED, NAMES, RETRAINED

SUMMARY = 2  # the number of this layout
MOST_ROWS = 1 << 53
SHORT = Repr()
SHORT.maxlevel = 1
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


KINDS = ("retained", "removed", "split")
METHODS = (*NAMES.values(), RETRAINED, AGAIN)
OUTPUTS = {BASE, *METHODS, *(name + CALIBRATED for name in METHODS)}

TEXT = Value("a text", lambda value: isinstance(value, str) and not SURROGATES.search(value))
LABEL = Value(
    "a text or a finite number",
    lambda value: isinstance(value, str | int) or (type(value) is float and math.isfinite(value)),
)
OUTPUT = Value("the name of an output", lambda value: isinstance(value, str) and value in OUTPUTS)
COUNT = _number("a number of rows", 0, MOST_ROWS, int)
ROWS = _number("a number of rows above 0", 1, MOST_ROWS, int)
SHARE = _number("a number from 0 to 1", -ROUNDING, 1 + ROUNDING, int, float)
PART = _number("a number above 0 and up to 1", math.ulp(0.0), 1 + ROUNDING, int, float)
NON_NEGATIVE = _number("a finite number from 0 up", 0.0, sys.float_info.max, int, float)
TEMPERATURE = _number("a temperature", COLDEST, HOTTEST, int, float)


def _kinds(layout: Any) -> dict[str, Any]:
    """Give the inputs of retained and of retired labels the same layout."""
    return {"retained": layout, "removed": layout}


DIVERGENCES = {"kl": _kinds(Maybe(NON_NEGATIVE)), "js": _kinds(Maybe(NON_NEGATIVE))}
BASE_FIGURES = {
    "output": Value(repr(BASE), lambda value: value == BASE),
    "temperature": Value("null", lambda value: value is None),
    "accuracy": _kinds(Maybe(SHARE)),
    "coverage": _kinds(Maybe(SHARE)),
    "ties": Maybe(SHARE),
    "log_loss": Maybe(NON_NEGATIVE),
    "calibration_error": Maybe(SHARE),
}
FIGURES = BASE_FIGURES | {
    "output": OUTPUT,
    "temperature": TEMPERATURE,
    "kl_to_base": _kinds(Maybe(NON_NEGATIVE)),
    "changed": _kinds(Maybe(SHARE)),
    "attack_auc": Maybe(SHARE),
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
CHANGE = {"from": LABEL, "to": [{"label": LABEL, "weight": PART}]}
# A dict has exactly these keys, or any that fit if the key is a Value. A list is of any length.
# A tuple is a list whose first entry has a layout of its own.
LAYOUT = {
    "summary": Value(str(SUMMARY), lambda value: type(value) is int and value == SUMMARY),
    "unlabel": TEXT,
    "shown": OUTPUT,
    "plan": dict.fromkeys(("title", "note", "digest"), TEXT),
    "labels": {"removed": [LABEL], "retained": [LABEL], "changes": [CHANGE]},
    "rows": dict.fromkeys(("judged", *(f"of_{kind}_labels" for kind in KINDS), "fitted_on"), COUNT),
    "epsilon": PART,
    "figures": (BASE_FIGURES, [FIGURES]),
    "seed_floor": Maybe(DIVERGENCES),
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
    "destinations": [{"label": LABEL, "rows": COUNT, "to": [{"label": LABEL, "share": PART}]}],
    "most_changed": _kinds([CHANGED_ROW]),
}


def check_summary(summary: Any) -> None:
    """Refuse a summary of another layout, naming the first place that differs."""
    _check(summary, LAYOUT, "summary")
    for agree, problem in _agreements(summary):
        if not agree:
            raise UnlabelError(problem)


def _check(value: Any, layout: Any, place: str) -> None:
    if isinstance(layout, Maybe):
        if value is None:
            return
        layout = layout.layout
    if isinstance(layout, Value):
        fits, description = layout.fits(value), layout.description
    elif isinstance(layout, dict):
        fits, description = isinstance(value, dict), "an object"
    else:
        fits, description = isinstance(value, list), "a list"
    if not fits:
        raise UnlabelError(f"{place} is {SHORT.repr(value)}, not {description}")
    if isinstance(layout, dict):
        _check_keys(value, layout, place)
    elif not isinstance(layout, Value):
        first, rest = layout if isinstance(layout, tuple) else (layout[0], layout)
        for number, part in enumerate(value):
            _check(part, rest[0] if number else first, f"{place}[{number}]")


def _check_keys(value: dict[str, Any], layout: dict[Any, Any], place: str) -> None:
    (key, *_) = layout
    if isinstance(key, Value):
        for name in value:
            _check(name, key, f"a key of {place}")
        layout = dict.fromkeys(value, layout[key])
    for name in value:
        if name not in layout:
            raise UnlabelError(f"{place} has an unknown key {SHORT.repr(name)}")
    for name, part in layout.items():
        if name not in value:
            raise UnlabelError(f"{place} has no {name!r}")
        _check(value[name], part, f"{place}.{name}")


def _agreements(summary: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    """Compare the parts of a summary; each result comes with the problem if they disagree."""
    outputs = [entry["output"] for entry in summary["figures"]]
    yield len(set(outputs)) == len(outputs), "summary.figures has an output twice"
    yield summary["shown"] in outputs[1:], "summary.shown is not in summary.figures"
    yield {*summary["reliability"]} == {*outputs}, "summary.reliability is of other outputs"
    removed, retained = summary["labels"]["removed"], summary["labels"]["retained"]
    as_labels([*removed, *retained], "labels")
    yield bool(retained), "summary.labels retains no label"
    thresholds = [entry["above"] for entry in summary["unknown"]]
    fits = thresholds == (UNKNOWN_ABOVE if removed else [])
    yield fits, "summary.unknown is of other thresholds"
    yield from _agreements_of_changes(summary)
    origins = [repr(entry["label"]) for entry in summary["destinations"]]
    yield origins == [*map(repr, removed)], "summary.destinations is of other labels"
    known = {*map(repr, retained)}
    for entry in summary["destinations"]:
        to = [repr(part["label"]) for part in entry["to"]]
        fits = len({*to} & known) == len(to)
        fits &= sum(part["share"] for part in entry["to"]) <= 1 + ROUNDING
        yield fits, f"the destinations of {SHORT.repr(entry['label'])} are not shares of labels"
    rows = summary["rows"]
    total = rows["of_retained_labels"] + rows["of_removed_labels"] + rows["of_split_labels"]
    yield rows["judged"] == total, "summary.rows does not add up"
    has_floor = summary["seed_floor"] is not None
    yield has_floor == (AGAIN in outputs), "summary.seed_floor contradicts the retrained models"
    for entry in summary["figures"][1:]:
        has_distance = RETRAINED in outputs and entry["output"] != RETRAINED
        fits = (entry["to_retrained"] is not None) == has_distance
        fits &= (entry["over_floor"] is not None) == (has_distance and has_floor)
        yield fits, f"the distances of {entry['output']} contradict the retrained models"


def _agreements_of_changes(summary: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    """Compare the labels before and after with the changes that lead from one to the other."""
    labels = summary["labels"]
    before = [entry["label"] for entry in summary["by_label"]]
    as_labels(before, "by_label")
    as_labels([change["from"] for change in labels["changes"]], "labels.changes")
    # A label that is not listed stays.
    to = {repr(label): [repr(label)] for label in before}
    for change in labels["changes"]:
        place = f"the change of {SHORT.repr(change['from'])}"
        yield repr(change["from"]) in to, f"{place} is of a label that is not in summary.by_label"
        to[repr(change["from"])] = [repr(part["label"]) for part in change["to"]]
        as_labels([part["label"] for part in change["to"]], place)
        total = sum(part["weight"] for part in change["to"])
        fits = abs(total - 1) <= ROUNDING if change["to"] else True
        yield fits, f"{place} has weights that do not sum to 1"
    reached = {label for parts in to.values() for label in parts}
    retained = {*map(repr, labels["retained"])}
    yield reached == retained, "summary.labels.retained is not where the labels go"
    retired = {label for label, parts in to.items() if not parts}
    yield retired == {*map(repr, labels["removed"])}, "summary.labels.removed is of other labels"
    for entry in summary["by_label"]:
        parts = to[repr(entry["label"])]
        expected = parts[0] if len(parts) == 1 else repr(None)
        fits = repr(entry["to"]) == expected
        yield fits, f"summary.by_label sends {SHORT.repr(entry['label'])} elsewhere"
