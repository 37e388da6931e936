"""A filter over a hundred thousand labels, a thousand of them removed: memory and time ratios.

python benchmarks/large_label_space.py
"""

from __future__ import annotations

import resource
import time
from functools import partial

import numpy as np

from speed import plain_line
from timing import fitted, timed
from unlabel.filter import outcome_of_filter
from workload import confidences

LABELS, REMOVED, ROWS_EACH, ROWS = 100_000, 1_000, 2, 500
# With so many labels, a lead that makes a network of a hundred labels confident leaves the true
# label only a few hundredths of a row. The first lead is large enough for the same confidence.
LEADS = {"confident rows": 8 + float(np.log(LABELS / 100)), "flat rows": 8.0}


def peak() -> float:
    """Return the peak memory of this process in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def measure(kind: str, lead: float) -> None:
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(REMOVED), ROWS_EACH)
    reference = np.empty((len(truth), LABELS), dtype=np.float32)
    for start in range(0, len(truth), 100):  # drawing them all at once would take more memory
        reference[start : start + 100] = confidences(rng, 100, LABELS, lead)[0]
    at, top = np.arange(len(truth)), reference.argmax(axis=1)
    print(f"{kind}, with a median top confidence of {np.median(reference[at, top]):.2f}")
    reference[at, top], reference[at, truth] = reference[at, truth], reference[at, top]
    start_time = time.perf_counter()
    removing = fitted(reference, truth, remove=range(REMOVED))
    print(
        f"  fit: {time.perf_counter() - start_time:.1f} s, peak memory {peak():.2f} GiB, including"
    )
    print(f"    {reference.nbytes / 2**30:.2f} GiB of reference rows and")
    print(f"    {(removing.means.nbytes + removing.shares.nbytes) / 2**30:.2f} GiB of the filter")
    del reference
    rows = confidences(rng, ROWS, LABELS, lead)[0]
    removing.apply(rows[:2])  # compiles or loads the loops before they are timed
    times = timed(
        {
            "ours": partial(removing.apply, rows),
            "plain line": partial(plain_line, rows, outcome_of_filter(removing).retained),
        },
        3,
    )
    ratio = min(times["ours"]) / min(times["plain line"])
    print(f"  apply: {ratio:.2f} of the plain line for {ROWS} rows", flush=True)


if __name__ == "__main__":
    for kind, lead in LEADS.items():
        measure(kind, lead)
