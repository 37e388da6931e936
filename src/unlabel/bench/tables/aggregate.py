"""From what the cells hold to figures: one a method and metric, over seeds.

Every figure but the seconds is computed from stored logits, with `unlabel.metrics`. OSR, mask
and linear filtration are applied here to the base model's.
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

from unlabel import metrics
from unlabel._typing import Float64s, Floats
from unlabel.bench.grid import BASE, Cell
from unlabel.bench.progress import Progress, nothing_to_show
from unlabel.bench.results.files import STEP, Facts, Result, read_facts, read_result, stored_cells
from unlabel.bench.results.notes import Notes, read_notes
from unlabel.bench.tables.published import Key
from unlabel.errors import UnlabelError
from unlabel.evaluation.trial import unchanged, without
from unlabel.fitting import fit_filter

FLOOR = "retrain_again"
KEEP_ALL_OUTPUTS = ("unsir", "nhle_cwm")
SAME_AS_MASK = ("naive", "normalization")
NEXT_TO_GRID = 1e-4
# Figures that are also found at run time, and their names there.
AS_FOUND = {"A_R": "A_R", "A_F": "A_F", "Cov_R": "coverage_retained"}
# With fewer cells, starting processes takes longer than they save.
ENOUGH_FOR_PROCESSES = 16

Figures = dict[Key, float]
Found = dict[str, float]


class Spread(NamedTuple):
    """A figure over seeds."""

    mean: float
    low: float
    high: float
    seeds: int


@dataclass(frozen=True, eq=False)
class Gathered:
    """The figures of a folder of results, and what its cells say of themselves.

    `rounding` is the most that A_R, A_F and Cov_R differ by from what was found at run time,
    before logits were rounded, in cells whose test rows were all stored; empty without such cells.
    """

    spreads: dict[Key, Spread]
    facts: dict[Cell, Facts]
    notes: dict[tuple[str, str], Notes]
    rounding: dict[str, float] = field(default_factory=dict)


def gather(results: Path, progress: Progress = nothing_to_show) -> Gathered:
    """Compute every figure of a folder of results."""
    cells = stored_cells(results)
    tasks = [cell for cell in cells if cell.forget != BASE]
    if not tasks:
        raise UnlabelError(
            f"{results} holds no results to compare: give what unlabel bench run --out wrote."
        )
    cores = os.cpu_count() if len(tasks) >= ENOUGH_FOR_PROCESSES else 1
    parallel = Parallel(n_jobs=cores, return_as="generator")
    networks = {(cell.set, cell.architecture) for cell in cells}
    notes = {network: read_notes(results, *network) for network in networks}
    over_seeds: dict[Key, list[float]] = defaultdict(list)
    facts = {cell: of for cell in cells if (of := read_facts(results, cell)) is not None}
    rounding: dict[str, float] = {}
    work = (delayed(cell_figures)(results, cell, cells) for cell in tasks)
    for done, (cell, figures) in enumerate(zip(tasks, parallel(work), strict=True), start=1):
        for key, value in figures.items():
            over_seeds[key].append(value)
        for name, change in _changes_by_rounding(figures, facts[cell]):
            rounding[name] = max(change, rounding.get(name, 0.0))
        progress(done / len(tasks))
    return Gathered(
        {
            key: Spread(float(np.mean(values)), min(values), max(values), len(values))
            for key, values in over_seeds.items()
        },
        facts,
        notes,
        rounding,
    )


def _changes_by_rounding(figures: Figures, facts: Facts) -> Iterator[tuple[str, float]]:
    if facts["rows"]["judged"] != facts["rows"]["test"]:
        return
    for key, value in figures.items():
        before = facts["full_precision"].get(key.method, {}).get(AS_FOUND.get(key.metric))
        if before is not None:
            yield key.metric, abs(value - before)


def cell_figures(results: Path, cell: Cell, stored: Sequence[Cell]) -> Figures:
    """Compute the figures of one cell; its companions are among those `stored`.

    The base model is that of the same seed. A cell of a seed without one, which is there for
    the floor, is judged by the labels that another seed stored. The floor is what retraining
    with another seed differs by.
    """
    alike = [c for c in stored if (c.set, c.architecture) == (cell.set, cell.architecture)]
    bases = sorted((c for c in alike if c.forget == BASE), key=lambda c: c.seed != cell.seed)
    if not bases:
        raise UnlabelError(f"{cell} has no base model {cell.base}: run it with unlabel bench run.")
    judge = _Judge(cell, _read(results, bases[0]))
    result = _read(results, cell)
    siblings = [c for c in alike if c.forget == cell.forget and c.seed != cell.seed]
    retrained_again = [
        judge.probabilities(other, "retrain", judge.retained)
        for other in (_read(results, sibling) for sibling in siblings)
        if "retrain" in other.arrays
    ]
    outputs = judge.outputs(result, with_base=bases[0] == cell.base)
    base, goal = outputs.get("base"), outputs.get("retrain")
    floor: Float64s | None = None
    found: dict[str, Found] = {}
    if goal is not None and retrained_again:
        floor = np.mean([judge.divergences(again, goal) for again in retrained_again], axis=0)
        found[FLOOR] = judge.to_retrained(floor, floor)
    for method, output in outputs.items():
        found[method] = judge.alone(output)
        if method == "base":
            continue
        on_retained = judge.on_retained(output)
        if base is not None:
            found[method] |= judge.to_base(on_retained, base)
        if goal is not None and method != "retrain":
            found[method] |= judge.to_retrained(judge.divergences(on_retained, goal), floor)
    figures = {
        Key(cell.set, cell.architecture, method, "", metric, cell.forget): value
        for method, of in found.items()
        for metric, value in of.items()
    }
    for method, seconds in result.facts["seconds"].items():
        total = {} if "total" in seconds else {"total": sum(seconds.values())}
        for component, value in (seconds | total).items():
            key = Key(cell.set, cell.architecture, method, component, "seconds", cell.forget)
            figures[key] = value
    return figures


class _Judge:
    """The judged rows of a cell, by their true labels, and its base model."""

    def __init__(self, cell: Cell, base: Result) -> None:
        self.cell, self.base = cell, base
        if not {"base", "labels"} <= base.arrays.keys():
            raise _damaged(base.cell, "it lacks the base model's logits or the labels")
        self.every = tuple(range(base.arrays["base"].shape[1]))
        self.removed = cell.removed
        self.retained = without(self.every, self.removed)
        self.truth: npt.NDArray[np.int64] = base.arrays["labels"].astype(np.int64)
        self.gone = np.isin(self.truth, self.removed)

    def outputs(self, result: Result, *, with_base: bool) -> dict[str, Floats]:
        """Probabilities of every method that the cell holds; without its base, of retraining."""
        found: dict[str, Floats] = {}
        if "retrain" in result.arrays:
            found["retrain"] = self.probabilities(result, "retrain", self.retained)
        if not with_base:
            return found
        found["base"] = self.probabilities(self.base, "base", self.every)
        found |= self._filtered(result)
        for method in KEEP_ALL_OUTPUTS:
            if method in result.arrays:
                found[method] = self.probabilities(result, method, self.every)
        return found

    def _filtered(self, result: Result) -> dict[str, Floats]:
        """What is computed from the base model's logits."""
        logits = self.base.arrays["base"].astype(np.float64)
        found: dict[str, Floats] = {}
        if result.filter is not None:
            if (result.filter.classes_in, result.filter.removed) != (self.every, self.removed):
                raise _damaged(result.cell, "its filter is for other labels")
            found["osr"] = result.filter.apply(logits)
        if "mask" in result.facts["methods"]:
            mask = fit_filter(
                logits[:1], classes=self.every, remove=self.removed, method="mask", input="logits"
            )
            found["mask"] = mask.apply(logits)
        for name, matrix in result.arrays.items():
            if name.startswith("linear_filtration"):
                if matrix.shape != (len(self.retained), len(self.every)):
                    raise _damaged(result.cell, f"{name} has the shape {matrix.shape}")
                filtered = logits @ matrix.T
                if name.endswith(SAME_AS_MASK):
                    filtered = _on_grid(filtered)
                found[name] = self._softmax(result, filtered, self.retained)
        return found

    def probabilities(self, of: Result, name: str, columns: Sequence[Any]) -> Floats:
        """Stored logits as probabilities."""
        logits = of.arrays[name]
        if logits.shape != (len(self.truth), len(columns)):
            raise _damaged(of.cell, f"{name} has the shape {logits.shape}")
        return self._softmax(of, logits.astype(np.float64), columns)

    def _softmax(self, of: Result, logits: Float64s, columns: Sequence[Any]) -> Floats:
        try:
            return unchanged(columns, "logits").apply(logits)
        except UnlabelError as error:
            raise _damaged(of.cell, str(error).rstrip(".")) from error

    def alone(self, output: Floats) -> Found:
        """Figures of an output that need no other, all of its entries counted."""
        columns = self.every if output.shape[1] == len(self.every) else self.retained
        seen = metrics.coverage(output, self.truth, columns, self.retained)
        found = {
            "A_R": metrics.mean_accuracy(output, self.truth, columns, self.retained),
            "A_F": metrics.mean_accuracy(output, self.truth, columns, self.removed),
            "Cov_R": seen.value,
            "Cov_F": metrics.coverage(output, self.truth, columns, self.removed).value,
            "ties": seen.tie_share,
            "log_loss": metrics.log_loss(output, self.truth, columns, self.retained),
            "ECE": metrics.expected_calibration_error(output, self.truth, columns, self.retained),
        }
        with suppress(UnlabelError):  # too few rows of one kind
            found["attack_auc"] = metrics.attack_auc(output[self.gone], output[~self.gone])
        return found

    def on_retained(self, output: Floats) -> Floats:
        """The retained entries of an output, divided by their sum."""
        if output.shape[1] == len(self.retained):
            return output
        return metrics.on_retained(output, self.every, self.retained)

    def divergences(self, output: Floats, goal: Floats) -> Float64s:
        """KL and Jensen-Shannon divergence of each row from the retrained model."""
        return np.stack([metrics.kl_divergence(output, goal), metrics.jensen_shannon(output, goal)])

    def to_retrained(self, divergences: Float64s, floor: Float64s | None) -> Found:
        """Mean divergences from the retrained model and, where there is a floor, over it."""
        found: dict[str, Any] = {}
        for kind, rows in (("R", ~self.gone), ("F", self.gone)):
            kl, js = divergences[:, rows]
            found |= {f"KL_retrained_{kind}": kl.mean(), f"JS_retrained_{kind}": js.mean()}
            if floor is not None:
                ratio = metrics.ratio_to_seed_floor(js, floor[1, rows])
                found[f"JS_over_floor_{kind}"] = ratio
        return {name: float(value) for name, value in found.items()}

    def to_base(self, output: Floats, base: Floats) -> Found:
        """Mean KL to the base model, with 0 for the removed entries."""
        padded = metrics.on_all(output, self.retained, self.every)
        kl = metrics.kl_divergence(padded, base)
        return {"KL_base_R": float(kl[~self.gone].mean()), "KL_base_F": float(kl[self.gone].mean())}


def _on_grid(logits: Float64s) -> Float64s:
    """Logits less the largest, on the grid of stored ones where they are next to it.

    Matrices in float32 take them off it by a little, which would break ties that mask has.
    """
    below = logits - logits.max(axis=1, keepdims=True)
    nearest = np.rint(below * STEP) / STEP
    return np.asarray(np.where(np.abs(below - nearest) < NEXT_TO_GRID, nearest, below))


def _read(results: Path, cell: Cell) -> Result:
    result = read_result(results, cell)
    if result is None:  # deleted since the cells were listed
        raise UnlabelError(f"{cell.file(results, '.json')} is gone: run unlabel bench run again.")
    return result


def _damaged(cell: Cell, why: str) -> UnlabelError:
    return UnlabelError(
        f"What is stored of {cell} is damaged ({why}): delete it and run unlabel bench run again."
    )
