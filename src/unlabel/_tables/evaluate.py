"""Evaluate a change of labels on tables: a model's confidences, and those of retrained models."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from unlabel._files.atomic import sha256_of
from unlabel._skipped import SkippedRows
from unlabel._tables.files.streams import refuse_standard_input
from unlabel._tables.label_columns import TRUE_LABELS
from unlabel._tables.opening import names_in, open_predictions
from unlabel._tables.plans import plan_of_options
from unlabel._tables.predictions import Reading
from unlabel._tables.streaming import read_confidences
from unlabel._tables.truth import (
    OtherTruth,
    refuse_old_labels,
    refuse_other_labels,
    texts_of_labels,
)
from unlabel._typing import Floats, Kind, Label, Progress
from unlabel.answers import AnswerRule
from unlabel.errors import UnlabelError
from unlabel.evaluation.sources import (
    SourceFilter,
    Sources,
    SourceTable,
    distinct_digests,
    name_of,
    require_date,
)
from unlabel.evaluation.summary import Summary, summarise
from unlabel.evaluation.trial import AGAIN, BASE, RETRAINED, try_filter, try_labels
from unlabel.evaluation.truth import Truth, true_labels_of
from unlabel.filter import OutputFilter, outcome_of_filter

PathLike = str | os.PathLike[str]


def evaluate_tables(
    base: PathLike,
    *,
    plan: PathLike | None,
    remove: Sequence[str] | None,
    keep: Sequence[str] | None,
    filter: PathLike | None,
    retrained: Sequence[PathLike],
    same_recipe: bool,
    kind: Kind | None,
    label_column: str | None,
    truth: Truth,
    rule: AnswerRule | None,
    classes: Sequence[str] | None,
    reading: Reading,
    strict: bool,
    date: str | None,
    progress: Progress,
    allow_chance: bool = False,
) -> Summary:
    """Evaluate a change of labels, or a filter, on a table.

    Rows that cannot be judged are skipped; if `strict`, they are refused. Without true labels,
    which are in a column `label` unless `label_column` names another, only the answers before and
    after are compared.
    """
    if [plan, remove or None, keep or None, filter].count(None) != 3:
        raise UnlabelError("Give one of a plan, labels to remove, labels to keep and a filter.")
    if date is not None:
        require_date(date)
    for path in (base, *retrained):
        refuse_standard_input(path)
    digests = distinct_digests([base, *retrained])
    fitted = None if filter is None else OutputFilter.load(filter)
    names: Sequence[Label] | None = classes
    own_kind = kind or "probabilities"
    if fitted is not None:
        if classes is not None and [*classes] != [*map(str, fitted.classes_in)]:
            problem = "The filter has other labels, or in another order: leave these out."
            raise UnlabelError(problem, argument="classes")
        own_kind = kind or fitted.kind
        fitted, names = replace(fitted, kind=own_kind), fitted.classes_in

    def task(done: int) -> Progress:
        """Report the progress of one table, or of the summary at the end."""
        return lambda part: progress((done + part) / (2 + len(retrained)))

    truth_column = label_column or TRUE_LABELS
    predictions = open_predictions(base, names, reading, label_column=truth_column)
    classes_in = predictions.classes
    has_truth = label_column is not None or predictions.has(TRUE_LABELS)
    if has_truth:
        predictions.require_truth(truth_column)
    change = fitted
    if change is None:
        changes = plan_of_options(classes_in, plan, remove, keep)
        change = OutputFilter.from_plan(changes, classes=classes_in, kind=own_kind)
    known = true_labels_of(change.classes_in, outcome_of_filter(change), truth)
    skipped = OtherTruth(known.labels, change, truth)
    rows, labels, row_numbers = read_confidences(
        predictions,
        kind=own_kind,
        label_column=truth_column if has_truth else None,
        label_classes=known.labels,
        shown_by=texts_of_labels(change) if truth == "new" else None,
        skipped=None if strict else skipped,
        reading=reading,
        progress=task(0),
    )
    row_count = len(rows) + skipped.rows
    if labels is None and retrained:
        raise UnlabelError(
            f"It has no column {TRUE_LABELS!r}, and retrained models are judged by true labels: "
            "name their column.",
            argument="label_column",
            path=base,
        )

    def read_retrained(path: PathLike, progress: Progress) -> Floats:
        """Read a retrained model's table; its true labels, if any, must be the base's."""
        refuse_old_labels(path, names_in(path, reading), change)
        own = open_predictions(path, change.classes_out, reading, label_column=truth_column)
        own_column = truth_column if own.has(truth_column) else None
        if own_column is not None:
            own.require_truth(own_column)
        old_and_new = {str(label): label for label in (*change.classes_out, *change.classes_in)}
        own_skipped = SkippedRows([*old_and_new.values()])
        rows, own_labels, own_numbers = read_confidences(
            own,
            kind=own_kind,
            label_column=own_column,
            label_classes=own_skipped.classes,
            skipped=None if strict else own_skipped,
            reading=reading,
            progress=progress,
        )
        if len(rows) + own_skipped.rows != row_count:
            raise UnlabelError(
                f"It has {len(rows) + own_skipped.rows} rows and {base} {row_count}: give the "
                "same rows in the same order.",
                path=path,
            )
        if own_labels is None or labels is None:
            return rows[row_numbers] if skipped.rows else rows
        for row in np.setxor1d(row_numbers, own_numbers):
            raise UnlabelError(
                "It has a true label in only one of this table and the base model's: give the same "
                "rows in the same order.",
                row=int(row),
                path=path,
            )
        refuse_other_labels(path, own_labels, labels, change, truth, row_numbers)
        return rows

    models = [read_retrained(path, task(done)) for done, path in enumerate(retrained, start=1)]
    pa.default_memory_pool().release_unused()  # Arrow keeps some in case of another table
    if labels is None or fitted is not None:
        trial = try_filter(
            change, rows, labels, retrained=models, truth=truth, allow_chance=allow_chance
        )
    else:
        trial = try_labels(
            rows,
            labels,
            classes=classes_in,
            plan=change.plan,
            retrained=models,
            kind=own_kind,
            truth=truth,
            allow_chance=allow_chance,
        )
    notes = [*trial.notes]
    if labels is None:
        notes.append(
            f"There are no true labels (no column {TRUE_LABELS!r}): only the impact"
            f"{' of mask' if fitted is None and change.removed else ''} is shown."
        )
    if skipped.rows:
        notes.append(f"{skipped}.")
    outputs = zip((BASE, RETRAINED, AGAIN), (base, *retrained), digests, strict=False)
    trial = replace(
        trial,
        row_numbers=row_numbers[trial.row_numbers],
        notes=tuple(notes),
        rule=rule,
        same_recipe=same_recipe,
        sources=Sources(
            tuple(
                SourceTable(output, name_of(path), digest, row_count)
                for output, path, digest in outputs
            ),
            None if filter is None else SourceFilter(name_of(filter), sha256_of(filter)),
            date,
        ),
    )
    return summarise(trial, task(1 + len(retrained)))
