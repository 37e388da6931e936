"""Chunks of rows that several threads share."""

import time
from threading import Lock

import pytest

from unlabel._method import compiled
from unlabel._method.run import CHUNK_ENTRIES, in_chunks


@pytest.mark.skipif(not compiled.is_available(), reason="only the compiled loops use threads")
def test_after_an_error_no_thread_takes_another_chunk(monkeypatch):
    monkeypatch.setenv("UNLABEL_THREADS", "2")
    begun, lock = [], Lock()

    def work(chunk):
        with lock:
            begun.append(chunk)
            if len(begun) == 1:
                raise ZeroDivisionError
        time.sleep(0.02)

    with pytest.raises(ZeroDivisionError):
        in_chunks(work, (20 * CHUNK_ENTRIES, 1))
    assert len(begun) <= 3
