"""Computes the values of the tables from stored results: one per method and metric, over seeds.

All values but the seconds are computed from stored logits with `unlabel.metrics`. OSR, mask and
linear filtration are applied here, to the base model's logits.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.utils.parallel import Parallel, delayed

from research import filters
from research.arrays import Float64s, Floats
from research.attack import attack_auc
from research.grid import BASE, Cell
from research.results.files import GRID, Facts, Result, read_facts, read_result, stored_cells
from research.results.notes import Notes, read_notes
from research.tables.published import Key
from unlabel import UnlabelError, metrics

FLOOR = "retrain_again"
KEEP_ALL_OUTPUTS = ("unsir", "nhle_cwm")
SAME_AS_MASK = ("naive", "normalization")
GRID_TOLERANCE = 1e-4
# Metrics that are also computed at run time, and their names there.
FULL_PRECISION = {"A_R": "A_R", "A_F": "A_F", "Cov_R": "coverage_retained"}
# With fewer cells, starting processes takes more time than it saves.
ENOUGH_FOR_PROCESSES = 16

Values = dict[Key, float]
ByMetric = dict[str, float]


class Spread(NamedTuple):
    """A value over seeds."""

    mean: float
    low: float
    high: float
    seeds: int


@dataclass(frozen=True, eq=False)
class Gathered:
    """The values of a folder of results, with the facts of its cells and the notes on them.

    `rounding` has the largest differences of A_R, A_F and Cov_R from their values at run time,
    before logits were rounded, in cells whose test rows were all stored; empty without such cells.
    """

    spreads: dict[Key, Spread]
    facts: dict[Cell, Facts]
    notes: dict[tuple[str, str], Notes]
    rounding: dict[str, float] = field(default_factory=dict)


def gather(results: Path) -> Gathered:
    """Compute all values of a folder of results."""
    cells = stored_cells(results)
    tasks = [cell for cell in cells if cell.forget != BASE]
    if not tasks:
        raise UnlabelError(
            f"{results} has no results to compare: give the folder that research run --out wrote."
        )
    cores = os.cpu_count() if len(tasks) >= ENOUGH_FOR_PROCESSES else 1
    parallel = Parallel(n_jobs=cores, return_as="generator")
    networks = {(cell.set, cell.architecture) for cell in cells}
    notes = {network: read_notes(results, *network) for network in networks}
    over_seeds: dict[Key, list[float]] = defaultdict(list)
    facts = {cell: read for cell in cells if (read := read_facts(results, cell)) is not None}
    rounding: dict[str, float] = {}
    work = (delayed(cell_values)(results, cell, cells) for cell in tasks)
    for cell, values in zip(tasks, parallel(work), strict=True):
        for key, value in values.items():
            over_seeds[key].append(value)
        for metric, change in _changes_by_rounding(values, facts[cell]):
            rounding[metric] = max(change, rounding.get(metric, 0.0))
    return Gathered(
        {
            key: Spread(float(np.mean(values)), min(values), max(values), len(values))
            for key, values in over_seeds.items()
        },
        facts,
        notes,
        rounding,
    )


def _changes_by_rounding(values: Values, facts: Facts) -> Iterator[tuple[str, float]]:
    if facts["rows"]["judged"] != facts["rows"]["test"]:
        return
    for key, value in values.items():
        before = facts["full_precision"].get(key.method, {}).get(FULL_PRECISION.get(key.metric))
        if before is not None:
            yield key.metric, abs(value - before)


def cell_values(results: Path, cell: Cell, stored: Sequence[Cell]) -> Values:
    """Compute the values of one cell, with the help of the other `stored` cells.

    The base model has the same seed. Seeds without a base model are there for the floor; their
    cells are judged by the labels that another seed stored. The floor is the divergence from
    models retrained with other seeds.
    """
    network = [c for c in stored if (c.set, c.architecture) == (cell.set, cell.architecture)]
    bases = sorted((c for c in network if c.forget == BASE), key=lambda c: c.seed != cell.seed)
    if not bases:
        raise UnlabelError(f"{cell} has no base model {cell.base}: run it with research run.")
    judge = Judge(cell, _read(results, bases[0]))
    result = _read(results, cell)
    siblings = [c for c in network if c.forget == cell.forget and c.seed != cell.seed]
    retrained_again = [
        judge.probabilities(other, "retrain", judge.retained)
        for other in (_read(results, sibling) for sibling in siblings)
        if "retrain" in other.arrays
    ]
    outputs = judge.outputs(result, with_base=bases[0] == cell.base)
    base, retrained = outputs.get("base"), outputs.get("retrain")
    floor: Float64s | None = None
    by_method: dict[str, ByMetric] = {}
    if retrained is not None and retrained_again:
        floor = np.mean([judge.divergences(again, retrained) for again in retrained_again], axis=0)
        by_method[FLOOR] = judge.to_retrained(floor, floor)
    for method, output in outputs.items():
        by_method[method] = judge.alone(output)
        if method == "base":
            continue
        on_retained = judge.on_retained(output)
        if base is not None:
            by_method[method] |= judge.to_base(on_retained, base)
        if retrained is not None and method != "retrain":
            divergences = judge.divergences(on_retained, retrained)
            by_method[method] |= judge.to_retrained(divergences, floor)
    values = {
        Key(cell.set, cell.architecture, method, "", metric, cell.forget): value
        for method, by_metric in by_method.items()
        for metric, value in by_metric.items()
    }
    for method, seconds in result.facts["seconds"].items():
        total = {} if "total" in seconds else {"total": sum(seconds.values())}
        for component, value in (seconds | total).items():
            key = Key(cell.set, cell.architecture, method, component, "seconds", cell.forget)
            values[key] = value
    return values


class Judge:
    """Judges the outputs of a cell by the true labels and the base model."""

    def __init__(self, cell: Cell, base: Result) -> None:
        self.cell, self.base = cell, base
        if not {"base", "labels"} <= base.arrays.keys():
            raise _damaged(base.cell, "the base model's logits or the labels are missing")
        self.labels = tuple(range(base.arrays["base"].shape[1]))
        self.removed = cell.removed
        self.retained = tuple(label for label in self.labels if label not in self.removed)
        self.truth: npt.NDArray[np.int64] = base.arrays["labels"].astype(np.int64)
        self.is_removed = np.isin(self.truth, self.removed)

    def outputs(self, result: Result, *, with_base: bool) -> dict[str, Floats]:
        """Compute the probabilities of the cell's methods; without its base, of retraining."""
        found: dict[str, Floats] = {}
        if "retrain" in result.arrays:
            found["retrain"] = self.probabilities(result, "retrain", self.retained)
        if not with_base:
            return found
        found["base"] = self.probabilities(self.base, "base", self.labels)
        found |= self._filtered(result)
        for method in KEEP_ALL_OUTPUTS:
            if method in result.arrays:
                found[method] = self.probabilities(result, method, self.labels)
        return found

    def _filtered(self, result: Result) -> dict[str, Floats]:
        """Compute the probabilities of the methods that filter the base model's logits."""
        logits = self.base.arrays["base"].astype(np.float64)
        found: dict[str, Floats] = {}
        if result.filter is not None:
            if not filters.is_for(result.filter, self.labels, self.retained):
                raise _damaged(result.cell, "the filter is for other labels")
            found["osr"] = result.filter.apply(logits)
        if "mask" in result.facts["methods"]:
            found["mask"] = filters.mask(len(self.labels), self.removed).apply(logits)
        for name, matrix in result.arrays.items():
            if name.startswith("linear_filtration"):
                if matrix.shape != (len(self.retained), len(self.labels)):
                    raise _damaged(result.cell, f"{name} has the shape {matrix.shape}")
                filtered = logits @ matrix.T
                if name.endswith(SAME_AS_MASK):
                    filtered = _on_grid(filtered)
                found[name] = filters.softmax(filtered)
        return found

    def probabilities(self, result: Result, name: str, columns: Sequence[Any]) -> Floats:
        """Turn stored logits into probabilities."""
        logits = result.arrays[name]
        if logits.shape != (len(self.truth), len(columns)):
            raise _damaged(result.cell, f"{name} has the shape {logits.shape}")
        if not np.isfinite(logits).all():
            raise _damaged(result.cell, f"{name} has logits that are not finite")
        return filters.softmax(logits.astype(np.float64))

    def alone(self, output: Floats) -> ByMetric:
        """Compute the values of an output that need no other output, over all its entries."""
        columns = self.labels if output.shape[1] == len(self.labels) else self.retained
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

    def on_retained(self, output: Floats) -> Floats:
        """Return the retained entries of an output, divided by their sum."""
        if output.shape[1] == len(self.retained):
            return output
        return metrics.on_retained(output, self.labels, self.retained)

    def divergences(self, output: Floats, retrained: Floats) -> Float64s:
        """Compute the KL and Jensen-Shannon divergence of each row from the retrained model."""
        kl = metrics.kl_divergence(output, retrained)
        return np.stack([kl, metrics.jensen_shannon(output, retrained)])

    def to_retrained(self, divergences: Float64s, floor: Float64s | None) -> ByMetric:
        """Average the divergences from the retrained model; divide them by the floor, if any."""
        values: dict[str, Any] = {}
        for kind, rows in (("R", ~self.is_removed), ("F", self.is_removed)):
            kl, js = divergences[:, rows]
            values |= {f"KL_retrained_{kind}": kl.mean(), f"JS_retrained_{kind}": js.mean()}
            if floor is not None:
                ratio = metrics.ratio_to_seed_floor(js, floor[1, rows])
                values[f"JS_over_floor_{kind}"] = ratio
        return {metric: float(value) for metric, value in values.items()}

    def to_base(self, output: Floats, base: Floats) -> ByMetric:
        """Average the KL to the base model, with 0 for the removed entries."""
        padded = metrics.on_all(output, self.retained, self.labels)
        kl = metrics.kl_divergence(padded, base)
        return {
            "KL_base_R": float(kl[~self.is_removed].mean()),
            "KL_base_F": float(kl[self.is_removed].mean()),
        }


def _on_grid(logits: Float64s) -> Float64s:
    """Subtract the largest logit; put the others on the grid of stored logits if close to it.

    Matrices in float32 move them slightly off the grid, which would break ties that mask has.
    """
    below = logits - logits.max(axis=1, keepdims=True)
    nearest = np.rint(below * GRID) / GRID
    return np.asarray(np.where(np.abs(below - nearest) < GRID_TOLERANCE, nearest, below))


def _read(results: Path, cell: Cell) -> Result:
    result = read_result(results, cell)
    if result is None:  # deleted since the cells were listed
        raise UnlabelError(f"{cell} is missing in {results}: run research run again.")
    return result


def _damaged(cell: Cell, why: str) -> UnlabelError:
    return UnlabelError(
        f"The results of {cell} are damaged ({why}): delete them and run research run again."
    )
