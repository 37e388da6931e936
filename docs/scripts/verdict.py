"""Writes the table of the paper's claims and what became of them, from the committed results.

PYTHONPATH=. python docs/scripts/verdict.py
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

import kl_forms
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
CIFAR10, CIFAR100, OF_100, VIT = slice(0, 2), slice(2, 4), slice(2, 6), 5
SIZES = {"cifar10": 10, "cifar100": 100, "faces": 100}
CELLS = len(NETWORKS) * len(FORGET)
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


def nearest(kind: str) -> int:
    """Count the cells where the KL of the paper's OSR to retraining is the lowest of the three."""
    others = [printed(method, f"KL_retrained_{kind}", ALL_ENTRIES) for method in kl_forms.OTHERS]
    return int((printed("osr", f"KL_retrained_{kind}") < np.minimum(*others)).sum())


def count(chosen: npt.NDArray[np.bool_]) -> str:
    """Write in how many of all cells something holds."""
    return f"{chosen.sum()} of {CELLS}"


def times(source: Source, method: str) -> int:
    """Return how many times OSR's seconds another method takes at least, without MobileNetV2."""
    seconds, ours = (source(name, "seconds", "total") for name in (method, "osr"))
    trusted = [architecture != "mobilenet_v2" for _, architecture in NETWORKS]
    return int((seconds / ours)[trusted].min())


def excluding_0(gathered: Gathered, method: str) -> tuple[int, int]:
    """Count the intervals of OSR less a method that are above 0, and below."""
    spreads = [
        gathered.spreads[Key(*network, method, "", "A_R_less", forget)]
        for network in NETWORKS
        for forget in FORGET
    ]
    found = [spread.mean > 0 for spread in spreads if spread.excludes_0]
    return sum(found), len(found) - sum(found)


def left(source: Source) -> str:
    """Write how far UNSIR is from forgetting."""
    a_f = source("unsir", "A_F")
    return (
        f"A_F above 0 in {count(a_f > 0)}, to {short(a_f.max())}, on CIFAR-100 to "
        f"{short(a_f[CIFAR100].max())}"
    )


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
    ranges = (between(values[chosen], digits) for chosen in (CIFAR10, OF_100))
    return "CIFAR-10 {}, 100 labels {}".format(*ranges)


def pairs(accuracies: list[float]) -> str:
    """Write the values of the two networks of each set."""
    return "CIFAR-10 {} {}, CIFAR-100 {} {}, faces {} {}".format(*map(short, accuracies))


def signed(values: Values) -> str:
    """Write the least and the largest difference."""
    edges = (values.min(), values.max())
    return " to ".join(
        ("\N{MINUS SIGN}" if edge < 0 else "+") + short(abs(edge), 3) for edge in edges
    )


def on_accuracy(gathered: Gathered) -> list[Claim]:
    """Return the claims on A_R and A_F."""
    ours = source_of(gathered)
    above, below = excluding_0(gathered, "retrain")
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
            f"below in {count(lead < 0)}, interval below 0 in {below}",
            f"below in {count(their_lead < 0)}",
        ),
        (
            "OSR's A_R is above retraining's",
            IN_PART,
            f"above in {count(lead > 0)}, interval above 0 in {above}; {signed(lead)}",
            f"above in {count(their_lead > 0)}; {signed(their_lead)}",
        ),
        (
            "OSR's A_F is 0",
            YES,
            f"{ours('osr', 'A_F').max():g}, by construction",
            f"{printed('osr', 'A_F').max():g}",
        ),
    ]


def on_distances(gathered: Gathered, results: Path) -> list[Claim]:
    """Return the claims on KL and coverage."""
    both = source_of(gathered), printed
    counts = kl_forms.nearest(results, NETWORKS)
    retained, removed = (
        [found for way, found in counts.items() if way.kind == kind] for kind in "RF"
    )
    return [
        (
            "[KL to retraining](../research/tables/kl.md): OSR's is the lowest",
            IN_PART,
            f"retained inputs: {min(retained)} to {max(retained)} of {CELLS}; removed: "
            f"{min(removed)} to {max(removed)}, by form and \N{GREEK SMALL LETTER EPSILON}",
            f"retained inputs: {nearest('R')} of {CELLS}; removed: {nearest('F')}",
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
                f"better in {count(s('osr', 'Cov_R') < s('retrain', 'Cov_R'))}; "
                f"{between(s('osr', 'Cov_R')[MANY])} with 20 or more of 100 labels removed"
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
            "[OSR takes less time](../research/tables/time.md) than retraining "
            "(MobileNetV2 left out)",
            YES,
            *(f"at least {times(s, 'retrain')} times less" for s in (ours, printed)),
        ),
        (
            "[UNSIR](../research/unsir.md) has less A_R than OSR, and forgets less",
            IN_PART,
            f"less A_R in {count(less(ours, 'unsir') > 0)}, interval above 0 in "
            f"{excluding_0(gathered, 'unsir')[0]}; {left(ours)}",
            f"less A_R in {count(less(printed, 'unsir') > 0)}; {left(printed)}",
        ),
        (
            "NHLE-CWM has less A_R than OSR, and fails with ViT-B/16",
            OPEN,
            f"less A_R in {count(less(ours, 'nhle_cwm') > 0)}, interval above 0 in "
            f"{excluding_0(gathered, 'nhle_cwm')[0]}; ViT-B/16 at most "
            f"{short(less(ours, 'nhle_cwm')[VIT].max(), 3)} less",
            f"less A_R in {count(less(printed, 'nhle_cwm') > 0)}; ViT-B/16 up to "
            f"{short(less(printed, 'nhle_cwm')[VIT].max())} less",
        ),
        (
            "[Privacy](../research/attack.md) is better",
            NO,
            f"CIFAR-10: AUC {between(auc)}, retrained {between(retrained_auc)}",
            "not measured",
        ),
        (
            "Not in the paper: [mask](../concepts/how-it-works.md) is as good",
            "",
            f"the same A_R in {count(less(ours, 'mask') == 0)}",
            "",
        ),
    ]


def table(gathered: Gathered, results: Path) -> str:
    """Write the claims as Markdown."""
    claims = on_accuracy(gathered) + on_distances(gathered, results) + on_others(gathered)
    lines = ["| The paper's claim | Reproduced? | Ours | The paper's |", "|---|---|---|---|"]
    return "\n".join(lines + [f"| {' | '.join(claim)} |" for claim in claims]) + "\n"


if __name__ == "__main__":
    text = table(reproduced.gathered(reproduced.RESULTS), reproduced.RESULTS)
    FILE.write_text(text, encoding="utf-8")
