"""The GPU part of speed.py: the module of `unlabel.torch` beside a copy and mask in PyTorch.

Ratios of times on the device, the best of several repeats after a warm-up.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

from unlabel.fitting import fit_filter
from unlabel.torch import FilterModule

REPEATS = 50
DEVICE = torch.device("cuda")
# rows, labels, retired labels
WORK: tuple[tuple[int, int, int], ...] = (
    (4_000_000, 100, 1),
    (4_000_000, 100, 4),
    (4_000_000, 100, 60),
    (40_000_000, 10, 1),
    (400_000, 1000, 1),
    (1_000_000, 1000, 100),
    (40_000, 10_000, 1),
)


def confidences(rows: int, labels: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw true labels, and the softmax of network-like logits in which they lead by about 8.

    In one row of a hundred they lead by 16 more: all but about 1e-7 of it is on one label.
    """
    generator = torch.Generator(DEVICE).manual_seed(seed)
    truth = torch.randint(labels, (rows,), generator=generator, device=DEVICE)
    logits = torch.randn(rows, labels, generator=generator, device=DEVICE)
    lead = 8 + 4 * torch.randn(rows, 1, generator=generator, device=DEVICE)
    lead[::100] += 16
    return logits.scatter_add_(1, truth[:, None], lead).softmax(1), truth


def milliseconds(work: Callable[[], Any]) -> list[float]:
    """Time some work on the device, in milliseconds per repeat."""
    for _ in range(3):
        work()
    times = []
    for _ in range(REPEATS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return times


def measure(n_rows: int, n: int, k: int) -> dict[str, Any]:
    """Measure the ratios for one size."""
    removed = list(range(0, n, n // k))[:k]
    reference, truth = confidences(50 * n, n, seed=1)
    wanted = torch.isin(truth, torch.tensor(removed, device=DEVICE))
    fitted = fit_filter(
        reference[wanted].double().cpu().numpy(),
        truth[wanted].cpu().numpy(),
        remove=removed,
    )
    module = FilterModule(fitted).to(DEVICE)
    rows, _ = confidences(n_rows, n, seed=2)
    with torch.no_grad():
        checked = rows[:20_000]
        float64 = checked.double().cpu().numpy()
        exact = fitted.apply(float64 / float64.sum(axis=1, keepdims=True))
        error = float(np.abs(module(checked).cpu().numpy() - exact).max())
        keep = torch.tensor(fitted.retained_columns, device=DEVICE)
        copy = milliseconds(partial(torch.empty_like(rows).copy_, rows))

        def one_liner() -> torch.Tensor:
            kept = rows[:, keep]
            return kept / kept.sum(1, keepdim=True)

        mask = milliseconds(one_liner)
        filtered = milliseconds(lambda: module(rows))
    bandwidth = 2 * rows.nbytes / min(copy)
    moved = (rows.numel() + n_rows * (n - k)) * rows.itemsize
    return {
        "rows": n_rows,
        "labels": n,
        "removed": k,
        "bandwidth": moved / min(filtered) / bandwidth,
        "one-liner": min(filtered) / min(mask),
        "copy": min(filtered) / min(copy),
        "spread": float(np.median(filtered)) / min(filtered),
        "copy_gb_per_s": bandwidth / 1e6,
        "error": error,
    }


def machine() -> dict[str, Any]:
    return {
        "gpu": torch.cuda.get_device_name(),
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
    }


def measure_gpu() -> Iterator[dict[str, Any]]:
    """Measure the ratios for each size, one after the other."""
    for work in WORK:
        yield measure(*work)
        torch.cuda.empty_cache()


def bars(apply: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Compare the fused kernels with the values they must reach."""
    found = {(row["rows"], row["labels"], row["removed"]): row for row in apply}
    narrow, wide = found[4_000_000, 100, 1], found[1_000_000, 1000, 100]
    return [
        {
            "work": "GPU apply 4M x 100, k=1",
            "bar": "at least 0.7 of the copy bandwidth",
            "found": narrow["bandwidth"],
            "met": narrow["bandwidth"] >= 0.7,
        },
        {
            "work": "GPU apply 1M x 1000, k=100",
            "bar": "at most 3 of the one-liner",
            "found": wide["one-liner"],
            "met": wide["one-liner"] <= 3,
        },
        {
            "work": "GPU apply, every size",
            "bar": "errors under 1e-6",
            "found": max(row["error"] for row in apply),
            "met": max(row["error"] for row in apply) < 1e-6,
        },
    ]
