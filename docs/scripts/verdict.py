"""Writes the table of the paper's claims and what became of them, from the committed results.

PYTHONPATH=. python docs/scripts/verdict.py
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

import reproduced
from research.grid import BASE
from research.tables.aggregate import Gathered
from research.tables.judge import ALL_ENTRIES
from research.tables.names import in_order
from research.tables.published import FORGET, Key, paper_values

Values = npt.NDArray[np.float64]
# Returns the values of a method and a metric, a line per network and a column per set of labels.
Source = Callable[..., Values]
# A claim, whether it was reproduced, our numbers and the paper's.
Claim = tuple[str, ...]

YES, IN_PART, NO, OPEN = "**yes**", "**in part**", "**no**", "**open**"
FILE = reproduced.DOCS / "tables" / "verdict.md"
NETWORKS = in_order({key[:2] for key in paper_values()})
CIFAR10, OF_100, VIT = slice(0, 2), slice(2, 6), 5
SIZES = {"cifar10": 10, "cifar100": 100, "faces": 100}
CELLS = len(NETWORKS) * len(FORGET)
TRAINED = ("unsir", "nhle_cwm")
MANY = (OF_100, slice(1, 4))  # 20 or more of 100 labels


def printed(method: str, metric: str, component: str = "") -> Values:
    """Return what the paper prints."""
    values = paper_values()
    return _by_network(lambda key: float(values[key].lstrip("<")), method, metric, component)


def source_of(gathered: Gathered) -> Source:
    """Return what reads our means over seeds."""

    def ours(method: str, metric: str, component: str = "") -> Values:
        mean = {key: spread.mean for key, spread in gathered.spreads.items()}
        return _by_network(mean.__getitem__, method, metric, component)

    return ours


def _by_network(read: Callable[[Key], float], method: str, metric: str, component: str) -> Values:
    return np.array(
        [
            [read(Key(*network, method, component, metric, forget)) for forget in FORGET]
            for network in NETWORKS
        ]
    )


def base_accuracies(gathered: Gathered) -> list[float]:
    """Return the base models' accuracies over all labels and all test images."""
    by_network: dict[tuple[str, str], list[float]] = {network: [] for network in NETWORKS}
    for cell, facts in gathered.facts.items():
        if cell.forget == BASE and (network := (cell.set, cell.architecture)) in by_network:
            by_network[network].append(facts["full_precision"]["base"]["A_R"])
    return [float(np.mean(found)) for found in by_network.values()]


def printed_base_accuracies() -> list[float]:
    """Return the same of the paper, from its values with one removed label."""
    one = 1 / np.array([SIZES[set] for set, _ in NETWORKS])
    kept, removed = printed("base", "A_R")[:, 0], printed("base", "A_F")[:, 0]
    return list((1 - one) * kept + one * removed)


def less(source: Source, method: str) -> Values:
    """Return A_R of OSR less that of a method."""
    return source("osr", "A_R") - source(method, "A_R")


def nearest(source: Source, kind: str) -> int:
    """Count the cells where OSR's KL to the retrained model is the lowest of the three."""
    others = [source(method, f"KL_retrained_{kind}", ALL_ENTRIES) for method in TRAINED]
    return int((source("osr", f"KL_retrained_{kind}") < np.minimum(*others)).sum())


def times(source: Source, method: str) -> int:
    """Return how many times OSR's seconds another method takes at least."""
    seconds, ours = (source(name, "seconds", "total") for name in (method, "osr"))
    return int((seconds / ours).min())


def apart(gathered: Gathered, method: str) -> tuple[int, int]:
    """Count the intervals of OSR less a method that are above 0, and below."""
    spreads = [
        gathered.spreads[Key(*network, method, "", "A_R_less", forget)]
        for network in NETWORKS
        for forget in FORGET
    ]
    found = [spread.mean > 0 for spread in spreads if spread.excludes_0]
    return sum(found), len(found) - sum(found)


def short(value: float, digits: int = 2) -> str:
    """Write a value without the zero before the point."""
    least = 10.0**-digits
    text = f"<{least:.{digits}f}" if 0 < value < least / 2 else f"{value:.{digits}f}"
    return text.replace("0.", ".", 1) if value < 1 else text


def between(values: Values, digits: int = 2) -> str:
    """Write the least and the largest value."""
    return f"{short(values.min(), digits)} to {short(values.max(), digits)}"


def sizes(values: Values, digits: int = 2) -> str:
    """Write the ranges on CIFAR-10 and on the sets of 100 labels."""
    return f"{between(values[CIFAR10], digits)}; {between(values[OF_100], digits)}"


def pairs(accuracies: list[float]) -> str:
    """Write the values of the two networks of each set."""
    texts = iter([short(value) for value in accuracies])
    return "; ".join(f"{first} {next(texts)}" for first in texts)


