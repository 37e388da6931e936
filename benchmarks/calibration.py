"""Merged labels with and without a temperature, beside mapping the old answer to its destination.

python benchmarks/calibration.py SHARED_FOLDER [--out FILE.json]

The merges are those of `natural_merges.py`, each judged over 20 random halves: the temperature is
fitted on one half of the rows and everything is judged on the other. Beside them stands what wrong
labels do to the temperature, and to that of the plain log-loss. The folder holds Magika's outputs
(`deployed`), Banking77's texts (`text`), and the outputs of networks trained on CIFAR-10 and
CIFAR-100 (`confidences`, with the labels' names in `data`).
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from natural_merges import BANKING77, CIFAR10, CIFAR100, MAGIKA, Groups, changes_of
from unlabel import LabelPlan, OutputFilter, metrics

OUT = Path(__file__).parent / "results" / "calibration.json"
HALVES = 20
WRONG, NEARLY_IMPOSSIBLE = 0.02, 1e-9
CIFAR10_LABELS = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
SHOWN = (
    "accuracy.mapped",
    "accuracy.sums",
    "accuracy.calibrated",
    "log_loss.sums",
    "log_loss.calibrated",
    "temperature",
)

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[Any]
Columns = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Model:
    """A model's probabilities on rows of labels that it has, and the merges it is judged on."""

    name: str
    merges: dict[str, Groups]
    confidences: Floats
    labels: Labels
    classes: list[str]


def magika(shared: Path) -> Model:
    """Return the outputs of Magika on files of kinds that it has."""
    with np.load(shared / "deployed" / "magika.npz") as file:
        logs, classes, truth = file["log_confidences"], file["labels"].tolist(), file["truth"]
    known = np.isin(truth, classes)
    confidences = softmax(logs[known].astype(np.float64), axis=1)
    return Model("Magika", MAGIKA, confidences, truth[known], classes)


def banking77(shared: Path) -> Model:
    """Return the outputs of a linear model on the test texts."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    (texts, labels), (test_texts, test_labels) = (
        read_texts(shared / "text" / f"banking77_{part}.csv") for part in ("train", "test")
    )
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    model = make_pipeline(words, LogisticRegression(C=30, max_iter=1000)).fit(texts, labels)
    classes = model.classes_.tolist()
    return Model("Banking77", BANKING77, model.predict_proba(test_texts), test_labels, classes)


def read_texts(path: Path) -> tuple[list[str], Labels]:
    """Read texts and their intents."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [*csv.DictReader(file)]
    return [row["text"] for row in rows], np.array([row["category"] for row in rows])


def networks(shared: Path) -> Iterator[Model]:
    """Yield the outputs of the networks trained on all labels of CIFAR-10 and CIFAR-100."""
    names = json.loads((shared / "data" / "cifar100_labels.json").read_text(encoding="utf-8"))
    superclasses: dict[str, list[str]] = {}
    for label, coarse in zip(names["fine"], names["coarse_of_fine"], strict=True):
        superclasses.setdefault(names["coarse"][coarse], []).append(label)
    of_all = {name: tuple(labels) for name, labels in superclasses.items()}
    for stored, name, classes, merges in (
        ("cifar10", "CIFAR-10", [*CIFAR10_LABELS], CIFAR10),
        ("cifar100", "CIFAR-100", names["fine"], CIFAR100 | {"20 superclasses": of_all}),
    ):
        for seed in (0, 1):
            with np.load(shared / "confidences" / f"{stored}-resnet18-s{seed}.npz") as file:
                confidences = softmax(file["F0_test"].astype(np.float64), axis=1)
                labels = np.array(classes)[file["y_test"]]
            yield Model(f"{name}, ResNet18, seed {seed}", merges, confidences, labels, classes)


def columns_of(model: Model) -> Columns:
    """Return the column of each row's true label."""
    return np.array([model.classes.index(label) for label in model.labels.tolist()])


