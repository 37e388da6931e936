"""Work in another thread while the results of earlier work are used."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def made_ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield items that another thread makes: the next one is made while one is used."""
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, items, None)
        while (item := following.result()) is not None:
            following = pool.submit(next, items, None)
            yield item
