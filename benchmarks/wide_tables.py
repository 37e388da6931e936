"""Fitting on and applying to tables of 1,000 to 20,000 labels, csv and parquet: time per batch.

Every table has 32 rows, which are one batch for any number of labels. Its time should grow with
the number of labels, not with its square. Processor time is measured, over all cores.

    python benchmarks/wide_tables.py [--out FILE.json]
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from timing import fitted
from unlabel import LabelPlan, OutputFilter, tables
from workload import confidences, machine

LABELS = (1_000, 2_000, 5_000, 10_000, 20_000)
ROWS = 32
REPEATS = 5
FORMATS: dict[str, Callable[..., None]] = {
    "csv": pa.csv.write_csv,
    "parquet": pa.parquet.write_table,
}


def make(path: Path, names: list[str], write: Callable[..., None]) -> OutputFilter:
    """Write a table, and return a filter for it."""
    rows, _ = confidences(np.random.default_rng(0), ROWS, len(names))
    columns: dict[str, Any] = {"id": np.arange(ROWS)}
    columns |= {name: rows[:, i] for i, name in enumerate(names)}
    write(pa.table(columns | {"label": names[:2] * (ROWS // 2)}), path)
    return OutputFilter.from_plan(LabelPlan(names[:2]), classes=names)


def commands(path: Path, mask: OutputFilter, names: list[str]) -> dict[str, Callable[[], object]]:
    def fit() -> OutputFilter:
        table = tables.read(path, classes=names)
        return fitted(table.confidences, table.labels, classes=names, remove=names[:2])

    out = path.with_name(f"out{path.suffix}")
    return {"fit": fit, "apply": lambda: tables.apply_table(mask, path, out, force=True)}


def measure(folder: Path, suffix: str, labels: int) -> list[dict[str, Any]]:
    names = [f"label-{i}" for i in range(labels)]
    path = folder / f"table.{suffix}"
    mask = make(path, names, FORMATS[suffix])
    runs = []
    for name, command in commands(path, mask, names).items():
        seconds = []
        command()  # the first run imports and compiles
        for _ in range(REPEATS):
            start = time.process_time()
            command()
            seconds.append(time.process_time() - start)
        runs.append({"format": suffix, "command": name, "labels": labels, "seconds": seconds})
    return runs


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out
    before = os.getloadavg()[0]
    runs = []
    print(machine())
    print(f"{'':14} {'labels':>7} {'s, best':>8} {'median':>8} {'us per label':>13}")
    with tempfile.TemporaryDirectory() as folder:
        for suffix in FORMATS:
            for labels in LABELS:
                for run in measure(Path(folder), suffix, labels):
                    runs.append(run)
                    best, median = min(run["seconds"]), float(np.median(run["seconds"]))
                    print(
                        f"{suffix:8}{run['command']:6} {labels:7,} {best:8.3f} {median:8.3f} "
                        f"{1e6 * best / labels:13.0f}",
                        flush=True,
                    )
    if out is not None:
        load = [before, os.getloadavg()[0]]
        result = {"machine": machine(), "load_average_before_and_after": load, "rows": ROWS}
        out.write_text(json.dumps(result | {"runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
