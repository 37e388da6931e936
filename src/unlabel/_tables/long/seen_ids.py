"""Ids of a table whose rows of one id stand together: notice one that comes back later."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from unlabel._tables.cells import is_text, plain
from unlabel.errors import UnlabelError

Hashes = npt.NDArray[np.int64]


def id_cells(column: pa.Array, name: str) -> pa.Array:
    """Return a column of ids in a type whose values can be compared."""
    if isinstance(column.type, pa.BaseExtensionType):  # such as UUIDs
        column = column.storage
    column = plain(column)
    if pa.types.is_float16(column.type):
        column = pc.cast(column, pa.float32())
    if pa.types.is_nested(column.type) or pa.types.is_null(column.type):
        raise UnlabelError(
            f"The column {name!r} has the type {column.type} and ids are texts or numbers: choose "
            "another one.",
            argument="long",
        )
    return column


class SeenIds:
    """The ids of a table so far.

    Ids in strictly ascending or descending order cannot come back, and none of them is kept.
    Once they are in neither order, 64-bit hashes of all of them are, 8 bytes each and up to
    three times that while they are sorted; those of the ids up to there come from reading them
    again. Two ids share a hash by chance with a probability of 1 in 3,700 among 100 million
    texts, and the second would be refused; whole numbers and times are compared as they are.
    """

    def __init__(self, from_the_start: Callable[[], Iterator[pa.Array]] | None) -> None:
        """Start with no ids; without a way to read them again, keep hashes of all."""
        self._from_the_start = from_the_start
        self._orders = [] if from_the_start is None else [pc.greater, pc.less]
        self._hashes = _HashSet()
        self._last: pa.Array | None = None
        self._count = 0

    def add(self, ids: pa.Array) -> int | None:
        """Add ids, of which no two neighbours are equal; give the place of one that comes back."""
        if self._orders and self._is_in_order(ids):
            self._count += len(ids)
            return None
        if self._count and self._from_the_start is not None:
            for before in self._from_the_start():
                self._hashes.add(_hashes(before[: self._count]))
                self._count -= min(self._count, len(before))
                if not self._count:
                    break
        return self._hashes.add(_hashes(ids))

    def _is_in_order(self, ids: pa.Array) -> bool:
        joined = ids if self._last is None else pa.concat_arrays([self._last, ids])
        self._last = ids[-1:]
        later, earlier = joined[1:], joined[:-1]
        self._orders = [order for order in self._orders if _all(order(later, earlier))]
        return bool(self._orders)


def _all(are_true: pa.BooleanArray) -> bool:
    return bool(pc.all(are_true, min_count=0).as_py())


def _hashes(ids: pa.Array) -> Hashes:
    kind = ids.type
    if pa.types.is_temporal(kind):
        ids = ids.view(pa.int64() if kind.bit_width == 64 else pa.int32())
    if pa.types.is_integer(ids.type):
        # Not their own hashes: Python gives -1 that of -2.
        return np.asarray(ids.to_numpy().astype(np.int64))
    if not (is_text(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind)):
        ids = pc.cast(ids, pa.string())
    return np.fromiter(map(hash, ids.to_pylist()), np.int64, len(ids))


class _HashSet:
    """A set of numbers in sorted arrays, each at least twice as long as the next."""

    def __init__(self) -> None:
        self._levels: list[Hashes] = []

    def add(self, hashes: Hashes) -> int | None:
        """Add numbers; give the place of the first that is there already, if any."""
        order = np.argsort(hashes, kind="stable")
        ordered = hashes[order]
        is_known = np.diff(ordered, prepend=~ordered[:1]) == 0
        for level in self._levels:
            at = np.searchsorted(level, ordered).clip(max=len(level) - 1)
            is_known |= level[at] == ordered
        if is_known.any():
            return int(order[is_known].min())
        self._levels.append(ordered)
        while len(self._levels) > 1 and len(self._levels[-2]) < 2 * len(self._levels[-1]):
            merged = np.concatenate([self._levels.pop(-2), self._levels.pop()])
            merged.sort(kind="stable")  # which is quick for two sorted arrays in a row
            self._levels.append(merged)
        return None
