"""How near could any filter come to retraining? The best that we could train, beside OSR and mask.

python -m research.limit

For every network of the committed results, a network that maps the base model's logits to the
outputs of a model that was really retrained is trained on these very outputs, which no user has.
It is judged on other rows, against a second retrained model, as all methods are here: by the
Jensen-Shannon divergence. It is evidence, not a bound: a better network may exist.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812 (its name everywhere)
from sklearn.utils.parallel import Parallel, delayed
from torch import Tensor

from research.arrays import Floats
from research.files import write_measured
from research.grid import BASE, Cell
from research.registry import METHODS
from research.results import PAPER, STORED
from research.results.files import read_result, stored_cells
from research.tables.judge import Judge
from unlabel import metrics

FOLDS = 5
REPEATS = 3  # networks per fold, whose outputs are averaged; each is stopped by another fold
HIDDEN = 128
DROPOUT = 0.5
STEPS, BATCH, RATE, DECAY = 400, 256, 1e-3, 1e-2
STEPS_BETWEEN_CHECKS = 20
# Of a row of a removed label; its kind weighs as much as the other up to here.
LARGEST_WEIGHT = 10.0
SMALLEST = 1e-12

Values = dict[str, float]


@dataclass(frozen=True, eq=False)
class Outputs:
    """The outputs of a cell's models for the judged rows; probabilities but for `logits`."""

    logits: Floats  # of the base model
    retained: list[int]
    is_removed: npt.NDArray[np.bool_]
    taught: Floats  # the retrained model that the network learns from
    judged_by: Floats  # a model that was retrained with another seed
    methods: dict[str, Floats]


def read_outputs(cell: Cell) -> Outputs:
    """Read the outputs of a cell; the retrained model of the same seed teaches, another judges."""
    other = replace(cell, seed=1 - cell.seed)
    base, result, again = (read_result(PAPER, c) for c in (cell.base, cell, other))
    judge = Judge(cell, base)
    found = judge.outputs(result, with_base=True)
    taught, judged_by = found.pop("retrain"), judge.probabilities(again, "retrain")
    methods = {name: judge.on_retained(found[name]) for name in METHODS if name in found}
    retained = [*judge.retained]
    return Outputs(judge.logits, retained, judge.is_removed, taught, judged_by, methods)


def distances(outputs: Outputs) -> dict[str, Values]:
    """Return the mean divergences from the judge, on removed (F) and retained (R) labels."""
    compared = {"floor": outputs.taught, "limit": learned(outputs)} | outputs.methods
    kinds = {"F": outputs.is_removed, "R": ~outputs.is_removed}
    rows = {
        name: metrics.jensen_shannon(output, outputs.judged_by) for name, output in compared.items()
    }
    return {
        kind: {name: float(values[of_kind].mean()) for name, values in rows.items()}
        for kind, of_kind in kinds.items()
    }


def folds_of(is_removed: npt.NDArray[np.bool_]) -> Tensor:
    """Deal the rows of each kind out to the folds at random."""
    random = np.random.default_rng(0)
    folds = np.empty(len(is_removed), dtype=np.int64)
    for kind in (is_removed, ~is_removed):
        rows = random.permutation(np.flatnonzero(kind))
        folds[rows] = np.arange(len(rows)) % FOLDS
    return torch.from_numpy(folds)


