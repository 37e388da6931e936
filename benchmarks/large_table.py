"""`unlabel apply` on a parquet table of 20 million rows: memory, and time beside pyarrow's own.

Makes the table in a temporary folder (about 1 GB). Pyarrow alone reads its row groups and writes
them again, with the same compression.

    python benchmarks/large_table.py [--rows ROWS] [--out FILE.json]
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from workload import confidences, machine, run_measured

LABELS = [f"label-{i}" for i in range(10)]
PART = 1_000_000
REPEATS = 5
READ_AND_WRITE = """
import pyarrow.parquet
table = pyarrow.parquet.ParquetFile("large.parquet")
with pyarrow.parquet.ParquetWriter("copy.parquet", table.schema_arrow) as writer:
    for group in range(table.num_row_groups):
        writer.write_table(table.read_row_group(group))
"""


def table(rng: np.random.Generator, first: int, rows: int) -> pa.Table:
    values, truth = confidences(rng, rows, len(LABELS))
    columns: dict[str, Any] = {"id": np.arange(first, first + rows)}
    columns |= {name: values[:, i] for i, name in enumerate(LABELS)}
    return pa.table(columns | {"label": np.array(LABELS)[truth]})


def measure(folder: Path) -> dict[str, list[tuple[float, float]]]:
    """Alternate between pyarrow alone and `unlabel apply`, each time in a new process."""
    apply = ["apply", "large.parquet", "f.safetensors", "--out", "kept.parquet", "--force"]
    commands: dict[str, Callable[[], tuple[float, float]]] = {
        "pyarrow": lambda: run_measured(folder, code=READ_AND_WRITE),
        "unlabel": lambda: run_measured(folder, *apply),
    }
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(REPEATS):
        for name, run in commands.items():
            os.sync()  # what was written before costs nothing from here on
            runs[name].append(run())
    return runs


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    before = os.getloadavg()[0]
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        reference = table(rng, 0, 20_000)
        pa.parquet.write_table(reference, folder / "reference.parquet")
        large = folder / "large.parquet"
        with pa.parquet.ParquetWriter(large, reference.drop(["label"]).schema) as writer:
            for first in range(0, options.rows, PART):
                part = table(rng, first, min(PART, options.rows - first))
                writer.write_table(part.drop(["label"]))
        remove = ["--remove", "label-3", "--remove", "label-5"]
        run_measured(folder, "fit", "reference.parquet", *remove, "--out", "f.safetensors")
        runs = measure(folder)
        sizes = {path.stem: path.stat().st_size for path in folder.glob("*.parquet")}
        written = pa.parquet.ParquetFile(folder / "kept.parquet").metadata
    assert (written.num_rows, written.num_columns) == (options.rows, 9)
    print(machine())
    print(f"table    {options.rows:,} rows, {len(LABELS)} labels, {sizes['large'] / 1e6:,.0f} MB")
    best = {name: min(seconds for seconds, _ in taken) for name, taken in runs.items()}
    for name, taken in runs.items():
        print(
            f"{name}  {best[name]:.1f} s, {options.rows / best[name]:,.0f} rows per second, "
            f"at most {max(peak for _, peak in taken):,.0f} MiB"
        )
    print(f"ratio    {best['unlabel'] / best['pyarrow']:.2f}")
    if options.out is not None:
        result = {
            "machine": machine(),
            "load_average_before_and_after": [before, os.getloadavg()[0]],
            "rows": options.rows,
            "labels": len(LABELS),
            "bytes": sizes,
            "seconds_and_peak_mib": runs,
        }
        options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
