"""Remove labels of two real classifiers, and compare with retraining them.

One is trained on the spot, on handwritten digits. The other is a ResNet18 on CIFAR-10,
whose outputs come with the package.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from rich.console import RenderableType
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from unlabel import explore, report
from unlabel._files.atomic import cannot_write, whole_file
from unlabel._tables.files.writing import write_table
from unlabel._typing import Floats
from unlabel.cli.summary_table import show
from unlabel.evaluation.samples import load_cifar10
from unlabel.evaluation.summary import summarise, write_summary
from unlabel.evaluation.trial import without
from unlabel.filter import OutputFilter
from unlabel.fitting import fit_filter
from unlabel.metrics import expected_calibration_error, kl_divergence
from unlabel.plan import LabelPlan

WORDS = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
REMOVED = ["three", "eight"]
FORGET_SET = "F2"


def remove_digits(folder: Path) -> Table:
    """Train on handwritten digits, remove two labels and compare; leave tables and the filter."""
    _make(folder)
    images, digits = load_digits(return_X_y=True)
    images, test_images, labels, test_labels = _halves(images, WORDS[digits], 0.4)
    images, reference_images, labels, reference_labels = _halves(images, labels, 0.5)

    model = _train(images, labels, seed=0)
    reference, test = model.predict_proba(reference_images), model.predict_proba(test_images)
    _write(folder / "reference.csv", model.classes_, reference, reference_labels)
    _write(folder / "predictions.csv", model.classes_, test)

    kept = ~np.isin(labels, REMOVED)
    retrained, again = (_train(images[kept], labels[kept], seed=seed) for seed in (0, 1))
    judged = ~np.isin(test_labels, REMOVED)
    goal = retrained.predict_proba(test_images[judged])

    def filtered(source: Any, **options: Any) -> Floats:
        """Fit on the reference rows, and filter the confidences on the judged rows."""
        known = np.isin(reference_labels, source.classes_)
        rows, classes = source.predict_proba(reference_images[known]), source.classes_
        remove = [label for label in REMOVED if label in classes]
        given = reference_labels[known]
        fit = fit_filter(rows, given, classes=classes, plan=LabelPlan(remove), **options)
        fitted = OutputFilter(**fit.state)
        if remove and not options:
            fitted.save(folder / "removed.safetensors")
        return fitted.apply(source.predict_proba(test_images[judged]))

    return _comparison(
        {
            "OSR": filtered(model),
            "OSR, calibrated": filtered(model, calibrate=True),
            "mask": filtered(model, method="mask"),
            "mask, calibrated": filtered(model, method="mask", calibrate=True),
            "retrained": goal,
            "retrained, calibrated": filtered(retrained, calibrate=True),
            "retrained, other seed": again.predict_proba(test_images[judged]),
        },
        goal,
        test_labels[judged],
        retrained.classes_,
    )


def remove_cifar10(folder: Path) -> RenderableType:
    """Evaluate the removal of labels from a real network; leave its tables and two pages."""
    _make(folder)
    outputs = load_cifar10()
    removal = outputs.removals[FORGET_SET]
    retained = without(outputs.classes, removal.removed)
    for name, logits, classes in (
        ("cifar10", outputs.base, outputs.classes),
        ("cifar10-retrained", removal.retrained[0], retained),
        ("cifar10-retrained-again", removal.retrained[1], retained),
    ):
        _write(folder / f"{name}.parquet", classes, logits, outputs.labels)
    summary = summarise(outputs.trial(FORGET_SET))
    write_summary(summary, folder / "summary.json")
    pages = {
        "report.html": report.render(summary),
        "explore.html": explore.render(
            outputs.base,
            outputs.classes,
            outputs.labels,
            _ids(len(outputs.base)),
            kind="logits",
            title="ResNet18 on CIFAR-10",
        ),
    }
    for name, page in pages.items():
        with whole_file(folder / name) as part:
            part.write_text(page, encoding="utf-8")
    return show(summary)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from error


def _halves(images: Any, labels: Any, part: float) -> Any:
    return train_test_split(images, labels, test_size=part, random_state=0, stratify=labels)


def _train(images: Any, labels: Any, seed: int) -> MLPClassifier:
    model = MLPClassifier(hidden_layer_sizes=(64,), max_iter=500, random_state=seed)
    return model.fit(images, labels)


def _write(
    path: Path, classes: Iterable[Any], rows: Floats, labels: npt.NDArray[Any] | None = None
) -> None:
    columns: dict[str, Any] = {"id": _ids(len(rows))}
    columns |= {name: rows[:, i] for i, name in enumerate(classes)}
    if labels is not None:
        columns["label"] = labels
    batch = pa.record_batch(columns)
    with write_table(path, batch.schema, overwrite=True) as write:
        write(batch)


def _ids(count: int) -> list[str]:
    return [f"image-{number:04}" for number in range(count)]


def _comparison(
    outputs: dict[str, Floats], goal: Floats, labels: npt.NDArray[Any], classes: npt.NDArray[Any]
) -> Table:
    table = Table(
        title=f"Handwritten digits without {' and '.join(REMOVED)}: {len(labels)} test images of "
        "retained labels",
        caption="Lower is better in all but accuracy; divergence: KL to the retrained model",
    )
    table.add_column("")
    for heading in ("accuracy", "log-loss", "calibration error", "divergence"):
        table.add_column(heading, justify="right")
    for name, output in outputs.items():
        table.add_row(
            name,
            f"{accuracy_score(labels, classes[output.argmax(axis=1)]):.4f}",
            f"{log_loss(labels, output, labels=classes):.4f}",
            f"{expected_calibration_error(output, labels, classes):.4f}",
            f"{kl_divergence(output, goal).mean():.4f}" if output is not goal else "-",
        )
    return table
