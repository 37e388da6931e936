"""`unlabel apply` on a parquet table of 20 million rows: memory and speed.

Makes the table in a temporary folder (about 1 GB) and applies a filter to it in a separate
process.

    python benchmarks/large_table.py [ROWS]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from workload import confidences, machine, run_measured

LABELS = [f"label-{i}" for i in range(10)]
PART = 1_000_000


def table(rng: np.random.Generator, first: int, rows: int) -> pa.Table:
    values, truth = confidences(rng, rows, len(LABELS))
    columns: dict[str, Any] = {"id": np.arange(first, first + rows)}
    columns |= {name: values[:, i] for i, name in enumerate(LABELS)}
    return pa.table(columns | {"label": np.array(LABELS)[truth]})


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000_000
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        reference = table(rng, 0, 20_000)
        pa.parquet.write_table(reference, folder / "reference.parquet")
        large = folder / "large.parquet"
        with pa.parquet.ParquetWriter(large, reference.drop(["label"]).schema) as writer:
            for first in range(0, rows, PART):
                part = table(rng, first, min(PART, rows - first))
                writer.write_table(part.drop(["label"]))
        remove = ["--remove", "label-3", "--remove", "label-5"]
        run_measured(folder, "fit", "reference.parquet", *remove, "--out", "f.safetensors")
        apply = ["apply", "f.safetensors", "large.parquet", "--out", "kept.parquet"]
        seconds, peak = run_measured(folder, *apply)
        size = large.stat().st_size
        written = pa.parquet.ParquetFile(folder / "kept.parquet").metadata
    assert (written.num_rows, written.num_columns) == (rows, 9)
    print(machine())
    print(f"table        {rows:,} rows, {len(LABELS)} labels, {size / 1e6:,.0f} MB")
    print(f"peak memory  {peak:,.0f} MiB")
    print(f"time         {seconds:.1f} s, {rows / seconds:,.0f} rows per second")


if __name__ == "__main__":
    main()
