"""Computes the values of the tables from stored results: one per method and metric, over seeds."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.utils.parallel import Parallel, delayed

from research.arrays import Float64s
from research.grid import BASE, Cell
from research.progress import track
from research.results.files import Facts, read_result, stored_facts
from research.tables.intervals import OURS, Right, Spread, differences, over_seeds, read_all_rows
from research.tables.judge import REVERSED, Judge
from research.tables.names import FLOOR, Network
from research.tables.notes import Notes, read_notes
from research.tables.orders import order_distances
from research.tables.published import Key
from unlabel import UnlabelError

# Metrics that are also computed at run time, over all test rows, and their names there.
FULL_PRECISION = {"A_R": "A_R", "A_F": "A_F", "Cov_R": "coverage_retained"}
# With fewer cells, starting processes takes more time than it saves.
ENOUGH_FOR_PROCESSES = 16


class Judged(NamedTuple):
    """What the outputs of a cell come to: values, and which rows each method has right."""

    values: dict[Key, float]
    right: Right
    truth: npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Gathered:
    """The values of a folder of results, with the facts of its cells and the notes on them."""

    spreads: dict[Key, Spread]
    facts: dict[Cell, Facts]
    notes: dict[Network, Notes]


def gather(results: Path) -> Gathered:
    """Compute all values of a folder of results."""
    facts = stored_facts(results)
    cells = list(facts)
    tasks = [cell for cell in cells if cell.forget != BASE]
    if not tasks:
        raise UnlabelError(
            f"{results} has no results to compare: give the folder that research run --out wrote."
        )
    cores = os.cpu_count() if len(tasks) >= ENOUGH_FOR_PROCESSES else 1
    parallel = Parallel(n_jobs=cores, return_as="generator")
    networks = {(cell.set, cell.architecture) for cell in cells}
    notes = {network: read_notes(results, *network) for network in networks}
    stored: dict[Key, list[float]] = defaultdict(list)
    by_cell: dict[tuple[str, str, str], list[Judged]] = defaultdict(list)
    work = (delayed(judge_cell)(results, cell, cells) for cell in tasks)
    judged_cells = track(parallel(work), "Computing values", len(tasks))
    for cell, judged in zip(tasks, judged_cells, strict=True):
        for key, from_logits in judged.values.items():
            at_run_time = facts[cell]["full_precision"].get(key.method, {})
            value = at_run_time.get(FULL_PRECISION.get(key.metric))
            stored[key].append(from_logits if value is None else value)
        by_cell[cell.set, cell.architecture, cell.forget].append(judged)
    spreads = {key: over_seeds(values) for key, values in stored.items()}
    for (set, architecture, forget), seeds in by_cell.items():
        gains = differences([judged.right for judged in seeds], seeds[0].truth)
        spreads |= _less((set, architecture), forget, gains)
    for network in networks:
        about, over_all_rows = read_all_rows(results, *network)
        notes[network]["intervals"] += [about] if about else []
        for forget, gains in over_all_rows.items():
            spreads |= _less(network, forget, gains, "all rows")
    return Gathered(spreads, facts, notes)


def _less(
    network: Network, forget: str, gains: dict[str, Spread], component: str = ""
) -> dict[Key, Spread]:
    return {
        Key(*network, method, component, "A_R_less", forget): gain for method, gain in gains.items()
    }


def judge_cell(results: Path, cell: Cell, stored: Sequence[Cell]) -> Judged:
    """Compute the values of one cell, with the help of the other `stored` cells.

    The base model has the same seed. Seeds without a base model are there for the floor; their
    cells are judged by the labels that another seed stored. The floor is the divergence from
    models retrained with other seeds.
    """
    network = [c for c in stored if (c.set, c.architecture) == (cell.set, cell.architecture)]
    bases = sorted((c for c in network if c.forget == BASE), key=lambda c: c.seed != cell.seed)
    if not bases:
        raise UnlabelError(f"{cell} has no base model {cell.base}: run it with research run.")
    result = read_result(results, cell)
    judge = Judge(cell, read_result(results, bases[0]))
    siblings = [c for c in network if c.forget == cell.forget and c.seed != cell.seed]
    retrained_again = [
        judge.probabilities(other, "retrain")
        for other in (read_result(results, sibling) for sibling in siblings)
        if "retrain" in other.arrays
    ]
    outputs = judge.outputs(result, with_base=bases[0] == cell.base)
    base, retrained = outputs.get("base"), outputs.get("retrain")
    floor: Float64s | None = None
    values: dict[tuple[str, str, str], float] = {}  # by method, component and metric

    def add(method: str, by_metric: dict[str, float], component: str = "") -> None:
        values.update({(method, component, name): value for name, value in by_metric.items()})

    if retrained is not None and retrained_again:
        kl, floor = (
            np.mean([divergence(again, retrained) for again in retrained_again], axis=0)
            for divergence in (judge.kl, judge.js)
        )
        add(FLOOR, judge.means("KL_retrained", kl) | judge.means("JS_retrained", floor))
        add(FLOOR, judge.over_floor(floor, floor))
    for method, output in outputs.items():
        add(method, judge.alone(output))
        if method == "base":
            continue
        references = {"KL_base": base, "KL_retrained": None if method == "retrain" else retrained}
        for metric, reference in references.items():
            if reference is not None:
                for form, entries in judge.forms(output).items():
                    add(method, judge.means(metric, judge.kl(entries, reference)), form)
        if retrained is not None and method != "retrain":
            js = judge.js(output, retrained)
            add(method, judge.means("JS_retrained", js))
            if floor is not None:
                add(method, judge.over_floor(js, floor))
            if method == OURS:
                add(method, judge.means("KL_retrained", judge.kl(retrained, output)), REVERSED)
    for method, seconds in result.facts.get("seconds", {}).items():
        total = {} if "total" in seconds else {"total": sum(seconds.values())}
        for component, value in (seconds | total).items():
            add(method, {"seconds": value}, component)
    if OURS in outputs and len(cell.removed) > 1:
        rows, apart = order_distances(judge.logits, judge.truth, cell.removed)
        for other, distances in apart.items():
            add(OURS, judge.means("JS_orders", distances, rows), other)
    return Judged(
        {
            Key(cell.set, cell.architecture, method, component, metric, cell.forget): value
            for (method, component, metric), value in values.items()
        },
        {method: judge.is_right(output) for method, output in outputs.items()},
        np.where(judge.is_removed, -1, judge.truth),
    )
