"""The layout of a summary, and the check of one read from a file.

Whatever passes the check can be rendered. A figure that does not exist is None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from reprlib import Repr
from typing import Any, NamedTuple

from unlabel._labels import SURROGATES, as_labels
from unlabel._method.temperature import COLDEST, HOTTEST
from unlabel.errors import UnlabelError
from unlabel.evaluation.trial import AGAIN, BASE, CALIBRATED, NAMES, RETRAINED

SUMMARY = 1  # the number of this layout
MOST_ROWS = 1 << 53
SHORT = Repr()
SHORT.maxlevel = 1
ROUNDING = 1e-6  # by which shares may miss 0 and 1


class Value(NamedTuple):
    """A text or a number, and which ones fit."""

    what: str
    fits: Callable[[Any], bool]


class Maybe(NamedTuple):
    """What may be None."""

    layout: Any


def _number(what: str, low: float, high: float) -> Value:
    return Value(what, lambda value: type(value) in (int, float) and low <= value <= high)


def _count(what: str, least: int) -> Value:
    return Value(what, lambda value: type(value) is int and least <= value <= MOST_ROWS)


def _is_label(value: Any) -> bool:
    return type(value) in (str, int, bool) or (type(value) is float and math.isfinite(value))


METHODS = (*NAMES.values(), RETRAINED, AGAIN)
OUTPUTS = {BASE, *METHODS, *(name + CALIBRATED for name in METHODS)}

TEXT = Value("a text", lambda value: isinstance(value, str) and not SURROGATES.search(value))
LABEL = Value("a text or a finite number", _is_label)
OUTPUT = Value("the name of an output", lambda value: isinstance(value, str) and value in OUTPUTS)
COUNT = _count("a number of rows", 0)
ROWS = _count("a number of rows from 1 on", 1)
SHARE = _number("a number from 0 to 1", -ROUNDING, 1 + ROUNDING)
PART = _number("a number above 0 and up to 1", math.ulp(0.0), 1 + ROUNDING)
FIGURE = _number("a finite number from 0 on", 0.0, float.fromhex("0x1.fffffffffffffp+1023"))
TEMPERATURE = _number("a temperature", COLDEST, HOTTEST)


def _kinds(layout: Any) -> dict[str, Any]:
    """The same for inputs of retained and of removed labels."""
    return {"retained": layout, "removed": layout}


DIVERGENCES = {"kl": _kinds(Maybe(FIGURE)), "js": _kinds(Maybe(FIGURE))}
BASE_FIGURES = {
    "output": Value(repr(BASE), lambda value: value == BASE),
    "temperature": Value("null", lambda value: value is None),
    "accuracy": _kinds(Maybe(SHARE)),
    "coverage": _kinds(Maybe(SHARE)),
    "ties": Maybe(SHARE),
    "log_loss": Maybe(FIGURE),
    "calibration_error": Maybe(SHARE),
}
FIGURES = BASE_FIGURES | {
    "output": OUTPUT,
    "temperature": TEMPERATURE,
    "kl_to_base": _kinds(Maybe(FIGURE)),
    "changed": _kinds(Maybe(SHARE)),
    "attack_auc": Maybe(SHARE),
    "to_retrained": Maybe(DIVERGENCES),
    "over_floor": Maybe(DIVERGENCES),
}
CHANGED_ROW = {
    "row": COUNT,
    "label": LABEL,
    "before": LABEL,
    "before_confidence": SHARE,
    "after": LABEL,
    "after_confidence": SHARE,
}
# A dict has these keys and no others, or any that fit where the key is a value; a list is of any
# length; a tuple is a list with a first entry of its own.
LAYOUT = {
    "summary": Value(str(SUMMARY), lambda value: type(value) is int and value == SUMMARY),
    "unlabel": TEXT,
    "shown": OUTPUT,
    "labels": {"removed": [LABEL], "retained": [LABEL]},
    "rows": {
        "judged": COUNT,
        "of_retained_labels": COUNT,
        "of_removed_labels": COUNT,
        "fitted_on": COUNT,
    },
    "epsilon": PART,
    "figures": (BASE_FIGURES, [FIGURES]),
    "seed_floor": Maybe(DIVERGENCES),
    "reliability": {OUTPUT: [{"confidence": SHARE, "accuracy": SHARE, "rows": ROWS}]},
    "notes": [TEXT],
    "moved_mass": _kinds(Maybe(SHARE)),
    "changed_rows": _kinds(COUNT),
    "by_label": [{"label": LABEL, "rows": COUNT, "before": Maybe(SHARE), "after": Maybe(SHARE)}],
    "destinations": [{"label": LABEL, "rows": COUNT, "to": [{"label": LABEL, "share": PART}]}],
    "most_changed": _kinds([CHANGED_ROW]),
}


def check_summary(summary: Any) -> None:
    """Refuse what is not a summary, naming the place."""
    _check(summary, LAYOUT, "summary")
    for agree, sentence in _agreements(summary):
        if not agree:
            raise UnlabelError(sentence)


def _check(value: Any, layout: Any, place: str) -> None:
    if isinstance(layout, Maybe):
        if value is None:
            return
        layout = layout.layout
    if isinstance(layout, Value):
        if not layout.fits(value):
            raise UnlabelError(f"{place} is {SHORT.repr(value)}, not {layout.what}")
        return
    if not isinstance(value, dict if isinstance(layout, dict) else list):
        what = "an object" if isinstance(layout, dict) else "a list"
        raise UnlabelError(f"{place} is {SHORT.repr(value)}, not {what}")
    for name, part, wanted in _parts(value, layout, place):
        _check(part, wanted, name)


def _parts(value: Any, layout: Any, place: str) -> Iterator[tuple[str, Any, Any]]:
    """Name the parts of a dict or a list, each with its own layout."""
    if isinstance(layout, dict):
        key, of = next(iter(layout.items()))
        if isinstance(key, Value):
            for name, part in value.items():
                _check(name, key, f"a key of {place}")
                yield f"{place}.{name}", part, of
            return
        for name in value:
            if name not in layout:
                raise UnlabelError(f"{place} has an unknown key {SHORT.repr(name)}")
        for name, of in layout.items():
            if name not in value:
                raise UnlabelError(f"{place} has no {name!r}")
            yield f"{place}.{name}", value[name], of
    else:
        first, rest = layout if isinstance(layout, tuple) else (layout[0], layout)
        for number, part in enumerate(value):
            yield f"{place}[{number}]", part, first if number == 0 else rest[0]


def _agreements(summary: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    """What the parts of a summary say of each other, each with what is said where they do not."""
    outputs = [entry["output"] for entry in summary["figures"]]
    yield len(set(outputs)) == len(outputs), "an output stands twice among its figures"
    yield summary["shown"] in outputs[1:], "the output that it shows is not among its figures"
    yield set(summary["reliability"]) == set(outputs), "its reliability is of other outputs"
    removed, retained = summary["labels"]["removed"], summary["labels"]["retained"]
    as_labels([*removed, *retained], "labels")
    yield bool(retained), "no label remains"
    by_label = [repr(entry["label"]) for entry in summary["by_label"]]
    yield (
        sorted(by_label) == sorted(map(repr, [*removed, *retained])),
        "by_label is of other labels",
    )
    origins = [entry["label"] for entry in summary["destinations"]]
    yield [*map(repr, origins)] == [*map(repr, removed)], "its destinations are of other labels"
    known = {*map(repr, retained)}
    for entry in summary["destinations"]:
        to = [repr(part["label"]) for part in entry["to"]]
        fits = len({*to} & known) == len(to)
        fits &= sum(part["share"] for part in entry["to"]) <= 1 + ROUNDING
        yield fits, f"the destinations of {SHORT.repr(entry['label'])} are not shares of labels"
    rows = summary["rows"]
    total = rows["of_retained_labels"] + rows["of_removed_labels"]
    yield rows["judged"] == total, "its rows do not add up"
    floor = summary["seed_floor"] is not None
    yield (
        floor == (AGAIN in outputs),
        "its seed floor and its retrained models contradict each other",
    )
    for entry in summary["figures"][1:]:
        far = RETRAINED in outputs and entry["output"] != RETRAINED
        fits = (entry["to_retrained"] is not None) == far
        fits &= (entry["over_floor"] is not None) == (far and floor)
        yield (
            fits,
            f"the distances of {entry['output']} and the retrained models contradict each other",
        )
