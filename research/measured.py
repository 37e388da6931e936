"""What measured times and last digits depend on."""

from __future__ import annotations

import os
import platform

import numpy as np


def machine() -> str:
    """Describe the hardware, and the versions of Python and NumPy."""
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"NumPy {np.__version__}"
    )
