"""Work on the rows of an array, shared out among threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import TypeVar

from unlabel.errors import UnlabelError

Result = TypeVar("Result")


def on_threads(work: Callable[[int], Result], starts: range, threads: int) -> list[Result]:
    """Map the starts in order, by this thread and by others that end with the call."""
    if threads == 1 or len(starts) < 2:
        return [work(start) for start in starts]
    waiting, results, errors = iter(starts), dict[int, Result](), list[BaseException]()

    def run() -> None:
        try:
            for start in waiting:
                results[start] = work(start)
        except BaseException as error:  # to be raised where the caller is
            errors.append(error)
            list(waiting)  # nothing is left for the other threads

    helpers = [Thread(target=run) for _ in range(min(threads, len(starts)) - 1)]
    with suppress(RuntimeError):  # an interpreter that is shutting down starts none
        for helper in helpers:
            helper.start()
    run()
    for helper in filter(Thread.is_alive, helpers):
        helper.join()
    if errors:
        raise errors[0]
    return [results[start] for start in starts]


def thread_limit() -> int:
    """Give the number of threads to use: the processor's cores, or UNLABEL_THREADS."""
    wanted = os.environ.get("UNLABEL_THREADS")
    if wanted is not None:
        if not wanted.isdecimal() or int(wanted) == 0:
            raise UnlabelError(f"UNLABEL_THREADS is {wanted!r}: set it to a number from 1 on.")
        return int(wanted)
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
