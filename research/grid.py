"""The cells of the benchmark: a set, an architecture, a seed and the removed labels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from research.registry import Labels
from unlabel import UnlabelError

BASE = "F0"


@dataclass(frozen=True, order=True)
class Cell:
    """One model of the benchmark and the labels to remove from it.

    The forget set `F0` stands for the base model; `F1` and so on remove labels, ascending, which
    come from the study or, with a stored result, from its JSON file.

    Examples
    --------
    >>> cell = Cell("cifar10", "resnet18", 0, "F2", removed=(0, 4))
    >>> print(cell)
    cifar10/resnet18/s0/F2
    """

    set: str
    architecture: str
    seed: int
    forget: str
    removed: Labels = field(default=(), compare=False)

    @property
    def base(self) -> Cell:
        """The cell of the model that still has all labels."""
        return Cell(self.set, self.architecture, self.seed, BASE)

    def __str__(self) -> str:
        return f"{self.set}/{self.architecture}/s{self.seed}/{self.forget}"

    def file(self, results: Path, ending: str) -> Path:
        """Return the path of the cell's file with an ending such as ``.json``."""
        return results / f"{self}{ending}"

    def weights(self, results: Path) -> Path:
        """Return the path of the base model's weights, which a resumed run needs."""
        return results / "weights" / f"{self.set}-{self.architecture}-s{self.seed}.safetensors"


def cell_of(path: Path) -> Cell | None:
    """Find the cell that a result file belongs to from the last four parts of its path.

    The file itself has the removed labels.

    Examples
    --------
    >>> print(cell_of(Path("results/cifar10/resnet18/s0/F2.json")))
    cifar10/resnet18/s0/F2
    """
    found = re.search(r"([^/]+)/([^/]+)/s(\d+)/(F\d+)$", path.with_suffix("").as_posix())
    return Cell(found[1], found[2], int(found[3]), found[4]) if found else None


def select(cells: Iterable[Cell], only: Sequence[str]) -> list[Cell]:
    """Select the cells that match any of the names, or all cells if there are no names.

    A name consists of parts of a cell's own name, joined by slashes.

    Examples
    --------
    >>> cells = [Cell("cifar10", "resnet18", seed, f) for seed in (0, 1) for f in ("F1", "F2")]
    >>> [str(cell) for cell in select(cells, ["cifar10/resnet18/F2"])]
    ['cifar10/resnet18/s0/F2', 'cifar10/resnet18/s1/F2']
    """
    parts = {cell: {*str(cell).split("/")} for cell in cells}
    found = set() if only else {*parts}
    for name in only:
        matching = {cell for cell in parts if {*name.strip("/").split("/")} <= parts[cell]}
        if not matching:
            models = dict.fromkeys(f"{cell.set}/{cell.architecture}" for cell in parts)
            rest = sorted({part for cell in parts for part in (cell.forget, f"s{cell.seed}")})
            raise UnlabelError(
                f"No cell matches {name!r}: choose from {', '.join(models)}, optionally followed "
                f"by {', '.join(rest)}."
            )
        found |= matching
    return [cell for cell in parts if cell in found]
