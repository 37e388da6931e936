"""How fast the filter is on every path, in ratios measured within one run.

Each path is compared with the plain line that a user would write for it. Fitting and errors are
compared with the paper's procedure as it is written.

    PYTHONPATH=. python benchmarks/speed.py [--quick] [--out FILE.json] [--plot FILE.svg]
    PYTHONPATH=. python benchmarks/speed.py --gpu [--out FILE.json]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

import lists
import merges
from growth import draw, measure_growth, reference_rows
from research import literal_procedure
from timing import fitted, in_numpy, timed
from unlabel import LabelPlan, OutputFilter
from unlabel._method import compiled
from unlabel.evaluation import load_cifar10
from unlabel.filter import outcome_of_filter
from workload import logits

Rows = npt.NDArray[np.float32]

# Rows, labels and removed labels.
SIZES = (
    (200_000, 10, 1),
    (200_000, 10, 7),
    (100_000, 100, 1),
    (100_000, 100, 20),
    (100_000, 100, 60),
    (10_000, 1000, 100),
)
# The ratio that a path may have at each of these sizes.
BARS = {
    "probabilities": (1.8, 12, 0.4, 0.5, 2, 0.5),
    "mask": (1.2, 2.5, 0.5, 0.5, 1.2, 0.5),
    "logits": (1.2, 7, 0.4, 0.5, 1.5, 0.4),
    "temperature": (4, 4, 4, 4, 4, 4),
    "logits, temperature": (4, 4, 4, 4, 4, 4),
    "NumPy alone": (14, 100, 2, 8, 28, 12),
}
LABELS_MERGED = 5  # into one
LITERAL_ROWS = 2_000  # the literal procedure gets fewer, and is compared on those
ERROR_BARS = [("float32", 1e-6), ("float64", 1e-12)]
FIT_BARS = [(1000, 1, 500, 30.0), (100, 60, 100, 20.0)]
FITS = ((10, 1, 100), (10, 7, 100), (100, 1, 100), (100, 60, 100), (1000, 1, 500), (1000, 100, 10))


def plain_line(rows: Rows, keep: npt.NDArray[np.intp]) -> Rows:
    p: Rows = rows[:, keep]
    return np.asarray(p / p.sum(1, keepdims=True))


def paths(
    outputs: Rows, reference: Rows, truth: npt.NDArray[np.int64], removed: Sequence[int]
) -> dict[str, tuple[Callable[[], object], str]]:
    """Return the work of every path, with the line that it is compared with."""
    rows = softmax(outputs, axis=1)
    labels = range(rows.shape[1])
    osr = fitted(softmax(reference, axis=1), truth, remove=removed)
    of_logits = fitted(reference, truth, remove=removed, kind="logits")
    mask = OutputFilter.from_plan(LabelPlan(removed), classes=labels)
    merge = OutputFilter.from_plan(groups_of(labels), classes=labels)
    calibrated, calibrated_logits = (
        replace(each, temperature=merges.TEMPERATURE) for each in (osr, of_logits)
    )
    work: dict[str, tuple[Callable[[], object], str]] = {
        "probabilities": (partial(osr.apply, rows), "line"),
        "mask": (partial(mask.apply, rows), "line"),
        "logits": (partial(of_logits.apply, outputs), "softmax line"),
        "logits, mask": (partial(replace(mask, kind="logits").apply, outputs), "softmax line"),
        "temperature": (partial(calibrated.apply, rows), "temperature line"),
        "logits, temperature": (
            partial(calibrated_logits.apply, outputs),
            "temperature softmax line",
        ),
        "merge": (partial(merge.apply, rows), "product"),
        "NumPy alone": (partial(in_numpy, osr, rows), "line"),
        "NumPy alone, mask": (partial(in_numpy, mask, rows), "line"),
        "NumPy alone, logits": (partial(in_numpy, of_logits, outputs), "softmax line"),
    }
    if find_spec("torch") is not None:
        import torch

        from unlabel.torch import FilterModule

        module = FilterModule(of_logits)
        work["PyTorch, logits"] = (lambda: module(torch.from_numpy(outputs)), "torch line")
    return work


def groups_of(labels: Sequence[int]) -> dict[int, str]:
    """Merge neighbouring labels."""
    return {label: f"group {label // LABELS_MERGED}" for label in labels}


def lines(outputs: Rows, keep: npt.NDArray[np.intp]) -> dict[str, Callable[[], object]]:
    rows = softmax(outputs, axis=1)
    labels = range(rows.shape[1])
    matrix = merges.dense(OutputFilter.from_plan(groups_of(labels), classes=labels))
    plain: dict[str, Callable[[], object]] = {
        "line": partial(plain_line, rows, keep),
        "softmax line": lambda: softmax(outputs[:, keep], axis=1),
        "temperature line": lambda: plain_line(merges.at_temperature(rows), keep),
        "temperature softmax line": lambda: plain_line(
            softmax(outputs / merges.TEMPERATURE, axis=1), keep
        ),
        "product": partial(np.matmul, rows, matrix),
    }
    if find_spec("torch") is not None:
        import torch

        tensor, columns = torch.from_numpy(outputs), torch.from_numpy(keep)
        plain["torch line"] = lambda: torch.softmax(tensor[:, columns], 1)
    return plain


def measure_paths(
    outputs: Rows,
    reference: Rows,
    truth: npt.NDArray[np.int64],
    removed: Sequence[int],
    repeats: int,
) -> dict[str, float]:
    """Divide the best time of every path by the best time of its line."""
    keep = np.delete(np.arange(outputs.shape[1]), removed)
    plain = lines(outputs, keep)
    found: dict[str, float] = {}
    for path, (work, line) in paths(outputs, reference, truth, removed).items():
        times = timed({"ours": work, "line": plain[line]}, repeats)
        found[path] = min(times["ours"]) / min(times["line"])
        if path == "probabilities":
            found["spread"] = float(np.median(times["ours"])) / min(times["ours"])
    return found


def measure_errors(outputs: Rows, removing: OutputFilter, steps: Sequence[Any]) -> dict[str, float]:
    """Largest difference from the procedure step by step, some rows being all but one label's."""
    given = outputs[:LITERAL_ROWS].copy()
    given[::5, outcome_of_filter(removing).removed[0]] = given[::5].max(axis=1) + 16
    rows = softmax(given.astype(np.float64), axis=1)
    narrow = rows.astype(np.float32)
    exact = literal_procedure.apply(rows, steps)
    wide = narrow.astype(np.float64)
    exact_narrow = literal_procedure.apply(wide / wide.sum(axis=1, keepdims=True), steps)
    of_logits = replace(removing, kind="logits")

    def error(result: npt.NDArray[Any], truth: npt.NDArray[np.float64]) -> float:
        return float(np.abs(result - truth).max())

    return {
        "error, float64": error(removing.apply(rows), exact),
        "error, float64 logits": error(of_logits.apply(given.astype(np.float64)), exact),
        "error, float32": error(removing.apply(narrow), exact_narrow),
        "error, float32 logits": error(of_logits.apply(given), exact),
    }


