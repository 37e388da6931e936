"""Read and write plans."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unlabel.plan import LabelPlan


def read(
    path: str | os.PathLike[str], from_column: str | None, to_column: str | None
) -> dict[str, Any]:
    """Read a plan's file into the arguments of `LabelPlan`."""
    raise NotImplementedError


def write(plan: LabelPlan, path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Write a plan as TOML."""
    raise NotImplementedError
