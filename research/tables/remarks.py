"""What the text above the tables counts in their values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from research.tables import names
from research.tables.intervals import Spread
from research.tables.judge import REVERSED
from research.tables.names import Network
from research.tables.published import Key, paper_values

Spreads = dict[Key, Spread]


def remarks(kind: str, spreads: Spreads) -> Iterator[str]:
    """Yield the sentences of a kind of table that depend on its values."""
    if kind == "intervals":
        in_paper = {key[:2] for key in paper_values()}
        for method in ("retrain", "mask"):
            found = [
                spread
                for key, spread in spreads.items()
                if key[2:5] == (method, "", "A_R_less") and key[:2] in in_paper
            ]
            above = sum(spread.excludes_0 and spread.mean > 0 for spread in found)
            below = sum(spread.excludes_0 and spread.mean < 0 for spread in found)
            yield (
                f"Of {len(found)} intervals of OSR less {names.method(method)} on the paper's "
                f"networks, {above + below} exclude 0: {above} are above it and {below} below."
            )
    if kind == "kl_retrained" and (counts := _nearer_reversed(spreads)):
        nearer, every = (sum(map(count, counts.values())) for count in (sum, len))
        each = "; ".join(
            f"{names.network(*network)} {sum(counts[network])} of {len(counts[network])}"
            for network in names.in_order(counts)
        )
        yield (
            "The direction, method first, is certain for the KL to the base model and open here: "
            f"both are finite, and by their ratio {nearer} of the paper's {every} values of OSR "
            "lie nearer the reverse, KL(retrained model ‖ OSR), which has rows of its own "
            f"({each}). Its networks are not ours, so this does not decide it."
        )


def _nearer_reversed(spreads: Spreads) -> dict[Network, list[bool]]:
    """Return for each value of the paper whether the reverse direction comes nearer to it."""
    found: dict[Network, list[bool]] = defaultdict(list)
    for key, reverse in spreads.items():
        ours = key._replace(component="")
        if key.component == REVERSED and (printed := paper_values().get(ours)):
            ratios = [each.mean / float(printed.lstrip("<")) for each in (spreads[ours], reverse)]
            apart = [max(ratio, 1 / ratio) for ratio in ratios]
            found[key.set, key.architecture].append(apart[1] < apart[0])
    return dict(found)
