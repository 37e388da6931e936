"""Make `magika.npz` and `banking77.npz`: outputs of two models, as log-probabilities.

PYTHONPATH=src:benchmarks python tests/golden/make_calibration.py SHARED_FOLDER
"""

import sys
from pathlib import Path

import numpy as np

from calibration import banking77, magika

# Coarser below e^-6, so that both files together stay under a megabyte: no top answer changes, and
# the temperatures by less than .001.
COARSE_BELOW, STEP = -6, 0.5


def main():
    shared = Path(sys.argv[1])
    for name, model in (("magika", magika(shared)), ("banking77", banking77(shared))):
        logs = np.log(model.confidences)
        logs = np.where(logs < COARSE_BELOW, np.round(logs / STEP) * STEP, logs)
        np.savez_compressed(
            Path(__file__).with_name(f"{name}.npz"),
            log_confidences=logs.astype(np.float16),
            labels=model.labels,
            classes=model.classes,
        )


if __name__ == "__main__":
    main()
