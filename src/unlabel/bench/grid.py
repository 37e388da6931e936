"""The cells of the benchmark: a set, an architecture, a seed and the labels that go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from unlabel.errors import UnlabelError

Labels = tuple[int, ...]

_OF_TEN: tuple[Labels, ...] = ((), (0,), (0, 4), (0, 4, 7, 9), (0, 2, 3, 4, 6, 7, 9))
_OF_A_HUNDRED: tuple[Labels, ...] = tuple(tuple(range(n)) for n in (0, 1, 20, 40, 60))
FORGET_SETS = {
    "cifar10": _OF_TEN,
    "cifar100": _OF_A_HUNDRED,
    "faces": _OF_A_HUNDRED,
    "digits": _OF_TEN,
}
BASE = "F0"


@dataclass(frozen=True, order=True)
class Cell:
    """One model of the benchmark and what is done with it.

    The forget set `F0` stands for the base model, `F1` to `F4` remove labels.

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
        """The labels that are removed, ascending."""
        return FORGET_SETS[self.set][int(self.forget[1:])]

    @property
    def base(self) -> Cell:
        """The cell of the model that still has all labels."""
        return Cell(self.set, self.architecture, self.seed, BASE)

    def __str__(self) -> str:
        return f"{self.set}/{self.architecture}/s{self.seed}/{self.forget}"

    def file(self, results: Path, ending: str) -> Path:
        """The cell's file of one kind, ``.json`` for instance."""
        return results / f"{self}{ending}"

    def weights(self, results: Path) -> Path:
        """The file of the base model's weights, which a resumed run needs."""
        return results / "weights" / f"{self.set}-{self.architecture}-s{self.seed}.safetensors"


def cell_of(path: Path) -> Cell | None:
    """The cell that a file under the results belongs to, by its path's last four parts.

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


def select(cells: Iterable[Cell], only: Sequence[str]) -> list[Cell]:
    """The cells that any of some names chooses, all of them where there are no names.

    A name is parts of a cell's own, joined by slashes.

    Examples
    --------
    >>> cells = [Cell("cifar10", "resnet18", seed, f) for seed in (0, 1) for f in ("F1", "F2")]
    >>> [str(cell) for cell in select(cells, ["cifar10/resnet18/F2"])]
    ['cifar10/resnet18/s0/F2', 'cifar10/resnet18/s1/F2']
    """
    every = list(cells)
    wanted = [frozenset(name.strip("/").split("/")) for name in only]
    parts = {cell: frozenset(str(cell).split("/")) for cell in every}
    for name, these in zip(only, wanted, strict=True):
        if not any(these <= of for of in parts.values()):
            models = dict.fromkeys(f"{cell.set}/{cell.architecture}" for cell in every)
            rest = sorted({part for cell in every for part in (cell.forget, f"s{cell.seed}")})
            raise UnlabelError(
                f"There is no cell {name!r}: choose among {', '.join(models)}, with "
                f"{', '.join(rest)} after it if need be."
            )
    if not only:
        return every
    return [cell for cell in every if any(these <= parts[cell] for these in wanted)]
