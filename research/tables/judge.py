"""Judges the outputs of a cell by the true labels, the base model and the retrained model.

All is computed from stored logits with `unlabel.metrics`. OSR, mask and the methods that store a
matrix are applied here, to the base model's logits. Whether an output has entries for all labels
or for retained ones is seen from its shape. The base model has all labels: a study that adds labels
to one that lacks them would need them from its facts, and a KL to the base model over its own.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import numpy.typing as npt

from research import filters
from research.arrays import Columns, Float64s, Floats
from research.attack import attack_auc
from research.grid import Cell
from research.results.files import GRID, Result
from unlabel import UnlabelError, metrics

GRID_TOLERANCE = 1e-4
# The two forms of the KL of an output that has entries for removed labels.
RETAINED_ENTRIES, ALL_ENTRIES = "retained entries", "all entries"
REVERSED = "reversed"  # the KL of the other direction

ByMetric = dict[str, float]
Rows = slice | Columns
ALL_ROWS = slice(None)


class Judge:
    """Judges the outputs of a cell; the base model may be that of another seed."""

    def __init__(self, cell: Cell, base: Result) -> None:
        self.base = base
        if not {"base", "labels"} <= base.arrays.keys():
            raise damaged(base.cell, "the base model's logits or the labels are missing")
        self.labels = tuple(range(base.arrays["base"].shape[1]))
        self.removed = cell.removed
        self.retained = tuple(label for label in self.labels if label not in self.removed)
        self.logits = base.arrays["base"].astype(np.float64)
        self.truth: npt.NDArray[np.int64] = base.arrays["labels"].astype(np.int64)
        self.is_removed = np.isin(self.truth, self.removed)

    def outputs(self, result: Result, *, with_base: bool) -> dict[str, Floats]:
        """Compute the probabilities of the cell's methods; without its base, of retraining."""
        found: dict[str, Floats] = {}
        if "retrain" in result.arrays:
            found["retrain"] = self.probabilities(result, "retrain")
        if not with_base:
            return found
        found["base"] = self.probabilities(self.base, "base")
        if result.filter is not None:
            of = result.filter.classes_in, result.filter.classes_out
            if of != (self.labels, self.retained):
                raise damaged(result.cell, "the filter is for other labels")
            found["osr"] = result.filter.apply(self.logits)
        if "mask" in result.facts["methods"]:
            found["mask"] = filters.mask(len(self.labels), self.removed).apply(self.logits)
        for name, matrix in result.arrays.items():
            if name in found:
                continue
            if matrix.shape == (len(self.retained), len(self.labels)):
                found[name] = filters.softmax(_on_grid(self.logits @ matrix.T))
            else:
                found[name] = self.probabilities(result, name)
        return found

    def probabilities(self, result: Result, name: str) -> Floats:
        """Turn stored logits into probabilities."""
        logits = result.arrays[name]
        widths = {"base": [self.labels], "retrain": [self.retained]}
        known = widths.get(name, [self.labels, self.retained])
        if logits.shape not in [(len(self.truth), len(columns)) for columns in known]:
            raise damaged(result.cell, f"{name} has the shape {logits.shape}")
        if not np.isfinite(logits).all():
            raise damaged(result.cell, f"{name} has logits that are not finite")
        return filters.softmax(logits.astype(np.float64))

    def columns(self, output: Floats) -> tuple[int, ...]:
        """Return the labels that an output has entries for."""
        return self.labels if output.shape[1] == len(self.labels) else self.retained

    def alone(self, output: Floats) -> ByMetric:
        """Compute the values of an output that need no other output, over all its entries."""
        columns = self.columns(output)
        coverage = metrics.coverage(output, self.truth, columns, self.retained)
        values = {
            "A_R": metrics.mean_accuracy(output, self.truth, columns, self.retained),
            "A_F": metrics.mean_accuracy(output, self.truth, columns, self.removed),
            "Cov_R": coverage.value,
            "Cov_F": metrics.coverage(output, self.truth, columns, self.removed).value,
            "ties": coverage.tie_share,
            "log_loss": metrics.log_loss(output, self.truth, columns, self.retained),
            "ECE": metrics.expected_calibration_error(output, self.truth, columns, self.retained),
        }
        removed, retained = output[self.is_removed], output[~self.is_removed]
        with suppress(UnlabelError):  # too few rows of one kind
            values["attack_auc"] = attack_auc(removed, retained)
        return values

    def is_right(self, output: Floats) -> npt.NDArray[np.bool_]:
        """Return which rows' largest entry is that of the true label."""
        answers = np.array(self.columns(output))[output.argmax(axis=1)]
        return np.asarray(answers == self.truth)

    def forms(self, output: Floats) -> dict[str, Floats]:
        """Return the forms of an output whose KL is computed: two if it has all entries."""
        if self.columns(output) == self.retained:
            return {"": output}
        return {RETAINED_ENTRIES: self.on_retained(output), ALL_ENTRIES: output}

    def on_retained(self, output: Floats) -> Floats:
        """Return the retained entries of an output, divided by their sum."""
        return metrics.on_retained(output, self.columns(output), self.retained)

    def kl(self, *outputs: Floats) -> Float64s:
        """Compute the KL of each row from another output; removed entries that one lacks are 0."""
        every = (metrics.on_all(rows, self.columns(rows), self.labels) for rows in outputs)
        return metrics.kl_divergence(*every)

    def js(self, output: Floats, reference: Floats) -> Float64s:
        """Compute the Jensen-Shannon divergence of each row over the retained entries."""
        return metrics.jensen_shannon(self.on_retained(output), self.on_retained(reference))

    def means(self, name: str, values: Float64s, rows: Rows = ALL_ROWS) -> ByMetric:
        """Average the values of rows, over inputs of retained and of removed labels."""
        is_removed = self.is_removed[rows]
        kinds = {"R": ~is_removed, "F": is_removed}
        return {f"{name}_{kind}": float(values[chosen].mean()) for kind, chosen in kinds.items()}

    def over_floor(self, js: Float64s, floor: Float64s) -> ByMetric:
        """Divide the mean divergences from the retrained model by those of a second one."""
        means, floors = (self.means("JS_over_floor", values) for values in (js, floor))
        return {
            name: metrics.ratio_to_seed_floor([mean], [floors[name]])
            for name, mean in means.items()
        }


def _on_grid(logits: Float64s) -> Float64s:
    """Put logits, less the largest, on the grid of stored logits if all are close to it.

    A matrix in float32 that does no more than drop labels moves them slightly off the grid, which
    would break ties that mask has.
    """
    below = logits - logits.max(axis=1, keepdims=True)
    nearest = np.rint(below * GRID) / GRID
    return nearest if np.abs(below - nearest).max() < GRID_TOLERANCE else logits


def damaged(cell: Cell, why: str) -> UnlabelError:
    """Describe why the results of a cell cannot be read."""
    return UnlabelError(
        f"The results of {cell} are damaged ({why}): delete them and run research run again."
    )
