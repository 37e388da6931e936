"""The entry of a model's outputs that holds the confidences, in containers of several kinds."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from unlabel.errors import UnlabelError
from unlabel.labels import listing

Key = str | int


def with_entry(output: Any, key: Key | None, change: Callable[[Any], Tensor]) -> Any:
    """Change one entry of a container and pass the others on, in a container of the same kind.

    Without a key, the output itself is changed.
    """
    keys = _keys(output)
    if key is None and keys is None:
        return change(output)
    if keys is None or key not in keys:
        raise _no_entry(key, type(output).__name__, keys)
    if isinstance(output, tuple | list):
        names = getattr(output, "_fields", ())
        place = names.index(key) if key in names else key
        entries = (change(each) if at == place else each for at, each in enumerate(output))
        return type(output)(*entries) if names else type(output)(entries)
    # Those of transformers are mappings too.
    if dataclasses.is_dataclass(type(output)):
        return dataclasses.replace(output, **{str(key): change(getattr(output, str(key)))})
    changed = output.copy() if hasattr(output, "copy") else copy.copy(output)
    if type(changed) is not type(output):  # of a dictionary of another kind
        changed = copy.copy(output)
    changed[key] = change(output[key])
    return changed


def _keys(output: Any) -> list[Any] | None:
    """Return the names of a container's entries; None for anything else."""
    if isinstance(output, Mapping):
        return [*output]
    if isinstance(output, tuple | list):
        return [*range(len(output)), *getattr(output, "_fields", ())]
    if dataclasses.is_dataclass(output):
        return [each.name for each in dataclasses.fields(output) if each.init]
    return None


def _no_entry(key: Key | None, kind: str, keys: list[Any] | None) -> UnlabelError:
    what = f"The model's output ({kind}) has"
    if keys is None:
        return UnlabelError(f"{what} no entries: leave out {key!r}", argument="key")
    found = f"{what} the entries {listing(keys)}{'' if key is None else f', not {key!r}'}"
    usual = "logits" if "logits" in keys or not keys else keys[0]
    problem = f"{found}: name the one that holds the confidences, such as {usual!r}"
    return UnlabelError(problem, argument="key")