def measure_fit(
    rng: np.random.Generator, labels: int, removed: int, each: int, repeats: int
) -> dict[str, float]:
    rows, truth = reference_rows(rng, labels, removed, each)
    fit = partial(fitted, rows, truth, remove=range(removed))
    removing = fit()
    times = timed({"ours": fit}, repeats)
    found: dict[str, float] = {"labels": labels, "removed": removed, "rows each": each}
    found["spread"] = float(np.median(times["ours"])) / min(times["ours"])
    if labels * removed > 10_000:  # the literal procedure would take minutes
        return found
    wide = rows.astype(np.float64)
    references = np.split(wide / wide.sum(axis=1, keepdims=True), removed)
    literal = partial(literal_procedure.fit, references, range(removed), labels)
    start = time.perf_counter()
    steps = literal()
    seconds = time.perf_counter() - start
    literal_times = timed(
        {"literal": literal, "in products": partial(literal, in_products=True)},
        max(2, min(repeats, int(10 / seconds))),
    )
    found |= {name: min(times["ours"]) / min(taken) for name, taken in literal_times.items()}
    outputs = logits(rng, LITERAL_ROWS, labels)[0]
    rows = softmax(outputs, axis=1)
    times = timed(
        {
            "ours": partial(removing.apply, rows),
            "literal": partial(literal_procedure.apply, rows, steps),
        },
        repeats,
    )
    found["literal apply"] = min(times["ours"]) / min(times["literal"])
    return found | measure_errors(outputs, removing, steps)


