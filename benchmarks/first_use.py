"""The cost of the first use: a new process with a filter, and `torch.compile` on a filter.

python benchmarks/first_use.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np
import torch

from timing import fitted, timed
from unlabel import LabelPlan, OutputFilter
from unlabel.torch import FilterModule
from workload import confidences

LABELS, ROWS = 100, 600
REPEATS = 20
NUMPY = "import sys; import numpy as np; rows = np.full((1_000, 10), 0.1, dtype=np.float32)"
LOAD_AND_APPLY = f"{NUMPY}; import unlabel; unlabel.OutputFilter.load(sys.argv[1]).apply(rows)"


def new_process() -> None:
    """Compare a process that applies a filter to 1,000 rows with one that imports NumPy."""
    best = dict.fromkeys((NUMPY, LOAD_AND_APPLY), np.inf)
    with tempfile.TemporaryDirectory() as folder:
        rows = confidences(np.random.default_rng(0), ROWS, 10)[0]
        truth = np.arange(ROWS) % 10
        removing = fitted(rows, truth, remove=[3, 5], allow_chance=True)
        removing.save(f"{folder}/f.safetensors")
        for code in [*best] * REPEATS:
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code, f"{folder}/f.safetensors"], check=True)
            best[code] = min(best[code], time.perf_counter() - start)
    print(
        f"new process: {best[NUMPY]:.2f} s with NumPy, {best[LOAD_AND_APPLY] - best[NUMPY]:.2f} s "
        "more with a filter that is loaded and applied to 1,000 rows"
    )


def compiled(kind: str, applied: OutputFilter, rows: torch.Tensor) -> None:
    torch._dynamo.reset()
    module = FilterModule(applied)
    faster = torch.compile(module, fullgraph=True)
    start = time.perf_counter()
    faster(rows)
    seconds = time.perf_counter() - start
    variants: dict[str, Callable[[], object]] = {
        "eager": lambda: module(rows),
        "compiled": lambda: faster(rows),
    }
    best = {name: 1000 * min(times) for name, times in timed(variants, 30).items()}
    print(
        f"{kind}: eager {best['eager']:.1f} ms, compiled {best['compiled']:.1f} ms, compiling "
        f"{seconds:.0f} s",
        flush=True,
    )


if __name__ == "__main__":
    new_process()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    rows = confidences(np.random.default_rng(0), ROWS, LABELS, 8.0)[0]
    truth = np.arange(ROWS) % LABELS
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
        for k in (3, 10, 60):
            removing = fitted(rows, truth, remove=range(k), allow_chance=True)
            compiled(f"{k} labels removed", removing, torch.tensor(rows))
        mask = OutputFilter.from_plan(LabelPlan(range(60)), classes=range(LABELS))
        compiled("60 labels masked", mask, torch.tensor(rows))
