from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

GOLDEN = Path(__file__).parent / "golden"

settings.register_profile("unlabel", max_examples=150, deadline=None, derandomize=True)
settings.load_profile("unlabel")


def real_network(name):
    with np.load(GOLDEN / "real_confidences.npz", allow_pickle=False) as stored:
        return stored[f"{name}_logits"].astype(np.float64), stored[f"{name}_labels"]


@pytest.fixture(scope="session")
def cifar10():
    """Logits and true labels of a real network, 40 rows of each of 10 labels."""
    return real_network("cifar10")


@pytest.fixture(scope="session")
def cifar100():
    """Logits and true labels of a real network, 6 rows of each of 100 labels."""
    return real_network("cifar100")