def signed(values: Values) -> str:
    """Write the least and the largest difference."""
    edges = (values.min(), values.max())
    return " to ".join(
        ("\N{MINUS SIGN}" if edge < 0 else "+") + short(abs(edge), 3) for edge in edges
    )


def on_accuracy(gathered: Gathered) -> list[Claim]:
    """Return the claims on A_R and A_F."""
    ours = source_of(gathered)
    above, below = apart(gathered, "retrain")
    lead, their_lead = (less(source, "retrain") for source in (ours, printed))
    return [
        (
            "[Base models](../research/tables/accuracy.md)' accuracy",
            IN_PART,
            *map(pairs, (base_accuracies(gathered), printed_base_accuracies())),
        ),
        (
            "[OSR keeps A_R](../research/tables/accuracy.md), not below retraining",
            YES,
            f"below in {below} of {CELLS}",
            f"below in {(their_lead < 0).sum()} of {CELLS}",
        ),
        (
            "OSR's A_R is above retraining's",
            IN_PART,
            f"in {above} of {CELLS}; {signed(lead)}",
            f"in {(their_lead > 0).sum()} of {CELLS}; {signed(their_lead)}",
        ),
        (
            "OSR's A_F is 0",
            YES,
            f"{ours('osr', 'A_F').max():g}, by construction",
            f"{printed('osr', 'A_F').max():g}",
        ),
    ]


def on_distances(gathered: Gathered) -> list[Claim]:
    """Return the claims on KL and coverage."""
    both = source_of(gathered), printed
    return [
        (
            "[KL to retraining](../research/tables/kl.md): OSR's is the lowest",
            YES,
            *(f"in {nearest(s, 'R')} of {CELLS}; removed: {nearest(s, 'F')}" for s in both),
        ),
        ("KL to retraining is small", IN_PART, *(sizes(s("osr", "KL_retrained_R")) for s in both)),
        (
            "[KL to the base model](../research/tables/kl.md) is small",
            NO,
            *(sizes(s("osr", "KL_base_R"), 3) for s in both),
        ),
        (
            "[Coverage](../research/tables/coverage.md) is better than retraining's",
            IN_PART,
            *(
                f"in {(s('osr', 'Cov_R') < s('retrain', 'Cov_R')).sum()} of {CELLS}; "
                f"{between(s('osr', 'Cov_R')[MANY])}"
                for s in both
            ),
        ),
    ]


def on_others(gathered: Gathered) -> list[Claim]:
    """Return the claims on time, on other methods and on privacy, and what the paper lacks."""
    ours = source_of(gathered)
    auc, retrained_auc = (ours(method, "attack_auc")[CIFAR10] for method in ("osr", "retrain"))
    return [
        (
            "[OSR takes less time](../research/tables/time.md) than retraining",
            YES,
            *(f"at least {times(s, 'retrain')} times less" for s in (ours, printed)),
        ),
        (
            "[UNSIR](../research/unsir.md) has less A_R than OSR, and forgets less",
            YES,
            f"in {apart(gathered, 'unsir')[0]} of {CELLS}; A_F to "
            f"{short(ours('unsir', 'A_F').max())}",
            f"in {(less(printed, 'unsir') > 0).sum()} of {CELLS}; A_F to "
            f"{printed('unsir', 'A_F').max():g}",
        ),
        (
            "NHLE-CWM has less A_R than OSR, and fails with ViT-B/16",
            OPEN,
            f"in {apart(gathered, 'nhle_cwm')[0]} of {CELLS}; ViT at most "
            f"{short(less(ours, 'nhle_cwm')[VIT].max(), 3)} less",
            f"in {(less(printed, 'nhle_cwm') > 0).sum()} of {CELLS}; ViT up to "
            f"{short(less(printed, 'nhle_cwm')[VIT].max())} less",
        ),
        (
            "[Privacy](../research/attack.md) is better",
            NO,
            f"AUC {between(auc)}, retrained {between(retrained_auc)}",
            "not measured",
        ),
        (
            "Not in the paper: [mask](../concepts/how-it-works.md) is as good",
            "",
            f"the same A_R in {(less(ours, 'mask') == 0).sum()} of {CELLS}",
            "",
        ),
    ]


def table(gathered: Gathered) -> str:
    """Write the claims as Markdown."""
    lines = ["| The paper's claim | Reproduced? | Ours | The paper's |", "|---|---|---|---|"]
    for part in (on_accuracy, on_distances, on_others):
        lines += [f"| {' | '.join(claim)} |" for claim in part(gathered)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    FILE.write_text(table(reproduced.gathered(reproduced.RESULTS)), encoding="utf-8")
