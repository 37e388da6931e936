"""Make `protocol-1.safetensors`, a filter's file, and `protocol-1.json`, what the filter must give.

All numbers are those of the plain implementation, and the file is put together here.

PYTHONPATH=tests/helpers python tests/golden/make_protocol.py
"""

import hashlib
import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save

import plain
import plain_plan

FOLDER = Path(__file__).parent
CLASSES = ["cat", "dog", "fox", "owl", "naïve", 7, "bee"]
CHANGES = {
    "owl": None,
    "cat": None,  # no reference rows: masked
    "fox": "pet",
    "dog": "pet",
    "naïve": {"small": 0.25, "big": 0.75},
    "bee": "wasp",
}
COUNTS = {"owl": 6, "cat": 0}
TEXTS = {"title": "Version 2", "note": "Two\nlines.", "unlisted": "keep"}
TEMPERATURE = 1.5


def destinations():
    """List the changes as pairs of a column and a destination, a split as pairs of parts."""
    return [
        (CLASSES.index(label), [*to.items()] if isinstance(to, dict) else to)
        for label, to in CHANGES.items()
    ]


def digest():
    changes = []
    for label, to in CHANGES.items():
        parts = to if isinstance(to, dict) else {} if to is None else {to: 1.0}
        changes.append([str(label), [[str(name), weight] for name, weight in parts.items()]])
    content = json.dumps([TEXTS["unlisted"], changes], ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(content.encode()).hexdigest()


def main():
    rng = np.random.default_rng(0)
    n, removed = len(CLASSES), [CLASSES.index(label) for label in COUNTS]
    reference = rng.dirichlet(np.ones(n), COUNTS["owl"])
    calm = [plain.at_temperature(row, TEMPERATURE) for row in reference]
    references = [calm, [np.eye(n)[removed[1]]]]
    steps = plain.fit(references, removed, n)
    means, shares = np.zeros((2, len(removed), n))
    left = [*range(n)]
    for at, (column, rows) in enumerate(zip(removed, references, strict=True)):
        means[at, left] = sum(plain.apply(rows, steps[:at])) / len(rows)
        left.remove(column)
        shares[at, left] = steps[at][2]
    description = {
        "protocol": 1,
        "classes": CLASSES,
        "plan": TEXTS | {"digest": digest(), "changes": destinations()},
        "method": "osr",
        "kind": "probabilities",
        "temperature": TEMPERATURE,
    }
    text = json.dumps(description, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    counts = np.array([*COUNTS.values()])
    tensors = {"means": means, "shares": shares, "counts": counts}
    (FOLDER / "protocol-1.safetensors").write_bytes(save(tensors, metadata={"unlabel": text}))

    rows = np.vstack([rng.dirichlet(np.full(n, 0.5), 20), np.eye(n)[removed]])
    calm = [plain.at_temperature(row, TEMPERATURE) for row in rows]
    content = {
        "classes": CLASSES,
        "changes": [*CHANGES.items()],
        "classes_out": plain_plan.result_labels(CHANGES, CLASSES),
        "reference": reference.tolist(),
        "rows": rows.tolist(),
        "expected": plain_plan.changed_rows(CHANGES, CLASSES, calm, steps).tolist(),
        "removed_mass": [float(row[removed].sum()) for row in calm],
        "counts": [*COUNTS.values()],
        "temperature": TEMPERATURE,
    } | TEXTS
    text = json.dumps(content, ensure_ascii=False, indent=1)
    (FOLDER / "protocol-1.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
