"""A filter's file that is watched, and loaded again when it changes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from unlabel._files.atomic import require_file, sha256_of
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter
from unlabel.serve.served_filter import ServedFilter

Signature = tuple[int, int, int]
ATTEMPTS = 3  # at a file that changes while it is read


@dataclass(frozen=True, eq=False)
class Loaded:
    """A filter, and the digest of the file that it was loaded from."""

    served: ServedFilter
    digest: str


class WatchedFilter:
    """A filter's file; `loaded` is the last valid state of it."""

    def __init__(self, path: Path, serve: Callable[[OutputFilter], ServedFilter]) -> None:
        self.path = path
        self._serve = serve
        self._seen = self._signature()
        self.loaded = self._load()

    def reload(self, *, force: bool = False) -> bool:
        """Load the file if it has changed, and return whether it was loaded.

        An invalid or missing file is an error, once, and leaves the filter as it was.
        """
        signature = self._signature()
        if signature == self._seen and not force:
            return False
        self._seen = signature
        self.loaded = self._load()
        return True

    def _load(self) -> Loaded:
        for _ in range(ATTEMPTS):
            before = self._signature()
            digest = sha256_of(self.path)
            served = self._serve(OutputFilter.load(self.path))
            if self._signature() == before and sha256_of(self.path) == digest:
                self._seen = before
                return Loaded(served, digest)
        problem = "It changes while it is read: write it elsewhere and move it."
        raise UnlabelError(problem, path=self.path)

    def _signature(self) -> Signature | None:
        try:
            found = os.stat(require_file(self.path))
        except (UnlabelError, OSError):
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino
