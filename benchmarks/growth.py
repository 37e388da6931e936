"""Growth of the filter's time with the rows, the labels and the removed labels."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from research import literal_procedure
from timing import fitted
from workload import confidences

# Rows, labels and removed labels, one of which grows.
SERIES = {
    "rows N (n=100, k=10)": [(n_rows, 100, 10) for n_rows in (2**10, 2**12, 2**14, 2**16, 2**18)],
    "labels n (N=2000, k=10)": [(2000, n, 10) for n in (32, 128, 512, 2048, 8192)],
    "removed k (N=5000, n=1000)": [(5000, 1000, k) for k in (1, 4, 16, 64, 256)],
}
LITERAL_LABELS = (32, 128, 512)


def reference_rows(
    rng: np.random.Generator, labels: int, removed: int, each: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Draw confidences whose true labels are the removed ones, equally many of each."""
    rows, truth = confidences(rng, removed * each, labels)
    wanted, at = np.repeat(np.arange(removed), each), np.arange(len(rows))
    rows[at, truth], rows[at, wanted] = rows[at, wanted], rows[at, truth]
    return rows, wanted


def best(work: Callable[[], object], repeats: int) -> float:
    seconds: list[float] = []
    while len(seconds) < repeats or (sum(seconds) < 0.5 and len(seconds) < 20 * repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def measure_growth(rng: np.random.Generator, repeats: int, shrink: int) -> list[dict[str, Any]]:
    """Measure each series relative to its first size, and the exponent between its last two."""
    found: list[dict[str, Any]] = []
    for name, points in SERIES.items():
        axis = "Nnk".index(name.split()[1])
        seconds: dict[str, list[tuple[int, float]]] = {"apply": [], "fit": [], "literal fit": []}
        for n_rows, n, k in points:
            each = max(2, n_rows // shrink // k)
            rows, truth = reference_rows(rng, n, k, each)
            fit = partial(fitted, rows, truth, remove=range(k))
            size = (n_rows, n, k)[axis]
            seconds["fit"].append((size, best(fit, repeats)))
            seconds["apply"].append(
                (size, best(partial(fit().apply, confidences(rng, k * each, n)[0]), repeats))
            )
            if axis == 1 and n in LITERAL_LABELS:
                references = [rows[truth == label] for label in range(k)]
                literal = partial(literal_procedure.fit, references, range(k), n, in_products=True)
                seconds["literal fit"].append((size, best(literal, 2)))
        for work, measured in seconds.items():
            if measured:
                sizes, times = np.array(measured).T
                exponent = np.log(times[-1] / times[-2]) / np.log(sizes[-1] / sizes[-2])
                growth = {"sizes": sizes.tolist(), "time": (times / times[0]).tolist()}
                found.append({"of": name, "work": work, "exponent": float(exponent)} | growth)
    return found


def draw(growth: list[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "unlabel"  # the same bytes every time
    from matplotlib import pyplot as plt

    panels = list(dict.fromkeys(series["of"] for series in growth))
    figure, axes = plt.subplots(1, len(panels), figsize=(10, 3.4), layout="constrained")
    styles = {"apply": ("#1b6ca8", "o"), "fit": ("#d1495b", "s"), "literal fit": ("#777777", "^")}
    for axis, panel in zip(axes, panels, strict=True):
        for series in growth:
            if series["of"] == panel:
                color, marker = styles[series["work"]]
                size = np.array(series["sizes"]) / series["sizes"][0]
                axis.plot(size, series["time"], color=color, marker=marker, label=series["work"])
        ends = np.array(axis.get_xlim())
        axis.plot([1, ends[1]], [1, ends[1]], color="#bbbbbb", linestyle=":", label="linear")
        axis.set(xscale="log", yscale="log", title=panel, xlabel="size over the first")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("time over the first")
    axes[1].legend(frameon=False)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)
