"""The entry of a model's outputs that holds the confidences, in containers of several kinds."""

from __future__ import annotations

import copy
import dataclasses
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from unlabel._labels import listing
from unlabel.errors import UnlabelError

Key = str | int
DICTIONARIES = (dict, OrderedDict, defaultdict)


def with_entry(output: Any, key: Key | None, change: Callable[[Any], Tensor]) -> Any:
    """Change one entry of a container and pass the others on, in a container of the same kind.

    Without a key, the output itself is changed.
    """
    keys, kind = _keys(output), type(output)
    if keys is None and key is None:
        return change(output)
    if keys is None:
        raise UnlabelError(
            f"The model's output ({kind.__name__}) has no entries: leave out key={key!r}."
        )
    if key is None or key not in keys:
        usual = "logits" if "logits" in keys or not keys else keys[0]
        raise UnlabelError(
            f"The model's output ({kind.__name__}) has the entries {listing(keys)}"
            f"{'' if key is None else f', not {key!r}'}: name the one that holds the confidences, "
            f"such as key={usual!r}."
        )
    if isinstance(output, tuple | list):
        names = getattr(output, "_fields", ())
        place = names.index(key) if key in names else key
        entries = (change(each) if at == place else each for at, each in enumerate(output))
        return kind(*entries) if names else kind(entries)
    # Those of transformers are mappings too. Older compilers cannot ask a dictionary.
    if kind not in DICTIONARIES and dataclasses.is_dataclass(output):
        values: dict[Any, Any] = {name: getattr(output, name) for name in _fields(output)}
        return kind(**{**values, key: change(values[key])})
    changed = output.copy() if hasattr(output, "copy") else copy.copy(output)
    if type(changed) is not kind:  # of a dictionary of another kind
        changed = copy.copy(output)
    before = output[key]
    changed[key] = change(before)
    if kind not in DICTIONARIES and output[key] is not before:
        output[key] = before
        raise UnlabelError(
            f"The model's output ({kind.__name__}) shares its entries with its copies: give it a "
            "method copy() that does not."
        )
    return changed


def _keys(output: Any) -> list[Any] | None:
    """Name the entries of a container; None for anything else."""
    if isinstance(output, Mapping):
        return [*output]
    if isinstance(output, tuple | list):
        return [*range(len(output)), *getattr(output, "_fields", ())]
    if dataclasses.is_dataclass(output):
        return _fields(output)
    return None


def _fields(output: Any) -> list[str]:
    return [each.name for each in dataclasses.fields(output) if each.init]
