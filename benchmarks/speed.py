"""How fast the filter is, in ratios measured within one run.

Against the line of NumPy that it replaces, against the paper's procedure as it is written,
and against a plain copy of the array, which nothing that reads and writes it can beat.

    python benchmarks/speed.py [--quick] [--out FILE.json] [--plot FILE.svg]
    python benchmarks/speed.py --gpu [--out FILE.json]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

import literal_procedure
from growth import draw, measure_growth, reference_rows
from unlabel import OutputFilter
from unlabel.evaluation.samples import load_cifar10
from unlabel.fitting import fit_filter
from workload import confidences

Rows = npt.NDArray[np.float32]
Times = dict[str, list[float]]

ENTRIES = 20_000_000  # of a table that is filtered: 80 MB, far more than the caches hold
LONG_ENOUGH = 3.0  # seconds that one comparison takes at least, if 20 times the repeats do not
LITERAL_ROWS = 2_000  # the literal procedure gets fewer, and is compared on those
REMOVED = {10: (1, 5, 7), 100: (1, 10, 50, 60), 1000: (1, 10, 500), 10_000: (1, 10, 5000)}
# Work, what it is measured against, and the ratio of the two that it must reach.
APPLY_BARS = [
    (100, 1, "one-liner", 0.5),
    (100, 1, "copy", 3.0),
    (1000, 1, "one-liner", 0.3),
    (10, 1, "one-liner", 1.5),
    (100, 60, "one-liner", 2.5),
    (10, 7, "one-liner", 4.0),
]
ERROR_BARS = [("float32", 1e-6), ("float64", 1e-12)]
FIT_BARS = [(1000, 1, 500, 500.0), (100, 60, 100, 100.0)]


def one_liner(rows: Rows, keep: npt.NDArray[np.intp]) -> Rows:
    p: Rows = rows[:, keep]
    return np.asarray(p / p.sum(1, keepdims=True))


def timed(contenders: dict[str, Callable[[], object]], repeats: int) -> Times:
    """Seconds of every repeat, the contenders taking turns; more of them where they are short."""
    times: Times = {name: [] for name in contenders}
    begun = time.perf_counter()
    for turn in range(20 * repeats):
        if turn >= repeats and time.perf_counter() - begun > LONG_ENOUGH:
            break
        for name, work in contenders.items():
            start = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - start)
    return times


def spread(seconds: Sequence[float]) -> float:
    """Median over best."""
    return float(np.median(seconds) / min(seconds))


def measure_apply(
    rows: Rows, fitted: OutputFilter, repeats: int, steps: list[Any] | None
) -> dict[str, float]:
    copied, keep = np.empty_like(rows), fitted.retained_columns
    fitted.apply(rows[:2])  # compiled, or loaded, before it counts
    times = timed(
        {
            "ours": lambda: fitted.apply(rows),
            "one-liner": lambda: one_liner(rows, keep),
            "copy": lambda: np.copyto(copied, rows),
        },
        repeats,
    )
    best = {name: min(seconds) for name, seconds in times.items()}
    found = {name: best["ours"] / best[name] for name in ("one-liner", "copy")}
    found["spread"] = spread(times["ours"])
    if steps is not None:
        few = rows[:LITERAL_ROWS]
        times = timed(
            {
                "ours": lambda: fitted.apply(few),
                "literal": lambda: literal_procedure.apply(few, steps),
            },
            repeats,
        )
        found["literal"] = min(times["ours"]) / min(times["literal"])
        found |= measure_errors(rows, fitted, steps)
    return found


def measure_errors(rows: Rows, fitted: OutputFilter, steps: list[Any]) -> dict[str, float]:
    """Largest difference from the procedure step by step, some rows being all but one label's."""
    wide = rows[:LITERAL_ROWS].astype(np.float64)
    label = fitted.removed_columns[0]
    wide[::5, label] = 0.0
    wide[::5] *= 1e-7 / wide[::5].sum(axis=1, keepdims=True)
    wide[::5, label] = 1 - 1e-7
    wide /= wide.sum(axis=1, keepdims=True)
    narrow = wide.astype(np.float32).astype(np.float64)
    return {
        "error, float64": float(
            np.abs(fitted.apply(wide) - literal_procedure.apply(wide, steps)).max()
        ),
        "error, float32": float(
            np.abs(
                fitted.apply(narrow.astype(np.float32))
                - literal_procedure.apply(narrow / narrow.sum(axis=1, keepdims=True), steps)
            ).max()
        ),
    }


