"""Samples of rows that depend on the rows alone, not on their order, batches or partitions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from unlabel._typing import Floats

Hashes = npt.NDArray[np.uint64]
FACTOR, SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)


def text_hashes(texts: Iterable[object]) -> Hashes:
    """Return 64 bits of BLAKE2b of each value's text."""
    digests = (hashlib.blake2b(str(text).encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def row_hashes(rows: Floats, label_hashes: Hashes) -> Hashes:
    """Mix each row's entries, as float32, into the hash of its label.

    Examples
    --------
    >>> import numpy as np
    >>> cat, dog = text_hashes(["cat", "dog"])
    >>> row = np.array([[0.5, 0.5]])
    >>> bool(row_hashes(row, cat) == row_hashes(row.astype(np.float32), cat))
    True
    >>> bool(row_hashes(row, cat) == row_hashes(row, dog))
    False
    """
    with np.errstate(over="ignore"):
        # Adding 0 turns -0 into 0.
        words = (rows.astype("<f4") + np.float32(0)).view("<u4").astype(np.uint64)
        mixed = np.broadcast_to(label_hashes, len(rows)).copy()
        for column in words.T:
            mixed ^= column
            mixed *= FACTOR
            mixed ^= mixed >> SHIFT
    return mixed
