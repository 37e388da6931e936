"""`unlabel.spark` on 2 million rows: the same numbers as on one machine, and their cost.

Makes a parquet table of 8 files in a temporary folder. Every run has its own JVM, so that none
profits from another's warm-up; within it, fit and apply are timed after one small run of both.
All rows of the results are compared, by id, with those of `unlabel` on one machine.

    python benchmarks/spark_partitions.py [ROWS]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle  # type: ignore[import-not-found, import-untyped, unused-ignore]
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pyspark
from pyspark.sql import SparkSession

import unlabel.spark
from unlabel import OutputFilter
from workload import confidences, machine

LABELS = [f"label-{i}" for i in range(10)]
REMOVE = ["label-3", "label-5"]
FILES = 8
REPEATS = 3
RESULTS = Path(__file__).parent / "results" / "spark.json"


def make_table(folder: Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    folder.mkdir()
    for number, ids in enumerate(np.array_split(np.arange(rows), FILES)):
        values, truth = confidences(rng, len(ids), len(LABELS))
        columns: dict[str, Any] = {"id": ids}
        columns |= {name: values[:, i] for i, name in enumerate(LABELS)}
        part = pa.table(columns | {"label": np.array(LABELS)[truth]})
        pa.parquet.write_table(part, folder / f"part-{number}.parquet")


def one_machine(table: Path) -> tuple[OutputFilter, Any, dict[str, float]]:
    """Fit and apply the core's filter on the whole table; return both results and the seconds."""
    data = pa.parquet.read_table(table).sort_by("id")
    rows = np.column_stack([data[name].to_numpy() for name in LABELS])
    labels = data["label"].to_numpy(zero_copy_only=False)
    start = time.perf_counter()
    fitted = OutputFilter.fit(rows, labels, classes=LABELS, remove=REMOVE)
    between = time.perf_counter()
    result = fitted.apply(rows)
    end = time.perf_counter()
    return fitted, result, {"fit_s": between - start, "apply_s": end - between}


def run_in_spark(table: Path, out: Path, cores: int, partitions: int) -> dict[str, Any]:
    """Fit and apply in this process's own JVM."""
    spark = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "OFF")
        .config("spark.driver.memory", "3g")
        .config("spark.sql.shuffle.partitions", str(partitions))
        # Every file is its own partition; coalesce then joins partitions.
        .config("spark.sql.files.openCostInBytes", "1g")
        .config("spark.sql.files.maxPartitionBytes", "1g")
        .getOrCreate()
    )
    df = spark.read.parquet(str(table)).coalesce(partitions)
    assert df.rdd.getNumPartitions() == partitions
    small = df.where("id < 20000")
    fitted = unlabel.spark.fit(small, remove=REMOVE, columns=LABELS)
    unlabel.spark.apply(small, fitted).write.format("noop").mode("overwrite").save()
    fit_seconds, apply_seconds = [], []
    for _ in range(REPEATS):
        start = time.perf_counter()
        fitted = unlabel.spark.fit(df, remove=REMOVE, columns=LABELS)
        between = time.perf_counter()
        unlabel.spark.apply(df, fitted).write.format("noop").mode("overwrite").save()
        fit_seconds.append(between - start)
        apply_seconds.append(time.perf_counter() - between)
    fitted.save(out / "fitted.safetensors")
    if partitions == FILES:
        unlabel.spark.apply(df, fitted).write.parquet(str(out / "kept.parquet"))
    spark.stop()
    return {
        "cores": cores,
        "partitions": partitions,
        "fit_s": sorted(fit_seconds),
        "apply_s": sorted(apply_seconds),
    }


def check(out: Path, expected: OutputFilter, result: Any) -> dict[str, float]:
    """Return the largest differences from one machine, of the filter and of all rows."""
    fitted = OutputFilter.load(out / "fitted.safetensors")
    assert fitted.counts == expected.counts
    difference = max(
        float(np.abs(fitted.means - expected.means).max()),
        float(np.abs(fitted.shares - expected.shares).max()),
    )
    assert difference <= 1e-12
    checked = {"filter_difference": difference}
    if (out / "kept.parquet").exists():
        kept = pa.parquet.read_table(out / "kept.parquet").sort_by("id")
        np.testing.assert_array_equal(kept["id"].to_numpy(), np.arange(len(result)))
        rows = np.column_stack([kept[name].to_numpy() for name in expected.classes_out])
        checked["row_difference"] = float(np.abs(rows - result).max())
        assert checked["row_difference"] <= 1e-6
        checked["sum_difference"] = float(
            np.abs(rows.sum(axis=0, dtype=np.float64) - result.sum(axis=0, dtype=np.float64)).max()
        )
    return checked


def main() -> None:
    if len(sys.argv) == 5:
        (table, out), (cores, partitions) = map(Path, sys.argv[1:3]), map(int, sys.argv[3:])
        print(json.dumps(run_in_spark(table, out, cores, partitions)))
        return
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "PYTHONWARNINGS": "ignore"}
    runs, load = [], os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = folder / "table.parquet"
        make_table(table, rows)
        size = sum(file.stat().st_size for file in table.iterdir())
        expected, result, alone = one_machine(table)
        for cores, partitions in [(2, FILES), (1, 1), (2, 2), (2, 4)]:
            out = folder / f"out-{partitions}"
            out.mkdir()
            command = [sys.executable, __file__, str(table), str(out), str(cores), str(partitions)]
            output = subprocess.run(
                command, check=True, stdout=subprocess.PIPE, text=True, env=environment
            )
            runs.append(json.loads(output.stdout.splitlines()[-1]) | check(out, expected, result))
            print(runs[-1])
    references = sum(expected.counts)
    n, k = len(LABELS), len(REMOVE)
    results = {
        "machine": f"{machine()}, PySpark {pyspark.__version__}",
        "load_average_before_and_after": [load, os.getloadavg()[0]],
        "rows": rows,
        "labels": n,
        "removed": k,
        "table_bytes": size,
        "one_machine": alone,
        "runs": runs,
        "repeats": REPEATS,
        "reference_rows": references,
        "passes_over_true_labels": 1,
        "passes_over_reference_rows_in_table": 1,
        "passes_over_cached_rows_of_each_label": 2,
        "bytes": {
            "filter_in_each_task": len(cloudpickle.dumps(replace(expected))),
            "reference_rows_moved_between_executors": references * n * 4,
            "sums_of_a_task_and_pass": 8 * (n + 1),
            "sums_to_the_driver": sum(2 * 8 * (n - step + 1) for step in range(k)),
        },
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
