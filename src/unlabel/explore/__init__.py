"""A page to explore a change of labels, as one HTML file that needs neither network nor server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unlabel._skipped import SkippedRows
from unlabel._typing import KINDS, Kind, Label
from unlabel.errors import UnlabelError
from unlabel.explore.document import BlankPage, as_text
from unlabel.explore.sample import Sample, strata_of
from unlabel.labels import as_classes
from unlabel.metrics._rows import checked_rows
from unlabel.validation import choice, refuse_probabilities, true_columns

__all__ = ["render"]

TITLE = "Explore a change of labels"


def render(
    confidences: Any,
    classes: Sequence[Label] | Mapping[Any, Label],
    labels: Any = None,
    ids: Any = None,
    *,
    kind: Kind = "probabilities",
    title: str = TITLE,
    rows: int = 5000,
) -> str:
    """Render a page on which to try changes of labels, which shows their effect at once.

    The page holds a sample of the rows, stratified by true label, or by the model's answer where
    there is none. Confidences are rounded to 16 bits, or to 8 if the page would get too large; if
    it still would, it holds fewer rows. The page states both the sample and the rounding.

    Parameters
    ----------
    confidences : array of shape (n_rows, n_labels)
        The model's outputs.
    classes : list of labels
        The labels of the model, in the order of its outputs.
    labels : array of shape (n_rows,), optional
        The true labels. Rows without one, or with one that the model does not have, are shown
        without it.
    ids : array of shape (n_rows,), optional
        Names for the rows, by default their numbers. Longer ones are cut after 1,000 characters.
    kind : {"probabilities", "logits"}
        The kind of confidences.
    title : str
        The heading of the page.
    rows : int
        The size of the sample, unless the page would get too large.

    Returns
    -------
    str
        An HTML document of less than 3,000,000 bytes, to be written as UTF-8. The same input gives
        the same text.

    Examples
    --------
    >>> page = render([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]], ["cat", "dog", "fox"], ["cat", "fox"])
    >>> page.startswith("<!DOCTYPE html>"), "https://" in page
    (True, False)
    """
    choice(kind, KINDS, "kind")
    names = as_classes(classes)
    outputs = checked_rows(confidences, kind, names)
    if kind == "logits":
        refuse_probabilities(outputs)
    skipped = SkippedRows(names)
    truth = None if labels is None else true_columns(labels, names, len(outputs), skipped)
    given = None if ids is None else [*ids]
    if given is not None and len(given) != len(outputs):
        raise UnlabelError(f"{len(outputs)} rows have {len(given)} ids: give one per row.")
    blank = BlankPage(names, as_text(title))
    strata = strata_of(outputs, truth)
    _, places = blank.draw(np.bincount(strata), rows).add(strata)
    texts = None if given is None else [as_text(given[place]) for place in places.tolist()]
    sample = Sample(outputs[places], None if truth is None else truth[places], places, texts)
    page = blank.filled(sample, kind, of=len(outputs), aside=skipped.of_other_labels)
    return page.html