def measure_real(repeats: int, rows: int) -> Iterator[dict[str, Any]]:
    """Measure the paths on the outputs of a real network, repeated to the size of the others."""
    outputs = load_cifar10()
    base = outputs.base.astype(np.float32)
    table = np.tile(base, (rows // len(base), 1))
    column = {label: number for number, label in enumerate(outputs.classes)}
    truth = np.array([column[label] for label in outputs.labels.tolist()])
    for name, removal in outputs.removals.items():
        removed = [column[label] for label in removal.removed]
        ratios = measure_paths(table, base, truth, removed, repeats)
        yield {"labels": 10, "removed": len(removed), "set": name} | ratios


def machine() -> dict[str, Any]:
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = names[0].split(":")[1].strip() if names else model
    packages = [name for name in ("numpy", "scipy", "torch", "unlabel") if find_spec(name)]
    return {
        "processor": model,
        "cores": len(os.sched_getaffinity(0)),
        "compiled": compiled.is_available(),
        "load_at_start": round(os.getloadavg()[0], 2),
        "versions": {"python": platform.python_version()} | {p: version(p) for p in packages},
    }


def bars(
    apply: Sequence[dict[str, Any]], fit: Sequence[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    for path, most in BARS.items():
        for row, limit in zip(apply, most, strict=True):
            work = f"{path}, n={row['labels']} k={row['removed']}"
            yield verdict(work, f"at most {limit:g}", row[path], row[path] <= limit)
    for n, k, each, least in FIT_BARS:
        row = next(r for r in fit if (r["labels"], r["removed"], r["rows each"]) == (n, k, each))
        times, work = 1 / row["literal"], f"fit n={n} k={k}, {each} rows each"
        yield verdict(work, f"at least {least:g} x the literal speed", times, times >= least)
    for kind, limit in ERROR_BARS:
        names = (f"error, {kind}", f"error, {kind} logits")
        error = max(row.get(name, 0.0) for row in fit for name in names)
        yield verdict(f"apply, {kind}", f"errors under {limit:g}", error, 0 < error < limit)


def list_bars(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    ratio, work = found["lists"], f"{lists.LISTS} lists of allowed labels"
    yield verdict(work, f"at most {lists.BAR:g} of a mask", ratio, ratio <= lists.BAR)
    seconds, limit = found["seconds to read"], lists.SECONDS
    work = f"{lists.FILE_LISTS} lists of {lists.FILE_LABELS} labels read"
    yield verdict(work, f"in under {limit:g} s", seconds, seconds < limit)


def merge_bar(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    (_, n, merged, into), limit = merges.BAR
    size = {"labels": n, "merged": merged, "into": into}
    ratio = next(row["merge"] for row in found if size.items() <= row.items())
    work = f"merge of {merged} labels into {into}"
    return verdict(work, f"at most {limit:g} of the product", ratio, ratio <= limit)


def verdict(work: str, bar: str, found: float, met: bool) -> dict[str, Any]:
    return {"work": work, "bar": bar, "found": found, "met": met}


def show(title: str, rows: Sequence[dict[str, Any]]) -> None:
    print(f"\n{title}")
    for column in dict.fromkeys(key for row in rows for key in row):
        cells = [row.get(column, "") for row in rows]
        print(
            f"{column:>24}",
            *(f"{c:>9.3g}" if isinstance(c, float) else f"{c:>9}" for c in cells),
        )


def on_cpu(quick: bool) -> dict[str, Any]:
    repeats, part = (3, 4) if quick else (9, 1)
    rng = np.random.default_rng(0)
    begun = time.perf_counter()
    result: dict[str, Any] = {"machine": machine(), "repeats": repeats}
    print(json.dumps(result, indent=1))
    result["apply"] = []
    for n_rows, n, k in SIZES:
        reference, truth = reference_rows(rng, n, k, 20)
        outputs = logits(rng, n_rows // part, n)[0]
        ratios = measure_paths(outputs, np.log(reference), truth, range(k), repeats)
        result["apply"].append({"rows": n_rows // part, "labels": n, "removed": k} | ratios)
        print(json.dumps(result["apply"][-1]), flush=True)
    result["fit"] = [measure_fit(rng, *size, repeats) for size in FITS]
    result["real"] = list(measure_real(repeats, 200_000 // part))
    result["merge"] = list(merges.measure_merges(rng, repeats, part))
    result["lists"] = lists.measure_lists(rng, repeats, part)
    result["growth"] = measure_growth(rng, 3 if quick else 7, 10 if quick else 1)
    result["bars"] = [
        *bars(result["apply"], result["fit"]),
        merge_bar(result["merge"]),
        *list_bars(result["lists"]),
    ]
    result["seconds"] = round(time.perf_counter() - begun)
    show("apply: our time over the plain line's", result["apply"])
    show("apply to the outputs of a real network", result["real"])
    show("merge: our time over the product with a dense matrix", result["merge"])
    show("fit: our time over the paper's procedure", result["fit"])
    print("\ngrowth: exponent between the two largest sizes")
    for series in result["growth"]:
        print(f"{series['of']:28} {series['work']:12} {series['exponent']:6.2f}")
    print(f"\n{result['seconds']} s, load {os.getloadavg()[0]:.2f} at the end")
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller tables, fewer repeats")
    parser.add_argument("--out", type=Path, help="write the results to this JSON file")
    parser.add_argument("--plot", type=Path, help="draw the growth to this file")
    parser.add_argument("--gpu", action="store_true", help="on an NVIDIA GPU, through PyTorch")
    given = parser.parse_args()
    if given.gpu:
        import speed_gpu

        result = speed_gpu.measure_gpu()
    else:
        result = on_cpu(given.quick)
    print("\nbars (float32)")
    for bar in result["bars"]:
        met = "met" if bar["met"] else "NOT MET"
        print(f"{bar['work']:36} {bar['bar']:30} {bar['found']:10.3g}  {met}")
    if given.out:
        given.out.write_text(json.dumps(result, indent=1) + "\n")
    if given.plot:
        draw(result["growth"], given.plot)


if __name__ == "__main__":
    main()
