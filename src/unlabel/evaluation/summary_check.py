"""The check of a summary that was read from a file: every one that passes it can be shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from reprlib import Repr
from typing import Any

from unlabel.errors import UnlabelError
from unlabel.evaluation.impact import COUNTS_OF_TRUTH, MOST_PAIRS
from unlabel.evaluation.summary_layout import (
    BEFORE_AND_AFTER,
    LAYOUT,
    ROUNDING,
    ROW_COUNTS,
    UNKNOWN_ABOVE,
    Maybe,
    Value,
)
from unlabel.evaluation.trial import AGAIN, RETRAINED
from unlabel.labels import as_labels

SHORT = Repr()
SHORT.maxlevel = 1


def check_summary(summary: Any) -> None:
    """Raise an error for a summary of another layout, naming the first place that differs."""
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
    as_labels([*removed, *retained])
    yield bool(retained), "summary.labels retains no label"
    thresholds = [entry["above"] for entry in summary["unknown"]]
    has_truth = summary["truth"] is not None
    fits = thresholds == (UNKNOWN_ABOVE if removed and has_truth else [])
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
    total = sum(rows[kind] for kind in ROW_COUNTS)
    yield rows["judged"] == total, "summary.rows does not add up"
    yield has_truth == (rows["of_retained_labels"] > 0), "summary.rows contradicts summary.truth"
    without = 0 if has_truth else rows["judged"]
    yield rows["without_true_label"] == without, "summary.rows contradicts summary.truth"
    yield from _agreements_of_impact(summary)
    has_floor = summary["floor"] is not None
    yield has_floor == (AGAIN in outputs), "summary.floor contradicts the retrained models"
    for entry in summary["figures"][1:]:
        has_distance = RETRAINED in outputs and entry["output"] != RETRAINED
        fits = (entry["to_retrained"] is not None) == has_distance
        fits &= (entry["over_floor"] is not None) == (has_distance and has_floor)
        yield fits, f"the distances of {entry['output']} contradict the retrained models"


def _agreements_of_changes(summary: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    """Compare the labels before and after with the changes that lead from one to the other."""
    labels = summary["labels"]
    before = labels["model"]
    as_labels(before)
    as_labels([entry["label"] for entry in summary["by_label"]])
    as_labels([change["from"] for change in labels["changes"]])
    # A label that is not listed stays.
    to = {repr(label): [repr(label)] for label in before}
    for change in labels["changes"]:
        place = f"the change of {SHORT.repr(change['from'])}"
        yield (
            repr(change["from"]) in to,
            f"{place} is of a label that is not in summary.labels.model",
        )
        to[repr(change["from"])] = [repr(part["label"]) for part in change["to"]]
        as_labels([part["label"] for part in change["to"]])
        total = sum(part["weight"] for part in change["to"])
        fits = abs(total - 1) <= ROUNDING if change["to"] else True
        yield fits, f"{place} has weights that do not sum to 1"
    reached = {label for parts in to.values() for label in parts}
    retained = {*map(repr, labels["retained"])}
    yield reached == retained, "summary.labels.retained is not where the labels go"
    removed = {label for label, parts in to.items() if not parts}
    yield removed == {*map(repr, labels["removed"])}, "summary.labels.removed is of other labels"
    is_new = summary["truth"] == "new"
    known = {label: [label] for label in retained} if is_new else {}
    known = {label: parts for label, parts in to.items() if not is_new or len(parts) != 1} | known
    for entry in summary["by_label"]:
        place = f"summary.by_label sends {SHORT.repr(entry['label'])} elsewhere"
        parts = known.get(repr(entry["label"]), [None])
        expected = parts[0] if len(parts) == 1 else repr(None)
        yield repr(entry["to"]) == expected, place


def _agreements_of_impact(summary: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    """Compare the counts of changed answers with each other and with the rows."""
    rows, impact, has_truth = summary["rows"], summary["impact"], summary["truth"] is not None
    for entry in summary["figures"][1:]:
        counts, place = entry["impact"], f"the impact of {entry['output']}"
        of_truth = [counts[name] for name in COUNTS_OF_TRUTH]
        fits = [count is not None for count in of_truth] == [has_truth] * len(of_truth)
        yield fits, f"{place} contradicts summary.truth"
        is_filter = not entry["output"].startswith(RETRAINED)
        has_unknown = is_filter and impact["rule"] is not None
        yield (counts["unknown"] is not None) == has_unknown, f"{place} contradicts the rule"
        fits = counts["rows"] == rows["judged"]
        fits &= (counts["unknown"] or 0) <= counts["changed"] <= counts["rows"]
        if has_truth:
            judged, before, after, corrected, regressed, neither = of_truth
            fits &= judged == rows["of_retained_labels"] == corrected + regressed + neither
            fits &= before + corrected == after + regressed and max(before, after) <= judged
        yield fits, f"{place} does not add up"
        if entry["output"] == summary["shown"]:
            listed = sum(pair["rows"] for pair in impact["pairs"]) + impact["other_pairs"]["rows"]
            yield listed == counts["changed"], "summary.impact.pairs does not add up"
            same = all(impact["after"][name] == entry[name] for name in BEFORE_AND_AFTER)
            yield same, "summary.impact.after is of another output"
    yield len(impact["pairs"]) <= MOST_PAIRS, "summary.impact has too many pairs"
    total = sum(entry["rows"] for entry in impact["by_label"])
    yield total == rows["judged"], "summary.impact.by_label does not add up"
