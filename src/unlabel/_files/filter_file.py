"""Read and write a filter's file: safetensors with one metadata key that holds canonical JSON.

A change of its content is a new `PROTOCOL`: raise the number, keep reading the old ones, add a
fixture of the new one under ``tests/golden`` and describe it here.

Protocol 1
    Tensors ``means`` and ``shares`` (float64, one row per removed label and one column per
    label; for a mask, no rows) and ``counts`` (int64, one per removed label). Metadata
    ``unlabel``: an object with ``protocol``, ``classes``, ``plan``, ``method``, ``kind`` and
    ``temperature``. The plan is an object with ``changes``, ``unlisted``, ``title``, ``note`` and
    the plan's ``digest``. Its changes are pairs of a column and a destination: null for a removed
    label, a label, or pairs of labels and weights.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from unlabel._files.atomic import cannot_read, require_file, whole_file
from unlabel._plans.outcome import digest_of
from unlabel.errors import UnlabelError, located
from unlabel.labels import columns_of
from unlabel.plan import LabelPlan

if TYPE_CHECKING:
    from unlabel.filter import OutputFilter

PROTOCOL = 1
KEY = "unlabel"
TENSORS = {"means": np.float64, "shares": np.float64, "counts": np.int64}
FIELDS = {"protocol", "classes", "plan", "method", "kind", "temperature"}
PLAN_FIELDS = {"changes", "unlisted", "title", "note", "digest"}
# The header names the labels: 4 MiB hold over 50,000 long names and are parsed within a second.
MAX_HEADER_BYTES = 4 << 20


def save(fitted: OutputFilter, path: str | os.PathLike[str]) -> None:
    """Write a filter's file."""
    from safetensors.numpy import save as to_bytes  # slow to import, and not needed to apply

    plan, column_of = fitted.plan, columns_of(fitted.classes_in)
    changes = [
        (column_of[label], [*to.items()] if isinstance(to, Mapping) else to)
        for label, to in plan.changes.items()
    ]
    texts = {"unlisted": plan.unlisted, "title": plan.title, "note": plan.note}
    description = {
        "protocol": PROTOCOL,
        "classes": fitted.classes_in,
        "plan": {"changes": changes, "digest": digest_of(plan)} | texts,
        "method": fitted.method,
        "kind": fitted.kind,
        "temperature": fitted.temperature,
    }
    tensors = {name: np.array(getattr(fitted, name), dtype) for name, dtype in TENSORS.items()}
    text = json.dumps(description, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    content = to_bytes(tensors, metadata={KEY: text})
    if int.from_bytes(content[:8], "little") > MAX_HEADER_BYTES:
        raise UnlabelError(
            f"The names of the labels take more than {MAX_HEADER_BYTES >> 20} MiB: shorten them."
        )
    with whole_file(path) as part:
        part.write_bytes(content)


def load(path: str | os.PathLike[str], make: type[OutputFilter]) -> OutputFilter:
    """Read a filter's file: parse it, check it, and only then build a filter."""
    from safetensors import SafetensorError, safe_open

    file = require_file(path)
    with located(file):
        try:
            with file.open("rb") as start:
                if int.from_bytes(start.read(8), "little") > MAX_HEADER_BYTES:
                    raise _malformed("its header is too long")
            with safe_open(file, framework="numpy") as content:
                state = _state((content.metadata() or {}).get(KEY))
                found = {name: content.get_slice(name).get_dtype() for name in content.keys()}  # noqa: SIM118
                if found != {"means": "F64", "shares": "F64", "counts": "I64"}:
                    raise _malformed(f"it holds the tensors {found}")
                tensors = {name: content.get_tensor(name) for name in TENSORS}
        except OSError as error:
            raise cannot_read(file, error) from error
        except SafetensorError as error:
            raise _malformed(ascii(str(error))) from error
        try:
            return make(**state | tensors | {"counts": tuple(tensors["counts"].tolist())})
        except (UnlabelError, TypeError) as error:
            raise _malformed(str(error).rstrip(".")) from error


def _state(text: str | None) -> dict[str, Any]:
    """Return the description as arguments of `OutputFilter`."""
    if text is None:
        raise _malformed("it is a safetensors file without unlabel's description")
    try:
        description = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _malformed("its description is not JSON") from error
    fields = set(description) if isinstance(description, dict) else set()
    if "input" in fields:
        raise UnlabelError("It was written before the first release of unlabel: fit it again.")
    protocol = description["protocol"] if "protocol" in fields else None
    if type(protocol) is int and protocol > PROTOCOL:
        raise UnlabelError(
            f"It has protocol {protocol}, and this version of unlabel reads up to {PROTOCOL}: "
            "upgrade unlabel to load it."
        )
    if fields != FIELDS or protocol != PROTOCOL:
        raise _malformed("its description does not have the fields of its protocol")
    classes, plan = description["classes"], description["plan"]
    if not isinstance(plan, dict) or set(plan) != PLAN_FIELDS or not isinstance(classes, list):
        raise _malformed("its plan does not have the fields of its protocol")
    try:
        changes = {
            classes[column]: dict(to) if isinstance(to, list) else to
            for column, to in plan["changes"]
        }
        made = LabelPlan(changes, **{name: plan[name] for name in ("unlisted", "title", "note")})
    except (TypeError, ValueError, IndexError, KeyError) as error:
        raise _malformed(f"its plan cannot be read ({error})") from error
    if len(changes) < len(plan["changes"]) or digest_of(made) != plan["digest"]:
        raise _malformed("the digest of its plan is another one")
    settings = {name: description[name] for name in ("method", "kind", "temperature")}
    return {"classes_in": tuple(classes), "plan": made} | settings


def _malformed(why: str) -> UnlabelError:
    return UnlabelError(f"It is not a filter that unlabel saved: {why}. Fit it again.")
