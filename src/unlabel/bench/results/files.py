"""What a cell leaves behind: facts in JSON, logits in npz, and the filter that OSR fitted.

A cell is done when its JSON is there: it is written last, and every file appears whole or
not at all. Reading needs neither PyTorch nor the command line.
"""

from __future__ import annotations

import json
import lzma
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unlabel._files.atomic import whole_file
from unlabel.bench.grid import BASE, Cell, cell_of
from unlabel.bench.suites import METHODS
from unlabel.errors import UnlabelError
from unlabel.evaluation.summary import plain
from unlabel.filter import OutputFilter

Array = npt.NDArray[Any]
Facts = dict[str, Any]

PROTOCOL = 1
STEP = 64  # logits are stored as multiples of one 64th
# What every JSON file says, and the files that methods need beside it.
FACTS: dict[str, type] = {
    "classes": int,
    "config": dict,
    "failed": dict,
    "full_precision": dict,
    "made": dict,
    "methods": list,
    "rows": dict,
    "seconds": dict,
}
NEED = {
    ".npz": {"base", "retrain", "unsir", "nhle_cwm", "linear_filtration"},
    ".safetensors": {"osr"},
}


@dataclass(frozen=True, eq=False)
class Result:
    """A cell and what it holds.

    Attributes
    ----------
    cell : Cell
    facts : dict
        What the JSON file says: methods, config, seconds, how each was made and so on.
    arrays : dict of arrays
        `labels` and `base` of a base model; else logits of `retrain`, `unsir` and `nhle_cwm`, and
        the matrices `linear_filtration_*` that the base model's logits are multiplied with.
    filter : OutputFilter, optional
        What OSR fitted.
    """

    cell: Cell
    facts: Facts
    arrays: dict[str, Array] = field(default_factory=dict)
    filter: OutputFilter | None = None


def rounded(logits: Array) -> Array:
    """Logits as they are stored: float16, multiples of one 64th, which compress well.

    Examples
    --------
    >>> rounded(np.array([0.1, -3.0, 12.34])).tolist()
    [0.09375, -3.0, 12.34375]
    """
    return (np.rint(np.asarray(logits, np.float64) * STEP) / STEP).astype(np.float16)


def write_result(results: Path, result: Result) -> None:
    """Write a cell's files, the JSON last."""
    cell = result.cell
    where = cell.file(results, ".json")
    try:
        where.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnlabelError(f"{where.parent} could not be made: {error.strerror}.") from error
    if result.arrays:
        _write_arrays(cell.file(results, ".npz"), result.arrays)
    if result.filter is not None:
        result.filter.save(cell.file(results, ".safetensors"), overwrite=True)
    facts = {
        "protocol": PROTOCOL,
        "set": cell.set,
        "architecture": cell.architecture,
        "seed": cell.seed,
        "forget": cell.forget,
        "removed": cell.removed,
    } | result.facts
    with whole_file(where, overwrite=True) as part:
        text = json.dumps(plain(facts), indent=1, sort_keys=True, allow_nan=False)
        part.write_text(text + "\n", encoding="utf-8")


def stored_cells(results: Path) -> list[Cell]:
    """The cells that are done in a folder of results, in order."""
    if not results.is_dir():
        raise UnlabelError(f"{results} is no folder: give what unlabel bench run --out wrote.")
    files = results.glob("*/*/s*/F*.json")
    return sorted(cell for path in files if (cell := cell_of(path)) is not None)


def read_facts(results: Path, cell: Cell) -> Facts | None:
    """What a cell's JSON says, None where the cell is not done."""
    path = cell.file(results, ".json")
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path) from error
    if not isinstance(facts, dict) or not _are_sound(facts):
        raise _damaged(path)
    for suffix, methods in NEED.items():
        if methods & set(facts["methods"]) and not cell.file(results, suffix).exists():
            raise _damaged(cell.file(results, suffix))
    return facts


def _are_sound(facts: Facts) -> bool:
    if facts.get("protocol") != PROTOCOL:
        return False
    if any(not isinstance(facts.get(name), kind) for name, kind in FACTS.items()):
        return False
    parts = [of for name in ("config", "seconds", "full_precision") for of in facts[name].values()]
    return (
        all(isinstance(of, dict) for of in parts)
        and all(isinstance(of.get("A_R"), int | float) for of in facts["full_precision"].values())
        and all(isinstance(facts["rows"].get(name), int) for name in ("test", "judged"))
        and all(isinstance(of, str) for of in facts["methods"])
        and {*facts["methods"]} <= facts["made"].keys()
        and all(_says_how(of) for of in facts["made"].values())
        and {*facts["methods"], *facts["seconds"]} <= {"base", *METHODS}
        and all(_are_numbers(of) for of in facts["seconds"].values())
    )


def _says_how(made: Any) -> bool:
    return (
        isinstance(made, dict)
        and isinstance(made.get("hardware"), str)
        and isinstance(made.get("versions"), dict)
    )


def _are_numbers(figures: Facts) -> bool:
    return all(isinstance(of, int | float) for of in figures.values())


def read_result(results: Path, cell: Cell) -> Result | None:
    """Read all that a cell holds, None where the cell is not done."""
    facts = read_facts(results, cell)
    if facts is None:
        return None
    path, fitted = cell.file(results, ".npz"), cell.file(results, ".safetensors")
    arrays = _read_arrays(path) if path.exists() else {}
    for method in NEED[".npz"] & set(facts["methods"]):
        if not any(name.startswith(method) for name in arrays):
            raise _damaged(path)
    try:
        return Result(cell, facts, arrays, OutputFilter.load(fitted) if fitted.exists() else None)
    except UnlabelError as error:
        raise _damaged(fitted) from error


def _write_arrays(path: Path, arrays: dict[str, Array]) -> None:
    """Write an npz that `numpy.load` reads, LZMA-compressed, the same bytes every time."""
    with (
        whole_file(path, overwrite=True) as part,
        zipfile.ZipFile(part, "w", zipfile.ZIP_LZMA) as members,
    ):
        for name, array in sorted(arrays.items()):
            info = zipfile.ZipInfo(f"{name}.npy")
            info.compress_type = zipfile.ZIP_LZMA
            with members.open(info, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)


def _read_arrays(path: Path) -> dict[str, Array]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            return dict(stored)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, lzma.LZMAError) as error:
        raise _damaged(path) from error


def _damaged(path: Path) -> UnlabelError:
    # What was made from a base model goes with it.
    whole = path.parent if path.stem == BASE else path.with_suffix(".*")
    state = "is damaged" if path.exists() else "is gone"
    return UnlabelError(f"{path} {state}: delete {whole} and run unlabel bench run again.")
