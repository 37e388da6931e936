"""Runs the cells of some studies piece by piece and stores each finished piece.

A piece is one method on one cell. Stored pieces are not run again, so a run that was killed
resumes where it left off; a piece that fails is reported and does not stop the rest.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from research.files import cannot_write
from research.grid import Cell, select
from research.registry import DATASETS, METHODS, check_removed, choose
from research.resources import Resources
from research.results.collect import Values, store_failure, store_outcome
from research.results.files import Facts, stored_facts
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
) -> Failures:
    """Run the unfinished pieces of some studies, as the options of `run` say.

    Returns the error messages, each with the pieces that failed with it.
    """
    if data is not None and not data.is_dir():
        raise UnlabelError(f"{data} is not a folder: give the one that holds the image sets.")
    pieces = pieces_left(studies, out, only)
    if not pieces:
        _say(f"Nothing is left to run: delete the files of a cell in {out} to run it again.")
    in_files = sorted({p.cell.set for p in pieces if DATASETS[p.cell.set].in_files})
    if data is None and in_files:
        raise UnlabelError(
            f"The chosen cells need {' and '.join(in_files)}: name the folder of image sets with "
            "--data."
        )
    resources = Resources(out, data or Path(), weights, _device(device))
    try:
        (out / "weights").mkdir(parents=True, exist_ok=True)  # before hours of work
    except OSError as error:
        raise cannot_write(out, error) from error
    with nullcontext() if in_files else one_thread():  # sets without files are small
        return run_pieces(pieces, resources)


def pieces_left(studies: Sequence[Study], out: Path, only: Sequence[str] = ()) -> list[Piece]:
    """List the unfinished pieces of some studies, in order, with the base models they need."""
    study_of = {cell: study for study in studies for cell in study.cells()}
    chosen = set(select(study_of, only))
    chosen |= {cell.base for cell in chosen} & study_of.keys()
    for cell in study_of:
        if cell in chosen and cell.removed:
            check_removed(cell.removed, cell.set)
    stored = stored_facts(out) if out.is_dir() else {}
    for study in studies:
        _check_stored(study, stored, out)
    return [
        Piece(study, cell, name)
        for cell, study in study_of.items()
        if cell in chosen
        for name in study.methods_of(cell)
        if cell not in stored or name not in stored[cell]["methods"]
    ]


def _check_stored(study: Study, stored: Mapping[Cell, Facts], out: Path) -> None:
    """Refuse to add to results of another study, or to ones whose base model is missing."""
    removed_by = {cell.forget: cell.removed for cell in study.cells()}
    for cell, facts in stored.items():
        if (cell.set, cell.architecture) != (study.set, study.architecture):
            continue
        other, removed = study.difference(facts["config"]), removed_by.get(cell.forget)
        if removed not in (None, cell.removed):
            other = f"removed labels are {[*cell.removed]}, not {[*removed]}"
        path = cell.file(out, ".json")
        if cell.base not in stored and {*facts["methods"]} - {RETRAIN}:
            raise UnlabelError(
                f"{path} was made from a base model that is missing: delete {path.parent} to start "
                "over."
            )
        if other:
            raise UnlabelError(
                f"{path} was made with other settings ({other}): choose another folder, or delete "
                f"{path.parent} to start over."
            )


def run_pieces(pieces: Sequence[Piece], resources: Resources) -> Failures:
    """Run pieces one after another and return the failures."""
    failed: list[tuple[Piece, str]] = []
    try:
        for number, piece in enumerate(pieces, start=1):
            took: dict[str, float] = {}
            try:
                with timed(took, "all", resources.device):
                    values = _run_piece(piece, resources)
            except (Exception, SystemExit) as error:  # the other pieces can still be run
                is_ours = isinstance(error, UnlabelError)
                why = str(error) if is_ours else f"{type(error).__name__}: {error}"
                failed.append((piece, why))
                _say(f"{piece}: failed: {why}")
            else:
                first = next(iter(values.values()))
                parts = [f"{k} {first[k]:.4f}" for k in ("A_R", "A_F") if first[k] is not None]
                parts.append(f"{took['all']:.1f} s ({number} of {len(pieces)})")
                _say(f"{piece}: {', '.join(parts)}")
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
        outcome = choose(METHODS, piece.method, "method").run(task)
    return store_outcome(resources.out, piece.cell, piece.method, outcome, task, seconds)


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with suppress(RuntimeError, AssertionError):
        device = torch.device(name)
        torch.zeros(1, device=device).item()
        if device.type in ("cpu", "cuda"):  # work on others could not be timed
            return device
    raise UnlabelError(f"The device {name!r} is not available: use cpu or cuda.")
