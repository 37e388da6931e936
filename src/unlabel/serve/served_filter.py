"""A filter for answers of the Open Inference Protocol, without HTTP."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from unlabel._typing import Booleans, Columns, Float64s, Floats
from unlabel.allow import Allowed, bind
from unlabel.answers import AnswerRule, answer_columns, can_abstain, check_rule
from unlabel.errors import UnlabelError
from unlabel.filter import FilteredRows, OutputFilter, outcome_of_filter, require_filter
from unlabel.labels import listing
from unlabel.serve.asked import ALLOW_LIST, Asked, RequestError, read_asked
from unlabel.serve.labels import LabelNames
from unlabel.serve.metadata import new_metadata
from unlabel.serve.protocol import (
    BYTES,
    FLOATS,
    NUMBERS,
    Array,
    Message,
    ProtocolError,
    Tensor,
    plain_outputs,
    read_outputs,
    write_answer,
)
from unlabel.validation import ENOUGH_TO_TELL, refuse_probabilities


class MissingConfidencesError(ProtocolError):
    """An answer without the output that has the confidences."""

    def __init__(self, message: str, given: tuple[str, ...]) -> None:
        super().__init__(message, argument="output")
        self.given = given


@dataclass(frozen=True, eq=False)
class Changes:
    """What a filter did to the rows of an answer."""

    rows: int
    changed: int  # the number of rows whose answer changed
    removed_mass: Float64s
    output: str  # the name of the output with the confidences


class ServedFilter:
    """A filter in front of a model server, applied to the server's answers.

    Parameters
    ----------
    fitted : OutputFilter
    output : str, optional
        The output with the confidences, by default the only one of floating-point numbers whose
        last dimension is the number of the model's labels.
    labels : str or list of str, optional
        The outputs that give each row's label, by default those whose texts are labels of the
        model. An output with a whole number per row is refused unless the outputs are named.
    allow : labels, mapping of names to labels, or path, optional
        The labels of the result that answers may have. Where lists have names, each request names
        one in its parameter ``allow_list``.
    rule : AnswerRule, optional
        When the answer in an output of labels is unknown, which the rule must name.

    Examples
    --------
    >>> fitted = OutputFilter.from_plan({"cat": None}, classes=["cat", "dog", "fox"])
    >>> served = ServedFilter(fitted)
    >>> scores = {"name": "scores", "datatype": "FP64", "shape": [1, 3], "data": [.6, .3, .1]}
    >>> label = {"name": "label", "datatype": "BYTES", "shape": [1], "data": ["cat"]}
    >>> new_scores, new_label = served.answer({"outputs": [scores, label]})["outputs"]
    >>> new_scores["shape"], new_label["data"]
    ([1, 2], ['dog'])
    """

    def __init__(
        self,
        fitted: OutputFilter,
        *,
        output: str | None = None,
        labels: str | Iterable[str] | None = None,
        allow: Any = None,
        rule: AnswerRule | None = None,
    ) -> None:
        require_filter(fitted)
        self.fitted = fitted
        self.output = output
        labels = (labels,) if isinstance(labels, str) else labels
        self.labels = None if labels is None else tuple(labels)
        self.rule = AnswerRule() if rule is None else _named(rule, fitted)
        self._names = LabelNames(fitted, self.rule.unknown)
        if allow is not None:
            allow = bind(allow, fitted)
        self._lists = allow
        self._like_probabilities = 0  # the number of the latest rows that were, if logits are due

    def answer(
        self, answer: Mapping[str, Any], request: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Filter an answer given as a plain object, such as a decoded JSON body.

        Parameters
        ----------
        answer : mapping
            Its `outputs` have their data as (nested) lists or arrays.
        request : mapping, optional
            The request, for its parameter ``allow_list`` and the outputs that are to be classified.
        """
        if not isinstance(answer.get("outputs"), Sequence):
            raise ProtocolError("The answer has no outputs.")
        if not isinstance(answer.get("parameters"), Mapping | None):
            raise ProtocolError("The answer has parameters that are not an object.")
        request = request or {}
        asked = read_asked(request.get("parameters"), request.get("outputs"))
        outputs, changes = self.filter(plain_outputs(answer["outputs"]), asked)
        new = {**answer, "outputs": [output.as_fields() for output in outputs]}
        return {**new, **self._new_parameters(answer.get("parameters"), outputs, changes)}

    def rewrite(self, answer: Message, asked: Asked) -> tuple[bytes, int, Changes]:
        """Filter an answer as it came over HTTP.

        Returns its new body, the length of the JSON in it and what changed.
        """
        outputs, changes = self.filter(read_outputs(answer), asked)
        parameters = answer.field("parameters", dict[str, Any] | None, "The upstream's answer")
        changed = self._new_parameters(parameters, outputs, changes)
        return *write_answer(answer, outputs, **changed), changes

    def _new_parameters(
        self, parameters: Mapping[str, Any] | None, outputs: Sequence[Tensor], changes: Changes
    ) -> dict[str, Any]:
        """Return the parameters of an answer, if they change.

        Beside labels as the model's numbers, its list of labels stays. With the confidences too,
        whose columns are numbered anew, a client could take one for the other.
        """
        renamed = self._names.renamed(parameters) if parameters else None
        if parameters is None or renamed is None:
            return {}
        numbered = [
            each.name
            for each in outputs
            if each.name in (self.labels or ()) and each.datatype in NUMBERS
        ]
        if not numbered or self._names.are_numbers:
            return {"parameters": renamed}
        listed = [key for key, value in renamed.items() if value != parameters[key]]
        if listed and changes.output in [each.name for each in outputs]:
            raise ProtocolError(
                f"The answer's {listed[0]!r} lists the columns' labels, which change, and the "
                f"output {numbered[0]!r} keeps the model's numbers: ask for one of the two, the "
                "confidences or the labels."
            )
        return {}

    def filter(self, outputs: Sequence[Tensor], asked: Asked) -> tuple[list[Tensor], Changes]:
        """Filter the outputs of an answer."""
        found = self._confidences(outputs)
        rows: Floats = found.values()
        flat = rows.reshape(-1, rows.shape[-1])
        if self.fitted.kind == "logits":
            self._refuse_probabilities(found.name, flat)
        self._require_named_labels(outputs, rows)
        filtered, top = self._run(flat, self._allowed(asked.allow_list))
        changed = outcome_of_filter(self.fitted).has_changed(flat.argmax(axis=1), top) | (top < 0)
        result = filtered.confidences.reshape(*rows.shape[:-1], len(self.fitted.classes_out))
        new = [
            self._new_output(each, found, result, top, rows, asked)
            for each in outputs
            if asked.outputs is None or each.name in asked.outputs
        ]
        number = int(np.count_nonzero(changed))
        return new, Changes(len(flat), number, filtered.removed_mass, found.name)

    def _run(self, rows: Floats, allowed: Booleans | None) -> tuple[FilteredRows, Columns]:
        """Filter rows, and answer them with columns of the result, -1 for unknown."""
        filtered = self.fitted.run(rows if allowed is None else rows.astype(np.float64))
        undivided = filtered.confidences, filtered.removed_mass
        lists = None
        if allowed is not None:  # a list divides by the rest, which the rule must not see
            lists = Allowed(allowed[None], np.zeros(len(rows), dtype=np.intp))
            matrix = np.broadcast_to(allowed, (len(rows), len(allowed)))
            filtered = self.fitted.run(rows, allow=matrix)
        return filtered, answer_columns(self.rule, self.fitted.classes_out, *undivided, lists)

    def _refuse_probabilities(self, name: str, rows: Floats) -> None:
        """Refuse probabilities in place of logits, which a single row may be by chance."""
        try:
            refuse_probabilities(rows)
        except UnlabelError as error:
            self._like_probabilities += len(rows)
            if self._like_probabilities >= ENOUGH_TO_TELL:
                problem = f"The output {name!r} cannot be filtered: {error.problem}"
                raise ProtocolError(problem, argument=error.argument) from error
        else:
            self._like_probabilities = 0

    def _require_named_labels(self, outputs: Sequence[Tensor], rows: Floats) -> None:
        """Refuse an output of labels if another one was named that is not there."""
        if not self.labels or "" in self.labels or any(o.name in self.labels for o in outputs):
            return
        for each in outputs:
            if self._names.gives_labels(each, rows):
                raise ProtocolError(
                    f"The answer has no output {listing(self.labels)}, but {each.name!r} gives "
                    "labels: name it too.",
                    argument="labels",
                )

    def _confidences(self, outputs: Sequence[Tensor]) -> Tensor:
        """Find the output with the confidences."""
        n = len(self.fitted.classes_in)
        given = tuple(tensor.name for tensor in outputs)
        if self.output is not None:
            named = [tensor for tensor in outputs if tensor.name == self.output]
            if not named:
                raise MissingConfidencesError(
                    f"The answer has no output {self.output!r}, only {listing(given)}: name the "
                    "one with the confidences.",
                    given,
                )
            if named[0].datatype not in FLOATS or named[0].shape[-1:] != (n,):
                raise ProtocolError(
                    f"The output {self.output!r} has the shape {[*named[0].shape]} in "
                    f"{named[0].datatype}, not {n} labels in FP16, FP32 or FP64."
                )
            return named[0]
        fitting = [each for each in outputs if each.datatype in FLOATS and each.shape[-1:] == (n,)]
        if len(fitting) == 1:
            return fitting[0]
        if not fitting:
            raise MissingConfidencesError(
                f"None of the outputs ({listing(given)}) has {n} labels in FP16, FP32 or FP64: "
                "name the output with the confidences.",
                given,
            )
        raise ProtocolError(
            f"The outputs {listing([each.name for each in fitting])} have {n} columns each: name "
            "the one with the confidences.",
            argument="output",
        )

    def check(self, asked: Asked) -> None:
        """Refuse a request before the upstream works for it."""
        self._allowed(asked.allow_list)

    def _allowed(self, name: str | None) -> Booleans | None:
        """Return which labels of the result a request may have, None if all."""
        names = None if self._lists is None else self._lists.names
        if name is None and names:
            raise RequestError(
                "The request names no list of allowed labels: name one in its parameter "
                f"{ALLOW_LIST}; the lists are {listing(names)}."
            )
        if name is not None and name not in (names or ()):
            known = f"the lists are {listing(names)}" if names else "there are no lists with names"
            raise RequestError(f"The request names the unknown list {name!r}: {known}.")
        if self._lists is None:
            return None
        allowed: Booleans = self._lists.lists[names.index(name) if names and name else 0]
        return allowed

    def _new_output(
        self,
        tensor: Tensor,
        confidences: Tensor,
        result: Floats,
        top: Columns,
        rows: Floats,
        asked: Asked,
    ) -> Tensor:
        if tensor is confidences:
            number = asked.classified.get(tensor.name)
            parameters = self._names.renamed(tensor.parameters)
            if number is not None:
                return tensor.changed(self._classified(result, number), BYTES, parameters)
            return tensor.changed(result, parameters=parameters)
        if tensor.name in asked.classified:
            raise RequestError(
                f"The request wants classes of the output {tensor.name!r}, which has no "
                "confidences: ask for it as it is."
            )
        if self.labels is None:
            is_label = self._names.is_label_output(tensor, rows)
        else:
            is_label = tensor.name in self.labels
        return self._names.recomputed(tensor, rows, top) if is_label else tensor

    def _classified(self, result: Floats, number: int) -> Array:
        """Return the best labels of each row as texts, `value:column:label`, the best first."""
        names = self._names.new_texts
        best = np.argsort(-result, axis=-1, kind="stable")[..., :number]
        values = np.take_along_axis(result, best, axis=-1)
        texts = [
            f"{value:f}:{column}:{names[column]}"
            for value, column in zip(values.ravel().tolist(), best.ravel().tolist(), strict=True)
        ]
        return np.array(texts, dtype=object).reshape(best.shape)

    def metadata(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Return a model's metadata with the shape and the labels of the filter's result.

        Examples
        --------
        >>> fitted = OutputFilter.from_plan({"cat": None}, classes=["cat", "dog", "fox"])
        >>> served = ServedFilter(fitted)
        >>> scores = {"name": "scores", "datatype": "FP32", "shape": [-1, 3]}
        >>> served.metadata({"name": "animals", "outputs": [scores]})["outputs"][0]["shape"]
        [-1, 2]
        """
        return new_metadata(metadata, self._names, self.output)

    def rewrite_metadata(self, body: bytes) -> bytes:
        """Return a model's metadata as they come over HTTP with the result's shape and labels."""
        try:
            found = msgspec.json.decode(body, type=dict[str, Any])
            return msgspec.json.encode(self.metadata(found))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ProtocolError("The upstream's metadata is not a JSON object.") from error
        except (AttributeError, TypeError, IndexError, KeyError) as error:
            raise ProtocolError("The upstream's metadata has outputs that are not.") from error


def _named(rule: AnswerRule, fitted: OutputFilter) -> AnswerRule:
    """Return a rule whose unknown is a string, as answers are, or raise why it cannot be used."""
    check_rule(rule, fitted.classes_out)
    if rule.unknown is None:
        if can_abstain(rule):
            raise UnlabelError(
                "The rule can answer with unknown and has no name for it: give it one.",
                argument="rule",
            )
        return rule
    rule = replace(rule, unknown=str(rule.unknown))
    check_rule(rule, [*map(str, fitted.classes_out)])
    return rule
