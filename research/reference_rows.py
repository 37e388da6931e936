"""How many reference rows does OSR need, how many rows a temperature, and what does mask do?

python -m research.reference_rows

One half of the rows of each label is there to draw from, the other half is judged. Filters are
fitted on rows that are drawn many times, and compared with the full fit, on all rows of the first
half, and with mask. Committed outputs alone: no network is trained.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from research import filters
from research.arrays import Columns, Float64s, Floats
from research.files import write_measured
from research.grid import BASE, Cell
from research.results import PAPER, STORED
from research.results.files import read_result, stored_cells
from research.tables.judge import Judge
from research.tables.names import network
from unlabel import OutputFilter, UnlabelError, metrics
from unlabel.evaluation import load_cifar10

DRAWS = 200
COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
CALIBRATED_ON = (50, 100, 200, 500, 1000)
FLAWED_ROWS, WRONG = 100, 20  # reference rows per label, and how many of them have a wrong label
DECIMALS = (2, 3, 4, 6)
BAND = (0.05, 0.5, 0.95)

Values = dict[str, float]


def halves(truth: Columns) -> tuple[Columns, Columns]:
    """Return the rows to draw from and those that are judged, half of each label's."""
    shuffled = np.random.default_rng(0).permutation(len(truth))
    by_label = shuffled[np.argsort(truth[shuffled], kind="stable")]
    return np.sort(by_label[::2]), np.sort(by_label[1::2])


@dataclass(frozen=True, eq=False)
class Task:
    """The outputs of a model, the labels to remove, and the two halves of the rows."""

    logits: Float64s
    truth: Columns
    removed: list[int]
    retrained: Float64s

    @cached_property
    def halves(self) -> tuple[Columns, Columns]:
        return halves(self.truth)

    @cached_property
    def retained(self) -> Columns:
        return np.setdiff1d(np.arange(self.logits.shape[1]), self.removed)

    @cached_property
    def judged(self) -> Float64s:
        return self.logits[self.halves[1]]

    @cached_property
    def is_removed(self) -> npt.NDArray[np.bool_]:
        """Return which of the judged rows are inputs of removed labels."""
        return np.isin(self.truth[self.halves[1]], self.removed)

    def reference(self, label: int) -> Columns:
        """Number the rows of a label that there are to draw from."""
        own = self.halves[0]
        return np.asarray(own[self.truth[own] == label])

    def fit(self, rows: Sequence[Columns]) -> OutputFilter:
        """Fit OSR on the rows that are called those of each removed label."""
        labels = np.repeat(self.removed, [len(each) for each in rows])
        return filters.osr(self.logits[np.concatenate([*rows])], labels, self.removed)

    @cached_property
    def full(self) -> OutputFilter:
        return self.fit([self.reference(label) for label in self.removed])

    @cached_property
    def mask(self) -> OutputFilter:
        return filters.mask(self.logits.shape[1], self.removed)

    @cached_property
    def full_output(self) -> Floats:
        return self.full.apply(self.judged)

    def judge(self, fitted: OutputFilter) -> Values:
        """Judge a filter by true labels, and by how far it is from the full fit."""
        output = fitted.apply(self.judged)
        ours, full = output[self.is_removed], self.full_output[self.is_removed]
        return self.by_truth(output) | {
            "distance_removed": float(np.abs(ours - full).sum(axis=1).mean() / 2),
            "other_answers_removed": float((ours.argmax(axis=1) != full.argmax(axis=1)).mean()),
        }

    def by_truth(self, output: Floats) -> Values:
        """Judge an output on inputs of retained labels."""
        truth, kept = self.truth[self.halves[1]], self.retained.tolist()
        return {
            "accuracy": metrics.mean_accuracy(output, truth, kept, kept),
            "log_loss": metrics.log_loss(output, truth, kept, kept),
        }


def shipped() -> dict[str, Task]:
    """Make a task of each forget set of the outputs that come with the package."""
    outputs = load_cifar10()
    column = {label: number for number, label in enumerate(outputs.classes)}
    truth = np.array([column[label] for label in outputs.labels.tolist()])
    return {
        name: Task(
            outputs.base.astype(np.float64),
            truth,
            [column[label] for label in removal.removed],
            removal.retrained[0].astype(np.float64),
        )
        for name, removal in outputs.removals.items()
    }


def drawn(task: Task, count: int, draws: int = DRAWS) -> Iterator[list[Columns]]:
    """Draw some reference rows of each removed label, again and again."""
    random = np.random.default_rng([len(task.removed), count])
    pools = [task.reference(label) for label in task.removed]
    for _ in range(draws):
        yield [random.choice(pool, count, replace=False) for pool in pools]


def by_count(task: Task) -> dict[str, Any]:
    """Judge filters that are fitted on so many rows per label."""
    mask = task.judge(task.mask)["distance_removed"]
    found = {}
    for count in COUNTS:
        draws = DRAWS if count < len(task.reference(task.removed[0])) else 1
        judged = [task.judge(task.fit(rows)) for rows in drawn(task, count, draws)]
        nearer = np.mean([values["distance_removed"] < mask for values in judged])
        found[str(count)] = bands(judged) | {"nearer_than_mask": float(nearer)}
    return found


def bands(judged: Sequence[Values]) -> dict[str, list[float]]:
    """Return the 5%, 50% and 95% quantiles of every value."""
    return {
        name: [float(q) for q in np.quantile([values[name] for values in judged], BAND)]
        for name in judged[0]
    }


