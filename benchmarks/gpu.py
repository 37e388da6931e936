"""The fused kernels on a GPU, beside a copy of the rows and torch's own mask-and-renormalise.

    python benchmarks/gpu.py [RESULTS.json]

Ratios of times on the device, best of several repeats after a warm-up.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fused_kernels import FusedArrays, fused_apply
from unlabel.fitting import fit_filter

REPEATS = 50
DEVICE = torch.device("cuda")
# rows, labels, removed labels
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
    """Softmax of network-like logits, whose true label leads by about 8, and true labels."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    truth = torch.randint(labels, (rows,), generator=generator, device=DEVICE)
    logits = torch.randn(rows, labels, generator=generator, device=DEVICE)
    lead = 8 + 4 * torch.randn(rows, 1, generator=generator, device=DEVICE)
    return logits.scatter_add_(1, truth[:, None], lead).softmax(1), truth


def milliseconds(work: Callable[[], Any]) -> list[float]:
    """Times of one piece of work on the device."""
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
    """Ratios for one size."""
    removed = list(range(0, n, n // k))[:k]
    reference, truth = confidences(50 * n, n, seed=1)
    wanted = torch.isin(truth, torch.tensor(removed, device=DEVICE))
    fitted = fit_filter(
        reference[wanted].double().cpu().numpy(),
        truth[wanted].cpu().numpy(),
        remove=removed,
    )
    arrays = FusedArrays(fitted.chain, DEVICE)
    rows, _ = confidences(n_rows, n, seed=2)
    with torch.no_grad():
        some = rows[:2000]
        exact = fitted.apply(some.double().cpu().numpy())
        error = float(np.abs(fused_apply(some, arrays).cpu().numpy() - exact).max())
        keep = torch.tensor(fitted.retained_columns, device=DEVICE)
        copy = milliseconds(partial(torch.empty_like(rows).copy_, rows))

        def one_liner() -> torch.Tensor:
            kept = rows[:, keep]
            return kept / kept.sum(1, keepdim=True)

        mask = milliseconds(one_liner)
        filtered = milliseconds(lambda: fused_apply(rows, arrays))
    bandwidth = 2 * rows.nbytes / min(copy)
    moved = (rows.numel() + n_rows * (n - k)) * rows.itemsize
    return {
        "rows": n_rows,
        "labels": n,
        "removed": k,
        "of_copy_bandwidth": moved / min(filtered) / bandwidth,
        "of_mask": min(filtered) / min(mask),
        "of_copy": min(filtered) / min(copy),
        "spread": float(np.median(filtered)) / min(filtered),
        "copy_gb_per_s": bandwidth / 1e6,
        "error": error,
    }


def main() -> None:
    machine = {
        "gpu": torch.cuda.get_device_name(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "repeats": REPEATS,
    }
    print(machine)
    results = []
    print("rows, labels, removed | of copy bandwidth | of mask | median/best | error")
    for work in WORK:
        found = measure(*work)
        results.append(found)
        torch.cuda.empty_cache()
        print(
            f"{work} | {found['of_copy_bandwidth']:.2f} | {found['of_mask']:.2f} | "
            f"{found['spread']:.2f} | {found['error']:.1e}",
            flush=True,
        )
    bars = (
        ("4M x 100, k=1: at least .70 of the copy bandwidth", results[0]["of_copy_bandwidth"], 0.7),
        ("1M x 1000, k=100: at most 3 of mask", -results[5]["of_mask"], -3.0),
    )
    for name, value, bar in bars:
        print(f"{name}: {abs(value):.2f}, {'met' if value >= bar else 'NOT met'}")
    if len(sys.argv) > 1:
        text = json.dumps({"machine": machine, "results": results}, indent=1)
        Path(sys.argv[1]).write_text(text + "\n")


if __name__ == "__main__":
    main()