def measure_fit(
    rng: np.random.Generator, labels: int, removed: int, each: int, repeats: int, literal: bool
) -> tuple[dict[str, float], OutputFilter, list[Any] | None]:
    rows, truth = reference_rows(rng, labels, removed, each)
    fitted = fit_filter(rows, truth, remove=range(removed))
    times = timed({"ours": lambda: fit_filter(rows, truth, remove=range(removed))}, repeats)
    found = {"spread": spread(times["ours"])}
    steps = None
    if literal:
        wide = rows.astype(np.float64)
        references = np.split(wide / wide.sum(axis=1, keepdims=True), removed)
        start = time.perf_counter()
        steps = literal_procedure.fit(references, range(removed), labels)
        seconds = time.perf_counter() - start
        literal_times = timed(
            {
                "literal": partial(literal_procedure.fit, references, range(removed), labels),
                "in products": partial(
                    literal_procedure.fit, references, range(removed), labels, in_products=True
                ),
            },
            max(2, min(repeats, int(10 / seconds))),
        )
        found |= {name: min(times["ours"]) / min(taken) for name, taken in literal_times.items()}
    return found, fitted, steps


def measure_real(repeats: int, entries: int) -> list[dict[str, Any]]:
    """The outputs of a real network, repeated until they are as large as the other tables."""
    outputs = load_cifar10()
    rows = softmax(outputs.base, axis=1)
    table = np.tile(rows, (entries // rows.size, 1))
    found = []
    for name, removal in outputs.removals.items():
        fitted = fit_filter(rows, outputs.labels, classes=outputs.classes, remove=removal.removed)
        ratios = measure_apply(table, fitted, repeats, None)
        found.append({"labels": 10, "removed": len(removal.removed), "set": name} | ratios)
    return found


def machine() -> dict[str, Any]:
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = names[0].split(":")[1].strip() if names else model
    versions = {"python": platform.python_version()}
    for package in ("numpy", "numba", "unlabel"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    return {
        "processor": model,
        "cores": len(os.sched_getaffinity(0)),
        "load_at_start": round(os.getloadavg()[0], 2),
        "versions": versions,
    }


def show(title: str, rows: list[dict[str, Any]], columns: Sequence[str]) -> None:
    print(f"\n{title}")
    print("  ".join(f"{column:>10}" for column in columns))
    for row in rows:
        cells = [row.get(column, "") for column in columns]
        print("  ".join(f"{c:>10.3g}" if isinstance(c, float) else f"{c:>10}" for c in cells))


def bars(apply: list[dict[str, Any]], fit: list[dict[str, Any]]) -> list[dict[str, Any]]:
    def of(rows: list[dict[str, Any]], *key: int) -> dict[str, Any]:
        names = ("labels", "removed", "rows each")[: len(key)]
        return next(row for row in rows if tuple(row[name] for name in names) == key)

    found = []
    for n, k, against, most in APPLY_BARS:
        ratio = of(apply, n, k)[against]
        bar = f"at most {most:g} of the {against}"
        found.append(
            {"work": f"apply n={n} k={k}", "bar": bar, "found": ratio, "met": ratio <= most}
        )
    for n, k, each, least in FIT_BARS:
        times = 1 / of(fit, n, k, each)["literal"]
        bar = f"at least {least:g} x the literal speed"
        work = f"fit n={n} k={k}, {each} rows each"
        found.append({"work": work, "bar": bar, "found": times, "met": times >= least})
    for kind, most in ERROR_BARS:
        error = max(row.get(f"error, {kind}", 0.0) for row in apply)
        bar = f"errors under {most:g}"
        found.append(
            {"work": f"apply, {kind}", "bar": bar, "found": error, "met": 0 < error < most}
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller tables, fewer repeats")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    parser.add_argument("--plot", type=Path, help="draw the growth to this file")
    parser.add_argument("--gpu", action="store_true", help="on an NVIDIA GPU, through PyTorch")
    given = parser.parse_args()
    result = on_gpu() if given.gpu else on_cpu(given.quick)
    print("\nbars (float32)")
    for bar in result["bars"]:
        met = "met" if bar["met"] else "NOT MET"
        print(f"{bar['work']:32} {bar['bar']:34} {bar['found']:10.3g}  {met}")
    if given.out:
        given.out.write_text(json.dumps(result, indent=1) + "\n")
    if given.plot:
        draw(result["growth"], given.plot)


def on_gpu() -> dict[str, Any]:
    import speed_gpu

    result: dict[str, Any] = {"machine": speed_gpu.machine(), "repeats": speed_gpu.REPEATS}
    print(json.dumps(result, indent=1))
    result["apply"] = list(speed_gpu.measure_gpu())
    columns = ("rows", "labels", "removed", "bandwidth", "one-liner", "copy", "spread", "error")
    show("apply: of a copy's bandwidth; our time over theirs", result["apply"], columns)
    return result | {"bars": speed_gpu.bars(result["apply"])}


def on_cpu(quick: bool) -> dict[str, Any]:
    repeats, entries = (3, ENTRIES // 10) if quick else (9, ENTRIES)
    rng = np.random.default_rng(0)
    begun = time.perf_counter()
    result: dict[str, Any] = {"machine": machine(), "repeats": repeats, "entries": entries}
    print(json.dumps(result, indent=1))
    apply: list[dict[str, Any]] = []
    fit: list[dict[str, Any]] = []
    for n, removals in REMOVED.items():
        rows = confidences(rng, entries // n, n)[0]
        for k in removals:
            if quick and k > 500:
                continue
            each = {10: 100, 100: 100, 1000: 500 if k == 1 else 10, 10_000: 2}[n]
            literal = n <= 100 or (n == 1000 and k == 1)
            size = {"labels": n, "removed": k}
            fitting, fitted, steps = measure_fit(
                rng, n, k, each, repeats if k < 1000 else 1, literal
            )
            fit.append(size | {"rows each": each} | fitting)
            apply.append(size | measure_apply(rows, fitted, repeats, steps))
            print(f"n={n} k={k}: {json.dumps(apply[-1])}", flush=True)
        del rows
    result |= {"apply": apply, "fit": fit, "real": measure_real(repeats, entries)}
    result["growth"] = measure_growth(rng, 3 if quick else 7, 10 if quick else 1)
    result["bars"] = bars(apply, fit)
    result["seconds"] = round(time.perf_counter() - begun)
    columns = ("labels", "removed", "one-liner", "copy", "literal", "spread")
    show("apply: our time over theirs (spread: median over best)", apply, columns)
    show("apply to the outputs of a real network", result["real"], ("set", *columns[:4], "spread"))
    show(
        "fit: our time over theirs",
        fit,
        ("labels", "removed", "rows each", "literal", "in products", "spread"),
    )
    print("\ngrowth: exponent between the two largest sizes")
    for series in result["growth"]:
        print(f"{series['of']:28} {series['work']:12} {series['exponent']:6.2f}")
    print(f"\n{result['seconds']} s, load {os.getloadavg()[0]:.2f} at the end")
    return result


if __name__ == "__main__":
    main()
