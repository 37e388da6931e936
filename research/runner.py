"""Runs the cells of a suite piece by piece and stores each finished piece.

A piece is one method on one cell. Stored pieces are not run again, so a run that was killed
resumes where it left off; a piece that fails is reported and does not stop the rest.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

import torch

from research.files import cannot_write
from research.grid import BASE, Cell, cell_of, select
from research.methods import RUN
from research.progress import Bar, Progress
from research.registry import DATASETS, choose
from research.resources import Resources
from research.results.collect import store_failure, store_outcome
from research.results.files import Facts, read_facts
from research.suites import SUITES, Study
from research.training import one_thread
from unlabel import UnlabelError

Failures = dict[str, list[str]]
TRAININGS = ("base", "retrain")


@dataclass(frozen=True)
class Piece:
    """One method on one cell."""

    study: Study
    cell: Cell
    method: str

    @property
    def weight(self) -> float:
        """The rough duration, as a fraction of the time to train the base model."""
        if self.method in TRAININGS:
            classes = 10 if len(DATASETS[self.cell.set].forget[-1]) < 10 else 100
            return 1 - len(self.cell.removed) / classes
        return 0.2 if self.method == "unsir" else 0.02

    def __str__(self) -> str:
        return f"{self.cell} {self.method}"


def run_suite(
    suite: str,
    *,
    out: Path,
    only: Sequence[str] = (),
    device: str = "auto",
    data: Path | None = None,
    weights: Path | None = None,
    stop_after: float | None = None,
) -> Failures:
    """Run the unfinished pieces of a suite.

    Parameters
    ----------
    suite : {"paper", "quick"}
    out : path
        The folder for the results.
    only : sequence of str
        Cells to run, such as "cifar10/resnet18/F2"; all cells if empty.
    device : str
        "cpu", "cuda" or one GPU such as "cuda:1"; "auto" is the GPU if there is one.
    data : path, optional
        The folder of image sets, which the suite `quick` does not need.
    weights : path, optional
        torchvision's file of ImageNet weights, or its folder.
    stop_after : float, optional
        Start nothing that would likely end later than this many seconds from now.

    Returns
    -------
    dict
        The error messages, each with the pieces that failed with it.
    """
    if data is not None and not data.is_dir():
        raise UnlabelError(f"{data} is not a folder: give the one that holds the image sets.")
    pieces = pieces_left(choose(SUITES, suite, "suite"), out, only)
    if data is None and (missing := {piece.cell.set for piece in pieces} - {"digits"}):
        raise UnlabelError(
            f"The chosen cells need {' and '.join(sorted(missing))}: name the folder of image "
            "sets with --data."
        )
    resources = Resources(out, data or Path(), weights, _device(device))
    _make_folder(out)
    with one_thread() if suite == "quick" else nullcontext():
        return run_pieces(pieces, resources, stop_after)


def pieces_left(studies: Sequence[Study], out: Path, only: Sequence[str] = ()) -> list[Piece]:
    """List the unfinished pieces of some studies, in order, with the base models they need."""
    study_of = {cell: study for study in studies for cell in study.cells()}
    chosen = set(select(study_of, only))
    chosen |= {cell.base for cell in chosen} & study_of.keys()
    left = []
    for cell, study in study_of.items():
        if cell in chosen:
            facts = read_facts(out, cell)
            if facts is None and cell.forget == BASE:
                _refuse_orphans(out, cell)
            if facts is not None:
                _refuse_other_settings(cell.file(out, ".json"), facts, study)
            done = facts["methods"] if facts else ()
            left += [Piece(study, cell, name) for name in study.methods(cell) if name not in done]
    return left


def run_pieces(
    pieces: Sequence[Piece], resources: Resources, stop_after: float | None = None
) -> Failures:
    """Run pieces one after another and return the failures."""
    failed: list[tuple[Piece, str]] = []
    try:
        _run_each(pieces, resources, stop_after, failed)
    finally:
        for piece, why in failed:  # only now: a cell may get its file after a method failed
            store_failure(resources.out, piece.cell, piece.method, why)
    failures: Failures = {}
    for piece, why in failed:
        failures.setdefault(why, []).append(str(piece))
    return failures


def _run_each(
    pieces: Sequence[Piece],
    resources: Resources,
    stop_after: float | None,
    failed: list[tuple[Piece, str]],
) -> None:
    bar = Bar(sum(piece.weight for piece in pieces))
    pace: dict[tuple[Study, str], float] = {}  # seconds for a piece of weight 1
    for number, piece in enumerate(pieces):
        kind = piece.study, "training" if piece.method in TRAININGS else piece.method
        started = time.monotonic()
        ends = started - bar.started + pace.get(kind, 0.0) * piece.weight
        if stop_after is not None and ends > stop_after:
            bar.say(f"Stopped by the time limit, with {len(pieces) - number} pieces left.")
            break
        try:
            with bar.step(str(piece), piece.weight) as progress:
                accuracies = _run_piece(piece, resources, progress)
        except Exception as error:  # the other pieces can still be run
            is_ours = isinstance(error, UnlabelError)
            why = str(error) if is_ours else f"{type(error).__name__}: {error}"
            failed.append((piece, why))
            bar.say(f"{piece}: failed: {why}")
        else:
            seconds = time.monotonic() - started
            pace[kind] = max(pace.get(kind, 0.0), seconds / piece.weight)
            bar.say(f"{piece}: {accuracies}, {seconds:.1f} s")
    bar.clear()


def report_failures(failures: Failures) -> int:
    """Print the failures and return the exit code."""
    for why, pieces in failures.items():
        print(f"Failed: {', '.join(pieces)}: {why}", file=sys.stderr)
    return 1 if failures else 0


def _run_piece(piece: Piece, resources: Resources, progress: Progress) -> str:
    """Run a piece, store its outcome and return its accuracies as text."""
    study, cell, method = piece.study, piece.cell, piece.method
    if method == "base":
        resources.train_base(study, cell.seed, progress)
    else:
        task = resources.task(study, cell, progress)
        store_outcome(resources.out, cell, method, RUN[method](task), task)
    facts = read_facts(resources.out, cell) or {}
    values = next(v for name, v in facts["full_precision"].items() if name.startswith(method))
    return ", ".join(
        f"{key} {values[key]:.4f}" for key in ("A_R", "A_F") if values[key] is not None
    )


def _make_folder(out: Path) -> None:
    """Make the folder for the results; check that it is writable before hours of work."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise cannot_write(out, error) from error


