"""Plans as the command line gives them: labels and destinations as texts, or a file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from unlabel._labels import listing, no_such_label
from unlabel._typing import InputKind, Label, Method
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter
from unlabel.plan import LabelPlan, plan_for


def plan_of_texts(
    classes: Sequence[Label],
    remove: Sequence[str] | None,
    keep: Sequence[str] | None = None,
    *,
    from_column: str | None = None,
    to_column: str | None = None,
) -> LabelPlan:
    """Make the plan that options such as ``--remove a=b``, ``--remove @plan.toml`` say."""
    texts = _Texts(classes)
    file = None if remove is None else _file_of(remove, texts)
    if file is None and (from_column is not None or to_column is not None):
        raise UnlabelError("--from and --to name columns of a plan: give it as --remove @FILE.")
    if remove is None:
        kept = None if keep is None else [each for text in keep for each in texts.listed(text)]
        return plan_for(classes, None, kept)
    if file is not None:
        plan = LabelPlan.read(file, from_column=from_column, to_column=to_column)
    else:
        plan = LabelPlan.of_pairs(change for text in remove for change in texts.changes(text))
    return plan_for(classes, plan, keep)


def filter_of_texts(
    classes: Sequence[Label] | None,
    remove: Sequence[str] | None,
    keep: Sequence[str] | None,
    *,
    method: Method,
    input: InputKind,
    calibrate: bool,
    from_column: str | None,
    to_column: str | None,
    title: str | None,
    note: str | None,
) -> OutputFilter:
    """Make a filter that needs no reference rows, from the labels of a model."""
    if classes is None:
        raise UnlabelError(
            "Neither a table nor --classes names the labels: give a table of reference rows, or "
            "the model's labels with --classes and --method mask, which needs no rows."
        )
    if calibrate:
        raise UnlabelError("--calibrate needs reference rows: give a table, or leave it out.")
    plan = plan_of_texts(classes, remove, keep, from_column=from_column, to_column=to_column)
    mask = OutputFilter.mask(classes, plan.named(title, note), input=input)
    if method != "mask" and mask.removed:
        raise UnlabelError(
            f"Retiring {listing(mask.removed)} needs reference rows: give a table of them, or "
            "--method mask, which needs none."
        )
    return replace(mask, method=method)


def _file_of(remove: Sequence[str], texts: _Texts) -> str | None:
    files = [text for text in remove if text.startswith("@") and not texts.label_at(text, 0)]
    if not files:
        return None
    if len(remove) > 1:
        raise UnlabelError(
            f"--remove {files[0]} is a whole plan: give it alone, and the other changes in it."
        )
    return files[0][1:]


class _Texts:
    """The labels of a model as texts, found at the start of other texts."""

    def __init__(self, classes: Sequence[Label]) -> None:
        self.classes = classes
        # A label that is a text comes before one that is written like it.
        self.labels: dict[str, Label] = {
            str(label): label for label in classes if not isinstance(label, str)
        }
        self.labels |= {label: label for label in classes if isinstance(label, str)}
        self.longest = max(map(len, self.labels), default=0)

    def label_at(self, text: str, start: int, ends: str = ",=") -> str | None:
        """Find the longest label at a place, up to one of the characters `ends` or the end."""
        for stop in range(min(len(text), start + self.longest), start - 1, -1):
            if (stop == len(text) or text[stop] in ends) and text[start:stop] in self.labels:
                return text[start:stop]
        return None

    def changes(self, text: str) -> Iterator[tuple[Label, Label | None]]:
        """Split an option into labels and destinations: ``a,b=c`` retires a and sends b to c."""
        start = 0
        while start <= len(text):
            label = self._known_at(text, start)
            start += len(label) + 1
            to = None
            if text[start - 1 : start] == "=":
                to = self.label_at(text, start, ",") or text[start:].split(",", 1)[0]
                if not to:
                    raise UnlabelError(
                        f"--remove {text!r} has no label after {label + '='!r}: write one, or "
                        f"{label!r} alone to retire it."
                    )
                start += len(to) + 1
            yield self.labels[label], self.labels.get(to, to) if to else None

    def listed(self, text: str) -> Iterator[Label]:
        """Split an option into labels."""
        start = 0
        while start <= len(text):
            label = self._known_at(text, start, ",")
            start += len(label) + 1
            yield self.labels[label]

    def _known_at(self, text: str, start: int, ends: str = ",=") -> str:
        label = self.label_at(text, start, ends)
        if label is not None:
            return label
        unknown = re.split(f"[{ends}]", text[start:], maxsplit=1)[0]
        if not unknown:
            raise UnlabelError(f"{text!r} names an empty label: write one label between commas.")
        raise no_such_label(unknown, self.classes)
