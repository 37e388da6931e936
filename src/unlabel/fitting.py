"""Fitting: what a filter learns from the model's outputs on rows whose labels are known."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from unlabel._method.sampling import Hashes, row_hashes, text_hashes
from unlabel._method.statistics import fit_steps
from unlabel._method.temperature import at_temperature, fit_temperature
from unlabel._plans.outcome import REMOVED, outcome_of
from unlabel._skipped import SkippedRows
from unlabel._typing import KINDS, METHODS, Columns, Float64s, Floats, Kind, Label, Method
from unlabel.errors import UnlabelError
from unlabel.labels import as_classes, listing
from unlabel.plan import plan_for
from unlabel.validation import (
    as_array,
    check_rows,
    choice,
    refuse_chance,
    refuse_probabilities,
    true_columns,
)

# More reference rows of a label change its statistics very little; fewer may make OSR worse than
# a mask.
MOST_REFERENCES, FEW_REFERENCES = 500, 100
MOST_CALIBRATED = 20_000
# Reference rows that the model gets right this often are probably its training rows.
SUSPICIOUS_ROWS, SUSPICIOUS_SHARE = 200, 0.995
# Of so many rows of a label, most should get that label: otherwise its column may be another's.
ENOUGH_FOR_ORDER = 20


class Fit(NamedTuple):
    """The arguments of `OutputFilter`, and sentences on how they were fitted."""

    state: dict[str, Any]
    remarks: list[str]


def fit_filter(
    confidences: Any,
    labels: Any,
    *,
    classes: Iterable[Any] | None = None,
    plan: Any = None,
    remove: Iterable[Any] | None = None,
    keep: Iterable[Any] | None = None,
    kind: Kind = "probabilities",
    method: Method = "osr",
    calibrate: bool = False,
    allow_chance: bool = False,
    skipped: SkippedRows | None = None,
) -> Fit:
    """Fit as `unlabel.OutputFilter.fit` describes; `skipped` counts the rows that are left out."""
    choice(method, METHODS, "method")
    choice(kind, KINDS, "kind")
    if not isinstance(calibrate, bool):
        raise UnlabelError(f"{calibrate!r} is neither True nor False.", argument="calibrate")
    names = None if classes is None else as_classes(classes)
    rows = as_array(confidences, names)
    names = tuple(range(rows.shape[-1])) if names is None else names
    lead, rows = rows.shape[:-1], rows.reshape(math.prod(rows.shape[:-1]), len(names))
    if not lead:
        raise UnlabelError("The confidences are a single vector: give rows, confidences[None, :]")
    check_rows(rows, kind, names)
    if kind == "logits":
        refuse_probabilities(rows)
    plan = plan_for(names, plan=plan, remove=remove, keep=keep)
    outcome = outcome_of(plan, names)
    skipped = SkippedRows(names) if skipped is None else skipped
    truth = np.full(len(rows), -1)
    if labels is not None:
        if len(lead) > 1:
            values = np.asanyarray(labels, dtype=None if hasattr(labels, "__array__") else object)
            labels = values.ravel() if values.shape == lead else values
        truth = true_columns(labels, names, len(rows), skipped, outcome.classes)
    elif calibrate or (method == "osr" and len(outcome.removed)):
        raise UnlabelError(
            "Reference rows need their true labels: give one per row.", argument="labels"
        )
    stays = np.flatnonzero((truth >= 0) & (outcome.columns[truth] != REMOVED))
    if not allow_chance:
        refuse_chance(rows[stays], truth[stays])
    hashes = text_hashes(names)
    temperature = 1.0
    if calibrate:
        at = calibration_rows(rows, truth, stays, hashes)
        temperature = fit_temperature(_exact(rows[at]), kind, truth[at])
    references = reference_rows(rows, truth, outcome.removed, hashes)
    means = shares = np.zeros((0, len(names)))
    remarks: list[str] = []
    if method == "osr":
        given = [at_temperature(_exact(rows[at]), kind, temperature)[0] for at in references]
        given_kind: Kind = kind if temperature == 1 else "logits"
        means, shares = fit_steps(given, outcome.removed, len(names), given_kind)
        remarks += _remarks([names[c] for c in outcome.removed.tolist()], references)
        remarks += _training_rows(rows, truth, references)
    state = {"classes_in": names, "plan": plan, "means": means, "shares": shares}
    state |= {"counts": tuple(map(len, references)), "method": method, "kind": kind}
    remarks += _other_answers(rows, truth, names)
    if skipped.rows:
        remarks.append(f"{skipped}.")
    return Fit(state | {"temperature": temperature}, remarks)


def _exact(rows: Floats) -> Float64s:
    return rows.astype(np.float64)


def calibration_rows(rows: Floats, truth: Columns, stays: Columns, hashes: Hashes) -> Columns:
    """Return the rows of labels that stay which the temperature is fitted on."""
    if len(stays) <= MOST_CALIBRATED:
        return stays
    mixed = row_hashes(rows[stays], hashes[truth[stays]])
    return np.asarray(stays[np.argsort(mixed, kind="stable")[:MOST_CALIBRATED]])


def reference_rows(rows: Floats, truth: Columns, removed: Columns, hashes: Hashes) -> list[Columns]:
    """Return the reference rows of each removed label, by hash: their order does not count."""
    at = np.flatnonzero(np.isin(truth, removed))
    labels = truth[at]
    order = np.lexsort((row_hashes(rows[at], hashes[labels]), labels))
    at, labels = at[order], labels[order]
    starts = np.searchsorted(labels, removed, "left")
    stops = np.minimum(np.searchsorted(labels, removed, "right"), starts + MOST_REFERENCES)
    return [at[start:stop] for start, stop in zip(starts, stops, strict=True)]


def _remarks(removed: list[Label], references: list[Columns]) -> Iterator[str]:
    sizes = dict(zip(removed, map(len, references), strict=True))
    none = [label for label, size in sizes.items() if size == 0]
    if none:
        yield f"No reference rows of {listing(none)}: masked, which needs none."
    few = [label for label, size in sizes.items() if 0 < size < FEW_REFERENCES]
    if few:
        least = min(few, key=sizes.__getitem__)
        yield (
            f"Fewer than {FEW_REFERENCES} reference rows of {listing(few)} ({least!r} has "
            f"{sizes[least]}): a mask may be as good."
        )


def _other_answers(rows: Floats, truth: Columns, names: tuple[Label, ...]) -> Iterator[str]:
    """Name labels whose rows mostly get one other label: columns may have changed places."""
    known, n = truth >= 0, len(names)
    pairs, counts = np.unique(truth[known] * n + rows[known].argmax(axis=1), return_counts=True)
    label, answer = np.divmod(pairs, n)
    sizes = np.bincount(truth[known], minlength=n)[label]
    odd = (label != answer) & (sizes >= ENOUGH_FOR_ORDER) & (2 * counts > sizes)
    if np.count_nonzero(odd) > 1:  # one alone is a hard label, not an order
        found = [
            f"{names[a]!r} with {names[b]!r}" for a, b in zip(label[odd], answer[odd], strict=True)
        ]
        more = f" and {len(found) - 4:,} more" if len(found) > 4 else ""
        yield (
            f"The model answers most rows of some labels with another one, {', '.join(found[:4])}"
            f"{more}: check the order of its labels."
        )


def _training_rows(rows: Floats, truth: Columns, references: list[Columns]) -> Iterator[str]:
    at = np.concatenate([np.zeros(0, dtype=np.intp), *references])
    right = float(np.mean(rows[at].argmax(axis=1) == truth[at])) if len(at) else 0.0
    if len(at) >= SUSPICIOUS_ROWS and right > SUSPICIOUS_SHARE:
        yield (
            f"The model gets {right:.1%} of the reference rows right: use rows that it was not "
            "trained on."
        )
