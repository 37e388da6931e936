"""The GPU part of speed.py: the module of `unlabel.torch` beside a copy and mask in PyTorch.

Ratios of times on the device, the best of several repeats after a warm-up.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from timing import fitted
from unlabel import OutputFilter
from unlabel._typing import Kind
from unlabel.torch import FilterModule

REPEATS = 20
DEVICE = torch.device("cuda")
# Rows, labels, removed labels, and the copies of the input that filtering may take.
WORK = (
    (4_000_000, 100, 1, 1.25),
    (4_000_000, 100, 10, 3.0),
    (4_000_000, 100, 60, 4.5),
    (40_000_000, 10, 1, 1.8),
    (40_000_000, 10, 7, 6.0),
    (1_000_000, 1000, 100, 12.0),
)
# Removed labels of 100 in bfloat16, and the part that it may take of PyTorch's own softmax.
HALF_WORK = ((1, 0.5), (10, 1.0))
# A segmentation's outputs, N x C x H x W, and its removed labels.
IMAGES = (((64, 21, 256, 256), 1), ((16, 150, 256, 256), 10))
LARGEST_ERROR = 1e-6


def logits(rows: int, labels: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw network-like logits in which the true label leads by about 8, and uniform true labels.

    In one row of a hundred it leads by 16 more: all but about 1e-7 of it is on one label.
    """
    generator = torch.Generator(DEVICE).manual_seed(seed)
    truth = torch.randint(labels, (rows,), generator=generator, device=DEVICE)
    drawn = torch.randn(rows, labels, generator=generator, device=DEVICE)
    lead = 8 + 4 * torch.randn(rows, 1, generator=generator, device=DEVICE)
    lead[::100] += 16
    return drawn.scatter_add_(1, truth[:, None], lead), truth


def milliseconds(work: Callable[[], Any]) -> float:
    """Time some work on the device, the best of the repeats."""
    for _ in range(3):
        work()
    times: list[float] = []
    for _ in range(REPEATS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return min(times)


def fitted_filter(n: int, k: int) -> OutputFilter:
    reference, truth = logits(50 * n, n, seed=1)
    removed = list(range(0, n, n // k))[:k]
    wanted = torch.isin(truth, torch.tensor(removed, device=DEVICE))
    rows = reference[wanted].double().softmax(1).cpu().numpy()
    return fitted(rows, truth[wanted].cpu().numpy(), remove=removed)


def measure(n: int, k: int, rows: torch.Tensor, dim: int = 1) -> Iterator[dict[str, Any]]:
    """Measure logits and probabilities of one size."""
    removing = fitted_filter(n, k)
    keep = torch.tensor(removing.classes_out, device=DEVICE)
    copy = milliseconds(partial(torch.empty_like(rows).copy_, rows))
    softmax = milliseconds(lambda: rows.index_select(dim, keep).softmax(dim))
    kinds: tuple[Kind, ...] = ("logits", "probabilities")
    for kind in kinds:
        given = rows if kind == "logits" else rows.softmax(dim)
        module = FilterModule(removing, kind, dim=dim).to(DEVICE)
        few = given[:4] if rows.ndim > 2 else given[:20_000]
        wide = few.movedim(dim, -1).reshape(-1, n).double().cpu().numpy()
        if kind == "probabilities":  # bfloat16 rounds them
            wide /= wide.sum(axis=1, keepdims=True)
        exact = replace(removing, kind=kind).apply(wide)
        result = module(few).movedim(dim, -1).reshape(exact.shape).double().cpu().numpy()
        ours = milliseconds(partial(module, given))
        yield {
            "shape": " x ".join(map(str, rows.shape)),
            "labels": n,
            "removed": k,
            "dtype": str(rows.dtype).removeprefix("torch."),
            "input": kind,
            "copies": ours / copy,
            "softmax": ours / softmax,
            "softmax in copies": softmax / copy,
            "error": float(np.abs(result - exact).max()),
        }


def measure_gpu() -> dict[str, Any]:
    """Measure every size, and compare what is found with the bars."""
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    result: dict[str, Any] = {
        "machine": {"gpu": torch.cuda.get_device_name(), "versions": versions},
        "repeats": REPEATS,
    }
    found: list[dict[str, Any]] = []
    bars: list[dict[str, Any]] = []

    def add(rows: torch.Tensor, n: int, k: int, key: str, most: float | None) -> None:
        for row in measure(n, k, rows):
            print(row, flush=True)
            found.append(row)
            if most is not None and (key == "copies" or row["input"] == "logits"):
                of = "copies" if key == "copies" else "of PyTorch's softmax"
                work = f"{row['shape']} {row['dtype']}, k={k}, {row['input']}"
                bar = f"at most {most:g} {of}"
                bars.append({"work": work, "bar": bar, "found": row[key], "met": row[key] <= most})

    with torch.no_grad():
        for n_rows, n, k, most in WORK:
            add(logits(n_rows, n, seed=2)[0], n, k, "copies", most)
        for k, most in HALF_WORK:
            add(logits(4_000_000, 100, seed=2)[0].bfloat16(), 100, k, "softmax", most)
        for (images, n, height, width), k in IMAGES:
            rows = logits(images * height * width, n, seed=2)[0]
            rows = rows.view(images, height, width, n).permute(0, 3, 1, 2).contiguous()
            add(rows, n, k, "copies", None)
    error = max(row["error"] for row in found if row["dtype"] == "float32")
    work, bar = "float32, every size", f"errors under {LARGEST_ERROR:g}"
    bars.append({"work": work, "bar": bar, "found": error, "met": error < LARGEST_ERROR})
    return result | {"apply": found, "bars": bars}