def learned(outputs: Outputs) -> Floats:
    """Train networks on the retrained model's outputs; return their outputs for other rows.

    The retained logits, times a factor, pass by a hidden layer that starts at 0: before training
    it is mask. All networks, one or more per fold, are trained at once. None sees the retrained
    model's outputs for its own fold; on one more fold it finds its best step.
    """
    torch.manual_seed(0)
    logits = torch.from_numpy(outputs.logits).float()
    target = torch.from_numpy(outputs.taught).float()
    is_removed = torch.from_numpy(outputs.is_removed)
    kept, inputs = logits[:, outputs.retained], _inputs(logits)
    number = torch.arange(FOLDS * REPEATS)
    own, checked = number % FOLDS, (number + 1 + number // FOLDS) % FOLDS
    folds = folds_of(outputs.is_removed)
    is_own, is_checked = (folds == which[:, None] for which in (own, checked))
    balance = (~is_removed).sum() / is_removed.sum()
    weight = torch.where(is_removed, balance.clamp(1, LARGEST_WEIGHT), torch.tensor(1.0))
    networks = _networks(len(number), inputs.shape[1], target.shape[1])
    optimiser = torch.optim.AdamW(networks, lr=RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, STEPS)
    best = torch.full((len(number),), torch.inf)
    answers = torch.zeros(len(number), *target.shape)
    for step in range(STEPS + 1):
        if step % STEPS_BETWEEN_CHECKS == 0:
            found = _answer(networks, kept, inputs, dropout=0.0).detach()
            check = weight * is_checked
            loss = (check * jensen_shannon(found, target)).sum(1) / check.sum(1)
            better = loss < best
            best[better], answers[better] = loss[better], found[better].exp()
        rows = torch.multinomial(weight * ~(is_own | is_checked), BATCH, replacement=True)
        answer = _answer(networks, kept[rows], inputs[rows], DROPOUT)
        jensen_shannon(answer, target[rows]).mean(dim=1).sum().backward()
        optimiser.step()
        optimiser.zero_grad()
        schedule.step()
    mean = (answers * is_own[:, :, None]).sum(dim=0).double()
    return np.asarray(mean / mean.sum(dim=1, keepdim=True))


def _inputs(logits: Tensor) -> Tensor:
    """Return the standardised log-probabilities, and the probabilities on a similar scale."""
    log = torch.log_softmax(logits, dim=1)
    scaled = (log - log.mean(dim=0)) / log.std(dim=0)
    return torch.cat([scaled, log.exp() * logits.shape[1] ** 0.5], dim=1)


def _networks(n: int, inputs: int, outputs: int) -> list[Tensor]:
    """Make the parameters of several networks; the first axis is that of the networks."""
    weight = torch.randn(n, inputs, HIDDEN) * inputs**-0.5
    shapes = (1, HIDDEN), (HIDDEN, outputs), (1, outputs), (1, 1)
    return [part.requires_grad_() for part in (weight, *(torch.zeros(n, *s) for s in shapes))]


def _answer(networks: list[Tensor], kept: Tensor, inputs: Tensor, dropout: float) -> Tensor:
    """Return the log-probabilities that each network gives."""
    weight, bias, out_weight, out_bias, factor = networks
    hidden = F.dropout(F.gelu(inputs @ weight + bias), dropout)
    return torch.log_softmax(kept * factor.exp() + hidden @ out_weight + out_bias, dim=-1)


def jensen_shannon(log: Tensor, target: Tensor) -> Tensor:
    """Compute the divergence of log-probabilities from probabilities, row by row."""
    probabilities = log.exp()
    middle = ((probabilities + target) / 2).clamp_min(SMALLEST).log()
    there = probabilities * (log - middle)
    back = target * (target.clamp_min(SMALLEST).log() - middle)
    return (there + back).sum(dim=-1) / 2


def _cell(cell: Cell) -> tuple[str, dict[str, Values]]:
    torch.set_num_threads(1)
    return str(cell), distances(read_outputs(cell))


def main() -> None:
    """Judge every cell that has a base model, and write the divergences."""
    stored = {*stored_cells(PAPER)}
    twice = (cell for cell in sorted(stored) if replace(cell, seed=1 - cell.seed) in stored)
    cells = [cell for cell in twice if cell.forget != BASE and cell.base in stored]
    found = {}
    parallel = Parallel(n_jobs=os.cpu_count(), return_as="generator")
    for name, values in parallel(delayed(_cell)(cell) for cell in cells):
        found[name] = values
        shown = ", ".join(f"{key} {value:.4f}" for key, value in values["F"].items())
        print(f"{name}: {shown}", flush=True)
    write_measured(STORED / "limit.json", torch=str(torch.__version__), cells=found)


if __name__ == "__main__":
    main()
