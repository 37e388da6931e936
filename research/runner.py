"""Runs the cells of some studies piece by piece and stores each finished piece.

A piece is one method on one cell. Stored pieces are not run again, so a run that was killed
resumes where it left off; a piece that fails is reported and does not stop the rest.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

import torch

from research.files import cannot_write
from research.grid import BASE, Cell, cell_of, select
from research.registry import DATASETS, METHODS, check_removed
from research.resources import Resources
from research.results.collect import Values, store_failure, store_outcome
from research.results.files import read_facts
from research.suites import RETRAIN, Study
from research.training import one_thread, timed
from unlabel import UnlabelError

Failures = dict[str, list[str]]


@dataclass(frozen=True)
class Piece:
    """One method on one cell."""

    study: Study
    cell: Cell
    method: str

    def __str__(self) -> str:
        return f"{self.cell} {self.method}"


def run_studies(
    studies: Sequence[Study],
    *,
    out: Path,
    only: Sequence[str] = (),
    device: str = "auto",
    data: Path | None = None,
    weights: Path | None = None,
    stop_after: float | None = None,
) -> Failures:
    """Run the unfinished pieces of some studies, as the options of `run` say.

    Returns the error messages, each with the pieces that failed with it.
    """
    if data is not None and not data.is_dir():
        raise UnlabelError(f"{data} is not a folder: give the one that holds the image sets.")
    pieces = pieces_left(studies, out, only)
    in_files = sorted({p.cell.set for p in pieces if DATASETS[p.cell.set].in_files})
    if data is None and in_files:
        raise UnlabelError(
            f"The chosen cells need {' and '.join(in_files)}: name the folder of image sets with "
            "--data."
        )
    resources = Resources(out, data or Path(), weights, _device(device))
    _make_folder(out)
    with nullcontext() if in_files else one_thread():  # sets without files are small
        return run_pieces(pieces, resources, stop_after)


def pieces_left(studies: Sequence[Study], out: Path, only: Sequence[str] = ()) -> list[Piece]:
    """List the unfinished pieces of some studies, in order, with the base models they need."""
    study_of = {cell: study for study in studies for cell in study.cells()}
    chosen = set(select(study_of, only))
    chosen |= {cell.base for cell in chosen} & study_of.keys()
    left = []
    for cell, study in study_of.items():
        if cell in chosen:
            done = _methods_done(out, cell, study)
            left += [Piece(study, cell, name) for name in study.methods(cell) if name not in done]
    return left


def _methods_done(out: Path, cell: Cell, study: Study) -> Sequence[str]:
    """Return the stored methods of a cell; refuse to add to results of another study."""
    if cell.removed:
        check_removed(cell.removed, cell.set)
    facts = read_facts(out, cell)
    if facts is None:
        if cell.forget == BASE:
            _refuse_orphans(out, cell)
        return ()
    other = study.difference(facts["config"])
    if facts["removed"] != [*cell.removed]:
        other = f"removed labels are {facts['removed']}, not {[*cell.removed]}"
    if other:
        path = cell.file(out, ".json")
        raise UnlabelError(
            f"{path} was made with other settings ({other}): choose another folder, or delete "
            f"{path.parent} to start over."
        )
    methods: list[str] = facts["methods"]
    return methods


def _refuse_orphans(out: Path, base: Cell) -> None:
    """Refuse to train a base model anew beside results of an earlier one."""
    folder = base.file(out, "").parent
    for path in sorted(folder.glob("F*.json")):
        cell = cell_of(path)
        facts = read_facts(out, cell) if cell else None
        if facts and set(facts["methods"]) - {RETRAIN}:
            raise UnlabelError(
                f"{path} was made from a base model that is missing: delete {folder} to start over."
            )


def run_pieces(
    pieces: Sequence[Piece], resources: Resources, stop_after: float | None = None
) -> Failures:
    """Run pieces one after another and return the failures."""
    began = time.monotonic()
    took: dict[tuple[Study, str], float] = {}  # the longest of a study's pieces by each method
    failed: list[tuple[Piece, str]] = []
    try:
        for number, piece in enumerate(pieces):
            started, kind = time.monotonic(), (piece.study, piece.method)
            expected = took.get(kind, took.get((piece.study, "base"), 0.0))
            if stop_after is not None and started - began + expected > stop_after:
                _say(f"Stopped by the time limit, with {len(pieces) - number} pieces left.")
                break
            try:
                values = _run_piece(piece, resources)
            except Exception as error:  # the other pieces can still be run
                is_ours = isinstance(error, UnlabelError)
                why = str(error) if is_ours else f"{type(error).__name__}: {error}"
                failed.append((piece, why))
                _say(f"{piece}: failed: {why}")
            else:
                seconds = time.monotonic() - started
                took[kind] = max(took.get(kind, 0.0), seconds)
                done = f"{number + 1} of {len(pieces)}"
                _say(f"{piece}: {_accuracies(values)}, {seconds:.1f} s ({done})")
    finally:
        for piece, why in failed:  # only now: a cell may get its file after a method failed
            store_failure(resources.out, piece.cell, piece.method, why)
    failures: Failures = defaultdict(list)
    for piece, why in failed:
        failures[why].append(str(piece))
    return failures


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def report_failures(failures: Failures) -> int:
    """Print the failures and return the exit code."""
    for why, pieces in failures.items():
        _say(f"Failed: {', '.join(pieces)}: {why}")
    return 1 if failures else 0


def _run_piece(piece: Piece, resources: Resources) -> Values:
    """Run a piece, store its outcome and return its values over all test rows."""
    if piece.method == "base":
        return resources.train_base(piece.study, piece.cell.seed)
    task = resources.task(piece.study, piece.cell)
    seconds: dict[str, float] = {}
    with timed(seconds, "total", task.device):
        outcome = METHODS[piece.method].run(task)
    return store_outcome(resources.out, piece.cell, piece.method, outcome, task, seconds)


def _accuracies(values: Values) -> str:
    first = next(iter(values.values()))
    shown = {key: first[key] for key in ("A_R", "A_F")}
    return ", ".join(f"{key} {value:.4f}" for key, value in shown.items() if value is not None)


def _make_folder(out: Path) -> None:
    """Make the folder for the results; check that it is writable before hours of work."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise cannot_write(out, error) from error


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError) as error:
        raise UnlabelError(f"The device {name!r} is not available: use cpu or cuda.") from error
    if device.type not in ("cpu", "cuda"):  # work on others could not be timed
        raise UnlabelError(f"{name!r} is a device that this does not run on: use cpu or cuda.")
    return device
