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
from unlabel import OutputFilter, UnlabelError

Facts = dict[str, Any]

PROTOCOL = 1
GRID = 64  # logits are stored as multiples of one 64th
KEYS = {"classes", "config", "failed", "full_precision", "made", "methods", "removed", "rows"}
KEYS |= {"protocol", "seconds"}


@dataclass(frozen=True, eq=False)
class Result:
    """The stored result of a cell.

    Attributes
    ----------
    cell : Cell
    facts : dict
        The content of the JSON file: methods, config, seconds, how each was made and so on.
    arrays : dict of arrays
        `labels` and `base` of a base model; else logits in float16, by the name of the method, and
        matrices in float32, by which the base model's logits are multiplied.
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
    where.parent.mkdir(parents=True, exist_ok=True)
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
    facts |= {"arrays": sorted(result.arrays), "filter": result.filter is not None}
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
    if isinstance(facts, dict) and facts.keys() >= KEYS and facts["protocol"] == PROTOCOL:
        return facts
    raise _damaged(path)


def read_result(results: Path, cell: Cell) -> Result | None:
    """Read all files of a cell; None if the cell is not done."""
    facts = read_facts(results, cell)
    if facts is None:
        return None
    path, fitted = cell.file(results, ".npz"), cell.file(results, ".safetensors")
    arrays = _read_arrays(path) if path.exists() else {}
    try:
        filter = OutputFilter.load(fitted) if fitted.exists() else None
    except UnlabelError as error:
        raise _damaged(fitted) from error
    # The files of older results do not say what there is beside them.
    if not arrays.keys() >= {*facts.get("arrays", ())}:
        raise _damaged(path)
    if facts.get("filter") and filter is None:
        raise _damaged(fitted)
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
