"""`unlabel evaluate` on a million rows and a hundred labels: memory and time.

python benchmarks/large_evaluation.py [ROWS]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from workload import confidences, machine, run_measured

LABELS = [f"label-{i}" for i in range(100)]


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    values, truth = confidences(np.random.default_rng(0), rows, len(LABELS))
    columns = {name: values[:, i] for i, name in enumerate(LABELS)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = pa.table(columns | {"label": np.array(LABELS)[truth]})
        pa.parquet.write_table(table, folder / "base.parquet")
        remove = [word for label in LABELS[:5] for word in ("--remove", label)]
        seconds, peak = run_measured(folder, "evaluate", "base.parquet", *remove)
    print(machine())
    print(f"table        {rows:,} rows, {len(LABELS)} labels, 5 of them retired")
    print(f"peak memory  {peak:,.0f} MiB")
    print(f"time         {seconds:.1f} s")


if __name__ == "__main__":
    main()
