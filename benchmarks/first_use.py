"""The cost of compiling: the loops of the extra `fast`, and `torch.compile` on a filter.

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

from speed import timed
from unlabel.filter import OutputFilter
from unlabel.fitting import fit_filter
from unlabel.torch import FilterModule
from workload import confidences

LABELS, ROWS = 100, 600
FIRST = """
import time
import numpy as np
from unlabel.fitting import fit_filter
rows = np.full((100, 10), 0.1, dtype=np.float32)
start = time.perf_counter()
fitted = fit_filter(rows, np.arange(100) % 10, remove=[0])
fit = time.perf_counter()
fitted.apply(rows)
print(f"first fit {fit - start:.1f} s, first apply {time.perf_counter() - fit:.1f} s")
"""


def loops() -> None:
    with tempfile.TemporaryDirectory() as cache:
        for process in ("a machine's first process", "the next one"):
            print(f"{process}: ", end="", flush=True)
            environment = os.environ | {"NUMBA_CACHE_DIR": cache}
            subprocess.run([sys.executable, "-c", FIRST], env=environment, check=True)


def compiled(kind: str, fitted: OutputFilter, rows: torch.Tensor) -> None:
    torch._dynamo.reset()
    module = FilterModule(fitted)
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
    loops()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    rows = confidences(np.random.default_rng(0), ROWS, LABELS, 8.0)[0]
    truth = np.arange(ROWS) % LABELS
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
        for k in (3, 10, 60):
            fitted = fit_filter(rows, truth, remove=range(k))
            compiled(f"{k} labels retired", fitted, torch.tensor(rows))
        mask = fit_filter(rows, truth, remove=range(60), method="mask")
        compiled("60 labels masked", mask, torch.tensor(rows))