def _refuse_orphans(out: Path, base: Cell) -> None:
    """Refuse to train a base model anew beside results of an earlier one."""
    folder = base.file(out, "").parent
    for path in sorted(folder.glob("F*.json")):
        cell = cell_of(path)
        facts = read_facts(out, cell) if cell else None
        if facts and set(facts["methods"]) - {"retrain"}:
            raise UnlabelError(
                f"{path} was made from a base model that is missing: delete {folder} to start over."
            )


def _refuse_other_settings(path: Path, facts: Facts, study: Study) -> None:
    """Refuse to add to results that were made with other settings."""
    for part, settings in study.settings().items():
        stored = study.defaults()[part] | facts["config"].get(part, settings)
        for name, value in settings.items():
            if stored.get(name) != value:
                raise UnlabelError(
                    f"{path} was made with other settings ({part}: {name} is {stored.get(name)}, "
                    f"not {value}): choose another folder, or delete {path.parent} to start over."
                )


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        if device.type not in ("cpu", "cuda"):  # work on others could not be timed
            raise UnlabelError(f"The benchmark does not run on {name!r}: use auto, cpu or cuda.")
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError) as error:
        raise UnlabelError(
            f"The device {name!r} is not available: use auto, cpu or cuda."
        ) from error
    return device