def judge(model: Model, groups: Groups) -> dict[str, Any]:
    """Average accuracy and log-loss over random halves of the rows."""
    plan = LabelPlan(changes_of(groups))
    destination = np.array([plan.changes.get(label, label) for label in model.classes])
    truth = destination[columns_of(model)]
    mapped = destination[model.confidences.argmax(axis=1)] == truth
    sums = OutputFilter.from_plan(plan, classes=model.classes)
    found: dict[str, list[float]] = {}
    for half in range(HALVES):
        order = np.random.default_rng(half).permutation(len(truth))
        fitting, judged = order[: len(order) // 2], order[len(order) // 2 :]
        calibrated = OutputFilter.fit(
            model.confidences[fitting],
            model.labels[fitting],
            classes=model.classes,
            plan=plan,
            calibrate=True,
        )
        values = {"temperature": calibrated.temperature, "accuracy.mapped": mapped[judged].mean()}
        for name, merge in (("sums", sums), ("calibrated", calibrated)):
            rows = merge.apply(model.confidences[judged])
            answers = np.array(merge.classes_out)[rows.argmax(axis=1)]
            values[f"accuracy.{name}"] = (answers == truth[judged]).mean()
            values[f"log_loss.{name}"] = metrics.log_loss(rows, truth[judged], merge.classes_out)
        for name, value in values.items():
            found.setdefault(name, []).append(float(value))
    gained = np.subtract(found["log_loss.calibrated"], found["log_loss.sums"]) < 0
    return {name: round(float(np.mean(each)), 5) for name, each in found.items()} | {
        "halves_with_lower_log_loss": int(gained.sum())
    }


def measure_merges(model: Model) -> Iterator[dict[str, Any]]:
    """Yield the values of every merge."""
    for merge, groups in model.merges.items():
        described = {"model": model.name, "rows": len(model.labels), "merge": merge}
        merged = sum(map(len, groups.values()))
        yield described | {"labels": merged, "into": len(groups)} | judge(model, groups)


def robust_temperature(model: Model, columns: Columns) -> float:
    """Return the library's temperature for rows of these labels."""
    labels = np.array(model.classes)[columns]
    plan = LabelPlan(changes_of(next(iter(model.merges.values()))))
    fitted = OutputFilter.fit(
        model.confidences, labels, classes=model.classes, plan=plan, calibrate=True
    )
    return float(fitted.temperature)


def plain_temperature(model: Model, columns: Columns) -> float:
    """Return the temperature of the least plain log-loss."""
    logs = np.log(np.maximum(model.confidences, np.finfo(np.float64).tiny))

    def log_loss(log_temperature: float) -> float:
        found = log_softmax(logs / np.exp(log_temperature), axis=1)
        return float(-found[np.arange(len(found)), columns].mean())

    return float(np.exp(minimize_scalar(log_loss, bounds=(-2, 3), method="bounded").x))


def measure_wrong_labels(model: Model) -> Iterator[dict[str, Any]]:
    """Yield the temperatures, the robust and the plain, on right labels and on some wrong ones."""
    right = columns_of(model)
    for kind, most in (("any", 1.0), ("nearly impossible", NEARLY_IMPOSSIBLE)):
        rng = np.random.default_rng(0)
        possible = (model.confidences < most) & (np.arange(len(model.classes)) != right[:, None])
        rows = np.flatnonzero(possible.any(axis=1))
        count = round(WRONG * len(right))
        if len(rows) < count:
            continue
        wrong = right.copy()
        for row in rng.choice(rows, count, replace=False):
            wrong[row] = rng.choice(np.flatnonzero(possible[row]))
        described: dict[str, Any] = {"model": model.name, "labels": kind}
        for name, find in (("robust", robust_temperature), ("plain", plain_temperature)):
            described |= {name: [round(find(model, columns), 4) for columns in (right, wrong)]}
        yield described


def main() -> None:
    """Write the values of all merges, and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shared", type=Path)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    found: dict[str, Any] = {"halves": HALVES, "merges": [], "wrong_share": WRONG, "wrong": []}
    headings = ("mapped", "summed", "calibrated", "log-loss", "calibrated", "temperature")
    print(f"{'':47}" + "".join(f"{heading:>12}" for heading in headings))
    for model in (magika(given.shared), banking77(given.shared), *networks(given.shared)):
        for cell in measure_merges(model):
            values = "".join(f"{cell[name]:12.4f}" for name in SHOWN)
            print(f"{model.name:28} {cell['merge']:18}{values}", flush=True)
            found["merges"].append(cell)
        for cell in measure_wrong_labels(model):
            robust, plain = (" to ".join(map(str, cell[name])) for name in ("robust", "plain"))
            print(f"{model.name}, wrong labels ({cell['labels']}): {robust}, plainly {plain}")
            found["wrong"].append(cell)
    given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
