"""Shared by the benchmarks: realistic confidences, and the time and memory of a command."""

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

# The kernel's own value for the process: getrusage of a child includes the parent's memory.
PRINT_PEAK = """
import atexit, re
atexit.register(lambda: print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]))
"""
UNLABEL = "from unlabel.__main__ import main; main()"


def logits(
    rng: np.random.Generator, rows: int, labels: int, lead: float = 8
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Draw network-like logits, in which the true label leads, and uniform true labels."""
    truth = rng.integers(labels, size=rows)
    drawn = rng.normal(size=(rows, labels)).astype(np.float32)
    drawn[np.arange(rows), truth] += rng.normal(lead, 4, size=rows).astype(np.float32)
    return drawn, truth


def confidences(
    rng: np.random.Generator, rows: int, labels: int, lead: float = 8
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Draw the softmax of such logits, and true labels."""
    drawn, truth = logits(rng, rows, labels, lead)
    exponentials = np.exp(drawn - drawn.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True), truth


def run_measured(folder: Path, *arguments: str, code: str = UNLABEL) -> tuple[float, float]:
    """Run an `unlabel` command, or other code; return its seconds and its peak memory in MiB."""
    start = time.perf_counter()
    command = [sys.executable, "-c", PRINT_PEAK + code, *arguments]
    output = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return time.perf_counter() - start, int(output.stdout.split()[-1]) / 1024


def machine() -> str:
    """Describe the hardware and the versions that results depend on."""
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"NumPy {np.__version__}, pyarrow {pa.__version__}"
    )
