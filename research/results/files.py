"""The files of a cell: facts in JSON, logits in npz, and the filter that OSR fitted.

A cell is done when its JSON file exists: it is written last, and every file appears whole or
not at all. Reading needs neither PyTorch nor the command line.
"""

from __future__ import annotations

import json
import lzma
import zipfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from research.arrays import Array
from research.files import plain, whole_file
from research.grid import BASE, Cell, cell_of
from research.suites import METHODS
from unlabel import OutputFilter, UnlabelError

Facts = dict[str, Any]

PROTOCOL = 1
GRID = 64  # logits are stored as multiples of one 64th
# The keys of every JSON file, and the files that methods need beside it.
FACTS: dict[str, type] = {
    "classes": int,
    "config": dict,
    "failed": dict,
    "full_precision": dict,
    "made": dict,
    "methods": list,
    "removed": list,
    "rows": dict,
    "seconds": dict,
}
FILES_NEEDED = {
    ".npz": {"base", "retrain", "unsir", "nhle_cwm", "linear_filtration"},
    ".safetensors": {"osr"},
}


@dataclass(frozen=True, eq=False)
class Result:
    """The stored result of a cell.

    Attributes
    ----------
    cell : Cell
    facts : dict
        The content of the JSON file: methods, config, seconds, how each was made and so on.
    arrays : dict of arrays
        `labels` and `base` of a base model; else logits of `retrain`, `unsir` and `nhle_cwm`, and
        the matrices `linear_filtration_*`, by which the base model's logits are multiplied.
    filter : OutputFilter, optional
        The filter that OSR fitted.
    """

    cell: Cell
    facts: Facts
    arrays: dict[str, Array] = field(default_factory=dict)
    filter: OutputFilter | None = None


def rounded(logits: Array) -> Array:
    """Round logits for storage to multiples of one 64th in float16, which compress well.

    Examples
    --------
    >>> rounded(np.array([0.1, -3.0, 12.34])).tolist()
    [0.09375, -3.0, 12.34375]
    """
    return (np.rint(np.asarray(logits, np.float64) * GRID) / GRID).astype(np.float16)


def write_result(results: Path, result: Result) -> None:
    """Write the files of a cell, the JSON file last."""
    cell = result.cell
    where = cell.file(results, ".json")
    try:
        where.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnlabelError(f"{where.parent} could not be made: {error.strerror}.") from error
    if result.arrays:
        _write_arrays(cell.file(results, ".npz"), result.arrays)
    if result.filter is not None:
        result.filter.save(cell.file(results, ".safetensors"))
    facts = {
        "protocol": PROTOCOL,
        "set": cell.set,
        "architecture": cell.architecture,
        "seed": cell.seed,
        "forget": cell.forget,
        "removed": cell.removed,
    } | result.facts
    with whole_file(where) as part:
        text = json.dumps(plain(facts), indent=1, sort_keys=True, allow_nan=False)
        part.write_text(text + "\n", encoding="utf-8")


def stored_cells(results: Path) -> list[Cell]:
    """List the finished cells in a folder of results, in order, with their removed labels."""
    if not results.is_dir():
        raise UnlabelError(
            f"{results} is not a folder: give the one that research run --out wrote."
        )
    cells = []
    for path in results.glob("*/*/s*/F*.json"):
        cell = cell_of(path)
        facts = read_facts(results, cell) if cell else None
        if cell and facts:
            cells.append(replace(cell, removed=tuple(facts["removed"])))
    return sorted(cells)


def read_facts(results: Path, cell: Cell) -> Facts | None:
    """Read the JSON file of a cell; None if the cell is not done."""
    path = cell.file(results, ".json")
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path) from error
    if not isinstance(facts, dict) or not _is_valid(facts):
        raise _damaged(path)
    for suffix, methods in FILES_NEEDED.items():
        if methods & set(facts["methods"]) and not cell.file(results, suffix).exists():
            raise _damaged(cell.file(results, suffix))
    return facts


def _is_valid(facts: Facts) -> bool:
    if facts.get("protocol") != PROTOCOL:
        return False
    if any(not isinstance(facts.get(name), kind) for name, kind in FACTS.items()):
        return False
    values, seconds = facts["full_precision"].values(), facts["seconds"].values()
    return (
        all(isinstance(part, dict) for part in (*facts["config"].values(), *seconds, *values))
        and all(isinstance(value.get("A_R"), int | float) for value in values)
        and all(isinstance(facts["rows"].get(name), int) for name in ("test", "judged"))
        and all(isinstance(method, str) for method in facts["methods"])
        and {*facts["methods"]} <= facts["made"].keys()
        and all(_says_how(made) for made in facts["made"].values())
        and {*facts["methods"], *facts["seconds"]} <= {"base", *METHODS}
        and all(isinstance(second, int | float) for part in seconds for second in part.values())
    )


def _says_how(made: Any) -> bool:
    return (
        isinstance(made, dict)
        and isinstance(made.get("hardware"), str)
        and isinstance(made.get("versions"), dict)
    )


def read_result(results: Path, cell: Cell) -> Result | None:
    """Read all files of a cell; None if the cell is not done."""
    facts = read_facts(results, cell)
    if facts is None:
        return None
    path, fitted = cell.file(results, ".npz"), cell.file(results, ".safetensors")
    arrays = _read_arrays(path) if path.exists() else {}
    for method in FILES_NEEDED[".npz"] & set(facts["methods"]):
        if not any(name.startswith(method) for name in arrays):
            raise _damaged(path)
    try:
        filter = OutputFilter.load(fitted) if fitted.exists() else None
    except UnlabelError as error:
        raise _damaged(fitted) from error
    return Result(replace(cell, removed=tuple(facts["removed"])), facts, arrays, filter)


def _write_arrays(path: Path, arrays: dict[str, Array]) -> None:
    """Write an LZMA-compressed npz that `numpy.load` reads, with the same bytes every time."""
    with (
        whole_file(path) as part,
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
    # Everything that was made from a base model is deleted with it.
    whole = path.parent if path.stem == BASE else path.with_suffix(".*")
    state = "damaged" if path.exists() else "missing"
    return UnlabelError(f"{path} is {state}: delete {whole} and run research run again.")
