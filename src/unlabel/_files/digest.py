"""Digests of files."""

from __future__ import annotations

import hashlib
import os

from unlabel._files.atomic import cannot_read, require_file


def sha256_of(path: str | os.PathLike[str]) -> str:
    """Compute the SHA-256 digest of a file."""
    file = require_file(path)
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise cannot_read(file, error) from error
