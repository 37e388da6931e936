"""Make ``integrations.npz``, which every integration must reproduce.

It comes from ``tests/helpers/plain.py`` and real rows alone, never from the code under test.

    python tests/golden/make_integrations.py
"""

import sys
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent / "helpers"))

import plain  # noqa: E402

CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
REMOVED = [3, 0, 5]
TEMPERATURE = 1.5


def softmax(logits):
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def masked(rows):
    rest = np.delete(rows, REMOVED, axis=1)
    sums = rest.sum(axis=1, keepdims=True)
    return np.where(sums > 0, rest / np.where(sums > 0, sums, 1), 1 / rest.shape[1])


def main():
    with np.load(FOLDER / "real_confidences.npz") as real:
        logits, labels = real["cifar10_logits"].astype(float), real["cifar10_labels"]
    reference = softmax(logits[20:])[labels[20:] >= 0]
    truth = labels[20:]
    steps = plain.fit([reference[truth == column] for column in REMOVED], REMOVED, 10)
    saturated = np.full((1, 10), 1e-8)
    saturated[0, 3] = 1 - 9e-8
    two = np.zeros((1, 10))
    two[0, [0, 5]] = 0.25, 0.75
    rows = {
        "probabilities": np.vstack(
            [
                softmax(logits[:60]),
                np.eye(10)[REMOVED],
                np.eye(10)[[1]],
                two,
                saturated,
                np.full((1, 10), 0.1),
            ]
        ),
        "logits": np.vstack(
            [logits[:60], 40 * np.eye(10)[REMOVED], np.zeros((1, 10)), -20 * np.eye(10)[[1]]]
        ),
    }
    content = {
        "classes": np.array(CLASSES),
        "removed": np.array(REMOVED),
        "temperature": np.array(TEMPERATURE),
        "reference": reference,
        "reference_labels": truth,
    }
    for kind, values in rows.items():
        content[kind] = values
        for dtype in ("float16", "float32", "float64"):
            # The rows that the integration is given, in its own type.
            given = values.astype(dtype).astype(float)
            given = softmax(given) if kind == "logits" else given / given.sum(axis=1, keepdims=True)
            calibrated = [plain.at_temperature(row, TEMPERATURE) for row in given]
            content[f"osr_{kind}_{dtype}"] = plain.apply(given, steps)
            content[f"calibrated_{kind}_{dtype}"] = plain.apply(calibrated, steps)
            content[f"mask_{kind}_{dtype}"] = masked(given)
    np.savez_compressed(FOLDER / "integrations.npz", **content)


if __name__ == "__main__":
    main()
