"""A filter over a hundred thousand labels, a thousand of them removed: memory, and time in ratios.

python benchmarks/large_label_space.py
"""

from __future__ import annotations

import resource
import time
from functools import partial

import numpy as np

from speed import one_liner, timed
from unlabel.fitting import fit_filter
from workload import confidences

LABELS, REMOVED, ROWS_EACH, ROWS = 100_000, 1_000, 2, 500
# With so many labels, a lead that makes a network of a hundred labels sure of itself leaves the
# true label a few hundredths of a row. The first of these makes it as sure as that.
LEADS = {"a sure network": 8 + float(np.log(LABELS / 100)), "flat rows": 8.0}


def peak() -> float:
    """GiB that this process has held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def measure(kind: str, lead: float) -> None:
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(REMOVED), ROWS_EACH)
    reference = np.empty((len(truth), LABELS), dtype=np.float32)
    for start in range(0, len(truth), 100):  # drawing takes more memory than holding
        reference[start : start + 100] = confidences(rng, 100, LABELS, lead)[0]
    at, top = np.arange(len(truth)), reference.argmax(axis=1)
    print(f"{kind}, whose top label holds {np.median(reference[at, top]):.2f}")
    reference[at, top], reference[at, truth] = reference[at, truth], reference[at, top]
    begun = time.perf_counter()
    fitted = fit_filter(reference, truth, remove=range(REMOVED))
    print(f"  fit: {time.perf_counter() - begun:.1f} s, {peak():.2f} GiB at most, of which")
    print(f"    {reference.nbytes / 2**30:.2f} GiB are reference rows and")
    print(f"    {(fitted.means.nbytes + fitted.shares.nbytes) / 2**30:.2f} GiB the filter")
    del reference
    rows = confidences(rng, ROWS, LABELS, lead)[0]
    fitted.apply(rows[:2])  # compiled, or loaded, before it counts
    times = timed(
        {
            "ours": partial(fitted.apply, rows),
            "one-liner": partial(one_liner, rows, fitted.retained_columns),
        },
        3,
    )
    ratio = min(times["ours"]) / min(times["one-liner"])
    print(f"  apply: {ratio:.2f} of the one-liner for {ROWS} rows", flush=True)


if __name__ == "__main__":
    for kind, lead in LEADS.items():
        measure(kind, lead)
