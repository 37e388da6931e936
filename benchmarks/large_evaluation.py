"""`unlabel evaluate` on a million rows and a hundred labels: memory and time.

python benchmarks/large_evaluation.py [ROWS] [--out FILE.json]
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from workload import confidences, machine, run_measured

LABELS = [f"label-{i}" for i in range(100)]
REMOVED = LABELS[:5]
REPEATS = 3


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    before = os.getloadavg()[0]
    values, truth = confidences(np.random.default_rng(0), arguments.rows, len(LABELS))
    columns = {name: values[:, i] for i, name in enumerate(LABELS)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = pa.table(columns | {"label": np.array(LABELS)[truth]})
        pa.parquet.write_table(table, folder / "base.parquet")
        del values, columns, table  # the command needs the memory
        remove = [word for label in REMOVED for word in ("--remove", label)]
        command = ("evaluate", "base.parquet", *remove)
        runs = [run_measured(folder, *command) for _ in range(REPEATS)]
    seconds, peaks = zip(*runs, strict=True)
    print(machine())
    print(f"table        {arguments.rows:,} rows, {len(LABELS)} labels, {len(REMOVED)} removed")
    print(f"peak memory  {max(peaks):,.0f} MiB")
    print(f"time         {min(seconds):.1f} s, median {np.median(seconds):.1f} s")
    if arguments.out is not None:
        result = {
            "machine": machine(),
            "load_average_before_and_after": [before, os.getloadavg()[0]],
            "rows": arguments.rows,
            "labels": len(LABELS),
            "removed": len(REMOVED),
            "seconds": seconds,
            "peak_mib": peaks,
        }
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
