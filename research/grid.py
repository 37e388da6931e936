"""The cells of the benchmark: a set, an architecture, a seed and the removed labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from unlabel import UnlabelError

Labels = tuple[int, ...]
T = TypeVar("T")

_TEN_LABELS: tuple[Labels, ...] = ((), (0,), (0, 4), (0, 4, 7, 9), (0, 2, 3, 4, 6, 7, 9))
_HUNDRED_LABELS: tuple[Labels, ...] = tuple(tuple(range(n)) for n in (0, 1, 20, 40, 60))
FORGET_SETS = {
    "cifar10": _TEN_LABELS,
    "cifar100": _HUNDRED_LABELS,
    "faces": _HUNDRED_LABELS,
    "digits": _TEN_LABELS,
}
BASE = "F0"


@dataclass(frozen=True, order=True)
class Cell:
    """One model of the benchmark and the labels to remove from it.

    The forget set `F0` stands for the base model; `F1` to `F4` remove labels.

    Examples
    --------
    >>> cell = Cell("cifar10", "resnet18", 0, "F2")
    >>> cell.removed
    (0, 4)
    >>> print(cell)
    cifar10/resnet18/s0/F2
    """

    set: str
    architecture: str
    seed: int
    forget: str

    @property
    def removed(self) -> Labels:
        """The removed labels, ascending."""
        return FORGET_SETS[self.set][int(self.forget[1:])]

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

    Examples
    --------
    >>> cell_of(Path("results/cifar10/resnet18/s0/F2.json"))
    Cell(set='cifar10', architecture='resnet18', seed=0, forget='F2')
    """
    *_, name, architecture, seed, forget = ("", "", "", "", *path.with_suffix("").parts)
    known = [f"F{number}" for number in range(len(FORGET_SETS.get(name, ())))]
    if forget not in known or not (seed[:1] == "s" and seed[1:].isdecimal()):
        return None
    return Cell(name, architecture, int(seed[1:]), forget)


def choose(options: Mapping[str, T], name: str, kind: str) -> T:
    """Return an option by its name.

    Examples
    --------
    >>> choose({"paper": 1, "quick": 2}, "quick", "suite")
    2
    """
    if name not in options:
        raise UnlabelError(f"There is no {kind} {name!r}: choose from {', '.join(options)}.")
    return options[name]


def select(cells: Iterable[Cell], only: Sequence[str]) -> list[Cell]:
    """Select the cells that match any of the names, or all cells if there are no names.

    A name consists of parts of a cell's own name, joined by slashes.

    Examples
    --------
    >>> cells = [Cell("cifar10", "resnet18", seed, f) for seed in (0, 1) for f in ("F1", "F2")]
    >>> [str(cell) for cell in select(cells, ["cifar10/resnet18/F2"])]
    ['cifar10/resnet18/s0/F2', 'cifar10/resnet18/s1/F2']
    """
    all_cells = list(cells)
    wanted = [frozenset(name.strip("/").split("/")) for name in only]
    parts = {cell: frozenset(str(cell).split("/")) for cell in all_cells}
    for name, wanted_parts in zip(only, wanted, strict=True):
        if not any(wanted_parts <= cell_parts for cell_parts in parts.values()):
            models = dict.fromkeys(f"{cell.set}/{cell.architecture}" for cell in all_cells)
            rest = sorted({part for cell in all_cells for part in (cell.forget, f"s{cell.seed}")})
            raise UnlabelError(
                f"No cell matches {name!r}: choose from {', '.join(models)}, optionally followed "
                f"by {', '.join(rest)}."
            )
    if not only:
        return all_cells
    return [cell for cell in all_cells if any(these <= parts[cell] for these in wanted)]