def by_flaw(task: Task) -> dict[str, Any]:
    """Judge filters that are fitted on rows which are not what they should be."""
    own = task.halves[0]
    every = [task.reference(label) for label in task.removed]
    others = [own[task.truth[own] != label] for label in task.removed]
    alike = [task.reference(_likest(task, label)) for label in task.removed]
    is_right = task.logits.argmax(axis=1) == task.truth
    right = [rows[is_right[rows]] for rows in every]
    mistaken = [rows[~is_right[rows]] for rows in every]
    return {
        "none": _drawn_and_judged(task, every),
        "wrong, of any label": _drawn_and_judged(task, every, others),
        "wrong, of the likest label": _drawn_and_judged(task, every, alike),
        "the model is right": _drawn_and_judged(task, right),
        "the model is wrong": _drawn_and_judged(task, mistaken),
    }


def _likest(task: Task, label: int) -> int:
    """Find the retained label that the model most often takes inputs of a label for."""
    mean = softmax(task.logits[task.reference(label)], axis=1).mean(axis=0)
    mean[task.removed] = 0
    return int(mean.argmax())


def _drawn_and_judged(
    task: Task, rows: list[Columns], wrong: list[Columns] | None = None
) -> dict[str, Any]:
    """Draw up to so many reference rows per label, some of them from other rows."""
    n_wrong = WRONG if wrong else 0
    random = np.random.default_rng([len(task.removed), n_wrong])

    def draw(pool: Columns, count: int) -> Columns:
        return random.choice(pool, min(count, len(pool)), replace=False)

    judged = []
    for _ in range(DRAWS):
        reference = [draw(pool, FLAWED_ROWS - n_wrong) for pool in rows]
        if wrong:
            added = [draw(pool, WRONG) for pool in wrong]
            reference = [np.concatenate(pair) for pair in zip(reference, added, strict=True)]
        judged.append(task.judge(task.fit(reference)))
    return bands(judged) | {"rows": [len(each) for each in reference]}


def by_calibration(task: Task) -> dict[str, Any]:
    """Judge temperatures that are fitted on so many rows of retained labels, after the full fit."""
    own = task.halves[0]
    pool = own[~np.isin(task.truth[own], task.removed)]
    removed = [task.reference(label) for label in task.removed]
    random = np.random.default_rng(len(task.removed))
    found: dict[str, Any] = {"rows": len(pool), "before": task.by_truth(task.full_output)}
    for count in (*CALIBRATED_ON, len(pool)):
        judged, n_refused = [], 0
        for _ in range(DRAWS if count < len(pool) else 1):
            at = np.concatenate([*removed, random.choice(pool, count, replace=False)])
            try:
                fitted = filters.osr(task.logits[at], task.truth[at], task.removed, calibrate=True)
            except UnlabelError:
                n_refused += 1
                continue
            values = task.by_truth(fitted.apply(task.judged))
            judged.append(values | {"temperature": fitted.temperature})
        found[str(count)] = bands(judged) | {"refused": n_refused}
    return found


def by_rounding(task: Task) -> dict[str, Values]:
    """Judge both methods on rounded confidences: does the answer stay what it was?"""
    own, gone = task.halves[0], task.halves[1][task.is_removed]
    exact = softmax(task.logits, axis=1)
    found = {}
    for decimals in DECIMALS:
        rows = exact.round(decimals)
        rows /= rows.sum(axis=1, keepdims=True)
        osr = filters.osr(rows[own], task.truth[own], task.removed, kind="probabilities")
        mask = filters.mask(rows.shape[1], task.removed, kind="probabilities")
        left = rows[gone][:, task.retained].sum(axis=1)
        values = {"nothing_left": float((left == 0).mean())}
        for name, full, fitted in (("osr", task.full, osr), ("mask", task.mask, mask)):
            before, after = full.apply(task.logits[gone]), fitted.apply(rows[gone])
            same = before.argmax(axis=1) == after.argmax(axis=1)
            values[f"same_answer_{name}"] = float(same.mean())
        found[str(decimals)] = values
    return found


def compared(task: Task) -> dict[str, Any]:
    """Compare mask with the full fit, also by their divergence from a retrained model."""
    retrained = softmax(task.retrained[task.halves[1]], axis=1)
    found: dict[str, Any] = {"rows": len(task.reference(task.removed[0]))}
    for name, fitted in (("osr", task.full), ("mask", task.mask)):
        divergence = metrics.jensen_shannon(fitted.apply(task.judged), retrained)
        to_retrained = float(divergence[task.is_removed].mean())
        found[name] = task.judge(fitted) | {"to_retrained_removed": to_retrained}
    return found


def by_network(tasks: dict[str, Task]) -> dict[str, Any]:
    """Compare mask with the full fit on the paper's networks; one is that with the given tasks."""
    ours = network("cifar10", "resnet18")
    found: dict[str, Any] = {ours: {name: compared(task) for name, task in tasks.items()}}
    stored = stored_cells(PAPER)
    for cell in stored:
        name = network(cell.set, cell.architecture)
        is_papers = replace(cell, seed=1) in stored  # others are not retrained twice
        if cell.seed == 0 and cell.forget != BASE and is_papers and name != ours:
            found.setdefault(name, {})[cell.forget] = compared(_stored(cell))
    return found


def _stored(cell: Cell) -> Task:
    judge = Judge(cell, read_result(PAPER, cell.base))
    retrained = read_result(PAPER, cell).arrays["retrain"].astype(np.float64)
    return Task(judge.logits, judge.truth, [*cell.removed], retrained)


def main() -> None:
    """Measure everything, and write it."""
    tasks = shipped()
    found: dict[str, Any] = {"by_network": by_network(tasks)}
    for measure in (by_count, by_flaw, by_calibration, by_rounding):
        found[measure.__name__] = {name: measure(task) for name, task in tasks.items()}
        print(measure.__name__, flush=True)
    write_measured(STORED / "reference-rows.json", draws=DRAWS, **found)


if __name__ == "__main__":
    main()
