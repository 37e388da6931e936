"""What the benchmarks share: realistic confidences, and a command's time and memory."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# The kernel's own figure for the process: what getrusage says of a child counts the parent's
# memory in.
RUN_AND_TELL_PEAK = """
import atexit, re
from unlabel.__main__ import main
atexit.register(lambda: print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]))
main()
"""


def confidences(
    rng: np.random.Generator, rows: int, labels: int, lead: float = 8
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Softmax of network-like logits, in which the true label leads, and true labels."""
    truth = rng.integers(labels, size=rows)
    logits = rng.normal(size=(rows, labels)).astype(np.float32)
    logits[np.arange(rows), truth] += rng.normal(lead, 4, size=rows).astype(np.float32)
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True), truth


def run_measured(folder: Path, *arguments: str) -> tuple[float, float]:
    """Seconds and peak mebibytes of an `unlabel` command."""
    start = time.perf_counter()
    command = [sys.executable, "-c", RUN_AND_TELL_PEAK, *arguments]
    output = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return time.perf_counter() - start, int(output.stdout.split()[-1]) / 1024


def machine() -> str:
    """The hardware and the versions that figures depend on."""
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"NumPy {np.__version__}, pyarrow {pa.__version__}"
    )
