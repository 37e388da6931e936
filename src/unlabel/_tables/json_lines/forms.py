"""Find the scores in a JSON line: their place and their form."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from typing import Any

from unlabel._tables.json_lines.fields import Path, find_path, named, value_at
from unlabel._tables.json_lines.objects import LabelFields, ScoreList, ScoreObject
from unlabel._tables.json_lines.scores import (
    LABELS,
    LISTS_OF_LABELS,
    LISTS_OF_LOGS,
    LISTS_OF_SCORES,
    LOGS,
    SCORES,
    EntryList,
    Form,
    Pair,
    TwoLists,
)
from unlabel._tables.predictions import Reading
from unlabel.errors import UnlabelError
from unlabel.labels import listing

SINGULAR = [*product(LABELS, (*SCORES, *LOGS))]
PLURAL = [*product(LISTS_OF_LABELS, (*LISTS_OF_SCORES, *LISTS_OF_LOGS))]
CHOOSE = "choose the place of the scores, such as scores, or 0 in a list"


@dataclass(frozen=True)
class Search:
    """A search for the scores of a model's labels, or of any if those are not known."""

    reading: Reading
    known: tuple[str, ...] | None

    def form(self, line: Any) -> Form | None:
        """Find the scores under the key, or at the top level, or in the only field with scores.

        Where neither the line nor a key says which fields are labels, there is no form yet.
        """
        if self.reading.key is not None:
            return self._under_key(line, self.reading.key)
        top = form_at(line, ())
        if not isinstance(line, dict):
            if top is None:
                raise UnlabelError(
                    f"It is {kind_of(line)} without scores: {CHOOSE}.", row=0, argument="key"
                )
            return self._whole(top)
        is_pair = isinstance(top, Pair)
        if isinstance(top, TwoLists):
            return top
        if isinstance(top, Pair) and self._may_name_one:
            self._refuse_best_of_others(line, top)
            return top
        labels = [label for label in self.known or () if is_number(line.get(label))]
        by_name = LabelFields(self.known or ())
        if labels and (self.reading.partial or len(labels) == len(by_name.labels)):
            return by_name
        if (inner := self._in_fields(line)) is not None:
            return inner
        if labels:
            return by_name
        if is_pair:
            return top
        if self.known is not None:
            raise UnlabelError(
                f"It has no scores of the labels {listing(self.known)} in the fields "
                f"{listing([*line])}: {CHOOSE}.",
                row=0,
                argument="key",
            )
        return None

    def _refuse_best_of_others(self, line: Mapping[str, Any], pair: Pair) -> None:
        """Refuse an answer that is the best of the scores in another field, which would stay."""
        inner = None
        with suppress(UnlabelError):  # of several such fields
            inner = None if self.known is None else self._in_fields(line)
        if inner is None or str(line[pair.label]) not in map(str, inner.labels_in(line)):
            return
        raise UnlabelError(
            f"It has an answer in {pair.label!r} and its scores in {named(inner.path)!r}: "
            f"{CHOOSE}.",
            row=0,
            argument="key",
        )

    @property
    def _may_name_one(self) -> bool:
        """Whether a line may name a single label."""
        return self.reading.partial or (self.known is not None and len(self.known) == 1)

    def _under_key(self, line: Any, key: str) -> Form:
        path = find_path(line, key)
        if path is None:
            fields = f"; its fields are {listing([*line])}" if isinstance(line, dict) else ""
            raise UnlabelError(f"It has no field {key!r}{fields}: {CHOOSE}.", row=0, argument="key")
        value = value_at(line, path)
        form = form_at(value, path)
        if form is None and isinstance(value, dict) and value:
            form = ScoreObject(path)  # one that has mistakes in it
        if form is None:
            raise UnlabelError(
                f"It has {kind_of(value)} without scores in {key!r}: {CHOOSE}.",
                row=0,
                argument="key",
            )
        return self._whole(form)

    def _whole(self, form: Form) -> Form:
        if isinstance(form, ScoreList) and self.reading.partial:
            raise UnlabelError(
                "It has scores without labels, of which none can be left out: give whole rows.",
                argument="partial",
                row=0,
            )
        return form

    def _in_fields(self, line: Mapping[str, Any]) -> Form | None:
        """Find the only field with scores, or the only one with those of the model's labels."""
        found = {name: form_at(value, (name,)) for name, value in line.items()}
        forms = {
            name: form
            for name, form in found.items()
            if form is not None
            and not isinstance(form, ScoreList)  # it may be an embedding
            and self._are_scores(form, line)
        }
        whole = {name: form for name, form in forms.items() if not isinstance(form, Pair)}
        if whole and not self._may_name_one:
            forms = whole
        fitting = {name: form for name, form in forms.items() if self._fits(form, line)}
        chosen = fitting or forms
        if len(chosen) > 1:
            raise UnlabelError(
                f"It has scores in the fields {listing([*chosen])}: {CHOOSE}.",
                row=0,
                argument="key",
            )
        return next(iter(chosen.values()), None)

    def _are_scores(self, form: Form, line: Any) -> bool:
        """Whether numbers in an object are scores; those of unknown names are decimals."""
        if not isinstance(form, ScoreObject):
            return True
        if self.known is None:
            return any(isinstance(score, float) for score in value_at(line, form.path).values())
        return self._fits(form, line)

    def _fits(self, form: Form, line: Any) -> bool:
        """Whether a line names labels of the model."""
        if self.known is None:
            return True
        known = {*self.known, *map(str.strip, self.known)}
        are_known = [
            not known.isdisjoint({str(label), str(label).strip()}) for label in form.labels_in(line)
        ]
        return any(are_known) if self.reading.other_labels == "removed" else all(are_known)


def form_at(value: Any, path: Path) -> Form | None:
    """Find the form of the scores at a path, if there are any."""
    if isinstance(value, list):
        if value and all(isinstance(entry, dict) for entry in value):
            names = next((pair for pair in SINGULAR if {*pair} <= value[0].keys()), None)
            if names is None or any(names[0] not in entry for entry in value):
                return None
            order = tuple(name for name in value[0] if name in names)
            return EntryList(path, *names, order)
        return ScoreList(path, len(value)) if value and all(map(is_number, value)) else None
    if not isinstance(value, dict):
        return None
    for label, score in PLURAL:
        if isinstance(value.get(label), list) and isinstance(value.get(score), list):
            return TwoLists(path, label, score)
    for label, score in SINGULAR:
        if isinstance(value.get(label), str | int) and is_number(value.get(score)):
            return Pair(path, label, score)
    return ScoreObject(path) if value and all(map(is_number, value.values())) else None


def is_number(value: Any) -> bool:
    """Whether a decoded value is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def kind_of(value: Any) -> str:
    """Name the kind of a decoded value."""
    kinds = {"dict": "an object", "list": "a list", "str": "a text", "bool": "true or false"}
    return "null" if value is None else kinds.get(type(value).__name__, "a number")
