"""Read and write a filter's file: safetensors with one metadata key that holds canonical JSON.

The file is parsed, then checked, and only then is a filter built from it. A change of its
content is a new `PROTOCOL`: raise the number, keep reading the old ones, add a fixture of
the new one under ``tests/golden`` and describe it here.

Protocol 1
    Tensors ``means`` and ``shares`` (float64, one row per retired label and one column per
    label) and ``counts`` (int64, one per retired label). Metadata ``unlabel``: an object with
    ``protocol``, ``classes``, ``removed``, ``method``, ``input`` and ``temperature``.

Protocol 2
    The same with ``plan`` in the place of ``removed``: an object with ``title``, ``note``,
    ``unlisted``, the ``digest`` of the plan, and the changes in their order, as three lists of
    equal length: ``from`` (columns), ``to`` (a label, or null for a retired one) and ``weight``
    (null but for a split label, which has one entry per part). The ``means`` and ``shares`` of a
    mask have no rows; files with rows of zeros in their places load, too.
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
from unlabel._labels import SHORT, known_columns, listing
from unlabel._printing import printable
from unlabel.errors import UnlabelError

if TYPE_CHECKING:
    from unlabel.filter import OutputFilter

PROTOCOL = 2
KEY = "unlabel"
TENSORS = {"means": "F64", "shares": "F64", "counts": "I64"}
FIELDS = {"protocol", "classes", "plan", "method", "input", "temperature"}
FIELDS_OF_1 = FIELDS - {"plan"} | {"removed"}
PLAN_TEXTS = ("title", "note", "unlisted", "digest")
PLAN_LISTS = ("from", "to", "weight")
# The header names the labels: 4 MiB hold over 50,000 long names and are parsed within a second.
MAX_HEADER_BYTES = 4 << 20
# A description needs six brackets; millions of them, all empty, would fill the memory.
MAX_BRACKETS = 1000
STRINGS = re.compile(r'"(?:[^"\\]++|\\.)*+"')


def save(fitted: OutputFilter, path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Write a filter's file."""
    description = {
        "protocol": PROTOCOL,
        "classes": fitted.classes_in,
        "plan": _describe_plan(fitted),
        "method": fitted.method,
        "input": fitted.input,
        "temperature": fitted.temperature,
    }
    counts = np.array(fitted.counts, dtype=np.int64)
    tensors = {"means": fitted.means, "shares": fitted.shares, "counts": counts}
    text = json.dumps(description, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    content = to_bytes(tensors, metadata={KEY: text})
    if int.from_bytes(content[:8], "little") > MAX_HEADER_BYTES:
        raise UnlabelError(
            f"The names of the labels take more than {MAX_HEADER_BYTES >> 20} MiB: shorten them to "
            "save the filter."
        )
    with whole_file(path, overwrite=overwrite) as part:
        part.write_bytes(content)


def _describe_plan(fitted: OutputFilter) -> dict[str, Any]:
    plan, lists = fitted.plan, {name: list[Any]() for name in PLAN_LISTS}
    for column, (_, parts) in zip(known_columns(plan, fitted.classes_in), plan.parts, strict=True):
        for to, weight in parts or ((None, None),):
            entry = (int(column), to, weight if len(parts) > 1 else None)
            for name, value in zip(PLAN_LISTS, entry, strict=True):
                lists[name].append(value)
    return lists | {name: getattr(plan, name) for name in PLAN_TEXTS}


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a filter's file into the arguments of `OutputFilter`."""
    path = require_file(path)
    try:
        with path.open("rb") as file:
            if int.from_bytes(file.read(8), "little") > MAX_HEADER_BYTES:
                raise malformed(path, "its header is too long")
        with safe_open(path, framework="numpy") as content:
            description = _description(path, (content.metadata() or {}).get(KEY))
            _check_tensors(path, content, description)
            tensors = {name: content.get_tensor(name) for name in TENSORS}
    except OSError as error:
        raise cannot_read(path, error) from error
    except SafetensorError as error:
        raise malformed(path, printable(str(error))) from error
    del description["protocol"]
    counts = tuple(tensors["counts"].tolist())
    return {"classes_in": description.pop("classes"), **description, **tensors, "counts": counts}


def read_protocol(path: str | os.PathLike[str]) -> int:
    """Read the protocol number of a file that `load` has read."""
    with safe_open(path, framework="numpy") as content:
        return int(json.loads(content.metadata()[KEY])["protocol"])


def _description(path: Path, text: str | None) -> dict[str, Any]:
    if text is None:
        raise malformed(path, "it is a safetensors file without unlabel's description")
    without_strings = STRINGS.sub("", text)
    if without_strings.count("[") + without_strings.count("{") > MAX_BRACKETS:
        raise malformed(path, "its description has too many brackets")
    try:
        description = json.loads(text, parse_constant=no_constant)
    except (ValueError, RecursionError) as error:
        raise malformed(path, "its description is not JSON") from error
    if not isinstance(description, dict):
        raise malformed(path, "its description is not an object")
    protocol = description.get("protocol")
    if type(protocol) is not int or protocol < 1:
        raise malformed(path, "its description has no protocol number")
    if protocol > PROTOCOL:
        raise UnlabelError(
            f"{path} has protocol {protocol}, and this version of unlabel reads up to {PROTOCOL}: "
            "upgrade unlabel to load it."
        )
    if set(description) != (FIELDS if protocol > 1 else FIELDS_OF_1):
        raise malformed(path, "its description does not have the fields of its protocol")
    if type(description["temperature"]) not in (int, float):
        raise malformed(path, "its temperature is not a number")
    for name in {"classes", "removed"} & set(description):
        if not isinstance(description[name], list):
            raise malformed(path, f"its {name} are not a list")
        description[name] = tuple(description[name])
    if protocol == 1:
        description["plan"] = description.pop("removed")
    else:
        description["plan"] = _plan(path, description["plan"], description["classes"])
    return description


def _plan(path: Path, plan: Any, classes: tuple[Any, ...]) -> dict[str, Any]:
    """Read the plan of a description into the arguments of `LabelPlan.of_pairs` and a digest."""
    if not isinstance(plan, dict) or set(plan) != {*PLAN_LISTS, *PLAN_TEXTS}:
        raise malformed(path, "its plan does not have the fields of its protocol")
    if not all(isinstance(plan[name], str) for name in PLAN_TEXTS):
        raise malformed(path, f"its plan's {listing(PLAN_TEXTS)} are not texts")
    lists = [plan[name] for name in PLAN_LISTS]
    if not all(isinstance(each, list) and len(each) == len(lists[0]) for each in lists):
        raise malformed(path, "its plan is not three lists of the same length")
    changes: dict[int, Any] = {}
    for column, to, weight in zip(*lists, strict=True):
        if type(column) is not int or not 0 <= column < len(classes):
            raise malformed(path, f"its plan changes the column {column!r}")
        if isinstance(to, list | dict):
            raise malformed(path, f"its plan sends the column {column} to {SHORT.repr(to)}")
        if weight is None and column not in changes:
            changes[column] = to
        elif weight is not None and isinstance(changes.setdefault(column, []), list):
            changes[column].append((to, weight))
        else:
            raise malformed(path, f"its plan changes the column {column} twice")
    pairs = [(classes[column], to) for column, to in changes.items()]
    return {"pairs": pairs} | {name: plan[name] for name in PLAN_TEXTS}


def _check_tensors(path: Path, content: Any, description: dict[str, Any]) -> None:
    """Compare types and shapes with the description before a tensor is read."""
    if set(content.keys()) != set(TENSORS):
        raise malformed(path, f"it holds the tensors {sorted(content.keys())}")
    k, n = _retired_count(description), len(description["classes"])
    for name, dtype in TENSORS.items():
        tensor = content.get_slice(name)
        shapes = [[k]] if name == "counts" else [[k, n]]
        if name != "counts" and description["method"] == "mask":
            shapes.append([0, n])
        if tensor.get_dtype() != dtype or tensor.get_shape() not in shapes:
            raise malformed(path, f"its tensor {name} is {tensor.get_dtype()} {tensor.get_shape()}")


def _retired_count(description: dict[str, Any]) -> int:
    plan, n_labels = description["plan"], len(description["classes"])
    if isinstance(plan, tuple):
        return len(plan)
    listed = sum(destination is None for _, destination in plan["pairs"])
    return listed + (n_labels - len(plan["pairs"]) if plan["unlisted"] == "retire" else 0)


def malformed(path: str | os.PathLike[str], why: str) -> UnlabelError:
    """Describe why a file is not a filter."""
    return UnlabelError(f"{path} is not a filter that unlabel saved: {why}. Fit and save it again.")


def no_constant(name: str) -> float:
    """Refuse NaN and Infinity, which Python accepts and JSON does not."""
    raise ValueError(f"{name} is not JSON")
