"""The files that a summary was made from: their names and digests, never their paths."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from unlabel._files.atomic import sha256_of
from unlabel.errors import UnlabelError


@dataclass(frozen=True)
class SourceTable:
    """A table of an output's confidences."""

    output: str
    name: str
    sha256: str
    rows: int


@dataclass(frozen=True)
class SourceFilter:
    """The file of a filter."""

    name: str
    sha256: str


@dataclass(frozen=True)
class Sources:
    """What a trial was made from; nothing is known of arrays."""

    tables: tuple[SourceTable, ...] = ()
    filter: SourceFilter | None = None
    date: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the sources as plain data."""
        return asdict(self)


NO_FILES = Sources()


def name_of(path: str | os.PathLike[str]) -> str:
    """Return the name of a file, without what UTF-8 cannot encode."""
    return os.path.basename(os.fspath(path)).encode("utf-8", "replace").decode()


def distinct_digests(paths: Sequence[str | os.PathLike[str]]) -> list[str]:
    """Compute the digests of tables, or raise an error for a table that is given twice."""
    digests = [sha256_of(path) for path in paths]
    for at, digest in enumerate(digests):
        first = digests.index(digest)
        if first < at:
            raise UnlabelError(
                f"{paths[first]} and {paths[at]} are the same table: give the outputs of two "
                "different models."
            )
    return digests


def require_date(text: str) -> None:
    """Raise an error for a string that is not a date.

    Examples
    --------
    >>> require_date("2026-02-30")
    Traceback (most recent call last):
    unlabel.errors.UnlabelError: '2026-02-30' is not a date: write it as 2026-01-31 (date=).
    """
    try:
        datetime.fromisoformat(text)
    except ValueError as error:
        problem = f"{text!r} is not a date: write it as 2026-01-31."
        raise UnlabelError(problem, argument="date") from error
