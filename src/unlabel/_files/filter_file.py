"""Read and write a filter's file: safetensors with one metadata key that holds canonical JSON.

The file is parsed, then checked, and only then is a filter built from it. A change of its
content is a new `PROTOCOL`: raise the number, keep reading the old ones, add a fixture of
the new one under ``tests/golden`` and describe it here.

Protocol 1
    Tensors ``means`` and ``shares`` (float64, one row per removed label and one column per
    label; for a mask, no rows) and ``counts`` (int64, one per removed label). Metadata
    ``unlabel``: an object with ``protocol``, ``classes``, ``plan``, ``method``, ``kind`` and
    ``temperature``. The plan is an object with ``title``, ``note``, ``unlisted``, the ``digest``
    of the plan, and the changes in their order, as three lists of equal length: ``from``
    (columns), ``to`` (a label, or null for a removed one) and ``weight`` (null but for a split
    label, which has one entry per part).
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from unlabel._files.atomic import cannot_read, require_file, whole_file
from unlabel._plans.outcome import digest_of
from unlabel._plans.parts import parts_of
from unlabel._printing import printable
from unlabel.errors import UnlabelError
from unlabel.labels import SHORT, known_columns, listing
from unlabel.plan import LabelPlan

if TYPE_CHECKING:
    from unlabel.filter import OutputFilter

PROTOCOL = 1
KEY = "unlabel"
TENSORS = {"means": "F64", "shares": "F64", "counts": "I64"}
FIELDS = {"protocol", "classes", "plan", "method", "kind", "temperature"}
PLAN_STRINGS = ("title", "note", "unlisted", "digest")
PLAN_LISTS = ("from", "to", "weight")
# The header names the labels: 4 MiB hold over 50,000 long names and are parsed within a second.
MAX_HEADER_BYTES = 4 << 20
# A description needs six brackets; millions of them, all empty, would fill the memory.
MAX_BRACKETS = 1000
STRINGS = re.compile(r'"(?:[^"\\]++|\\.)*+"')


def save(fitted: OutputFilter, path: str | os.PathLike[str]) -> None:
    """Write a filter's file."""
    description = {
        "protocol": PROTOCOL,
        "classes": fitted.classes_in,
        "plan": _describe_plan(fitted),
        "method": fitted.method,
        "kind": fitted.kind,
        "temperature": fitted.temperature,
    }
    counts = np.array(fitted.counts, dtype=np.int64)
    tensors = {"means": fitted.means, "shares": fitted.shares, "counts": counts}
    text = json.dumps(description, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    content = to_bytes(tensors, metadata={KEY: text})
    if int.from_bytes(content[:8], "little") > MAX_HEADER_BYTES:
        raise UnlabelError(
            f"The names of the labels take more than {MAX_HEADER_BYTES >> 20} MiB: shorten them to "
            "save the filter"
        )
    with whole_file(path) as part:
        part.write_bytes(content)


def _describe_plan(fitted: OutputFilter) -> dict[str, Any]:
    plan, lists = fitted.plan, {name: list[Any]() for name in PLAN_LISTS}
    columns = known_columns([*plan.changes], fitted.classes_in)
    for column, (_, parts) in zip(columns.tolist(), parts_of(plan), strict=True):
        for to, weight in parts or ((None, None),):
            entry = (column, to, weight if len(parts) > 1 else None)
            for name, value in zip(PLAN_LISTS, entry, strict=True):
                lists[name].append(value)
    strings = {"title": plan.title, "note": plan.note, "unlisted": plan.unlisted}
    return lists | strings | {"digest": digest_of(plan)}


def load(path: str | os.PathLike[str], make: type[OutputFilter]) -> OutputFilter:
    """Read a filter's file."""
    file = require_file(path)
    try:
        with file.open("rb") as content:
            if int.from_bytes(content.read(8), "little") > MAX_HEADER_BYTES:
                raise _malformed("its header is too long")
        with safe_open(file, framework="numpy") as content:
            state = _description((content.metadata() or {}).get(KEY))
            _check_tensors(content)
            tensors = {name: content.get_tensor(name) for name in TENSORS}
        try:
            return make(**state | tensors | {"counts": tuple(tensors["counts"].tolist())})
        except UnlabelError as error:
            raise _malformed(error.problem) from error
    except OSError as error:
        raise cannot_read(file, error) from error
    except SafetensorError as error:
        raise _malformed(printable(str(error)), file) from error
    except UnlabelError as error:
        error.path = file
        raise


def read_protocol(path: str | os.PathLike[str]) -> int:
    """Read the protocol number of a file that `load` has read."""
    with safe_open(path, framework="numpy") as content:
        return int(json.loads(content.metadata()[KEY])["protocol"])


def _description(text: str | None) -> dict[str, Any]:
    """Read the description into the arguments of `OutputFilter`."""
    if text is None:
        raise _malformed("it is a safetensors file without unlabel's description")
    without_strings = STRINGS.sub("", text)
    if without_strings.count("[") + without_strings.count("{") > MAX_BRACKETS:
        raise _malformed("its description has too many brackets")
    try:
        description = json.loads(text, parse_constant=no_constant)
    except (ValueError, RecursionError) as error:
        raise _malformed("its description is not JSON") from error
    if not isinstance(description, dict):
        raise _malformed("its description is not an object")
    if "input" in description:
        raise UnlabelError("It was written before the first release of unlabel: fit it again")
    protocol = description.pop("protocol", None)
    if type(protocol) is not int or protocol < 1:
        raise _malformed("its description has no protocol number")
    if protocol > PROTOCOL:
        raise UnlabelError(
            f"It has protocol {protocol}, and this version of unlabel reads up to {PROTOCOL}: "
            "upgrade unlabel to load it"
        )
    if {*description, "protocol"} != FIELDS:
        raise _malformed("its description does not have the fields of its protocol")
    if type(description["temperature"]) not in (int, float):
        raise _malformed("its temperature is not a number")
    if not isinstance(description["classes"], list):
        raise _malformed("its classes are not a list")
    classes = tuple(description.pop("classes"))
    return description | {"classes_in": classes, "plan": _plan(description["plan"], classes)}


def _plan(plan: Any, classes: tuple[Any, ...]) -> LabelPlan:
    if not isinstance(plan, dict) or set(plan) != {*PLAN_LISTS, *PLAN_STRINGS}:
        raise _malformed("its plan does not have the fields of its protocol")
    if not all(isinstance(plan[name], str) for name in PLAN_STRINGS):
        raise _malformed(f"its plan's {listing(PLAN_STRINGS)} are not strings")
    lists = [plan[name] for name in PLAN_LISTS]
    if not all(isinstance(each, list) and len(each) == len(lists[0]) for each in lists):
        raise _malformed("its plan is not three lists of the same length")
    changes: dict[int, Any] = {}
    for column, to, weight in zip(*lists, strict=True):
        if type(column) is not int or not 0 <= column < len(classes):
            raise _malformed(f"its plan changes the column {column!r}")
        if isinstance(to, list | dict):
            raise _malformed(f"its plan sends the column {column} to {SHORT.repr(to)}")
        if weight is None and column not in changes:
            changes[column] = to
        elif weight is not None and isinstance(changes.setdefault(column, {}), dict):
            changes[column][to] = weight
        else:
            raise _malformed(f"its plan changes the column {column} twice")
    try:
        named = {classes[column]: to for column, to in changes.items()}
        made = LabelPlan(named, **{name: plan[name] for name in PLAN_STRINGS[:-1]})
    except (UnlabelError, TypeError) as error:  # a label that is a list
        raise _malformed(str(error).rstrip(".")) from error
    if digest_of(made) != plan["digest"]:
        raise _malformed(f"the digest of its plan is {digest_of(made)}, not {plan['digest']}")
    return made


def _check_tensors(content: Any) -> None:
    """Compare types and dimensions before a tensor is read; the filter checks the shapes."""
    if set(content.keys()) != set(TENSORS):
        raise _malformed(f"it holds the tensors {sorted(content.keys())}")
    for name, dtype in TENSORS.items():
        tensor = content.get_slice(name)
        dimensions = 1 if name == "counts" else 2
        if tensor.get_dtype() != dtype or len(tensor.get_shape()) != dimensions:
            raise _malformed(f"its tensor {name} is {tensor.get_dtype()} {tensor.get_shape()}")


def _malformed(why: str, path: Path | None = None) -> UnlabelError:
    return UnlabelError(f"It is not a filter that unlabel saved: {why}. Fit it again", path=path)


def no_constant(name: str) -> float:
    """Raise an error for NaN and Infinity, which Python accepts and JSON does not."""
    raise ValueError(f"{name} is not JSON")
