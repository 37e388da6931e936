"""Files of what was measured, with the machine that it depends on."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import numpy as np

from research.files import write_json


def write_measured(path: Path, **facts: Any) -> None:
    """Write what was measured, beside the hardware and the versions of Python and NumPy."""
    machine = (
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"NumPy {np.__version__}"
    )
    write_json(path, {"machine": machine, **facts})
