"""The metrics of each table: their headings, and how their values are ranked and written."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

from research.tables.intervals import DRAWS
from research.tables.judge import GRID_TOLERANCE
from research.tables.orders import ORDERS
from research.tables.writing import percent, ratio, score, signed, tiny
from unlabel import metrics

# Which value is best.
Best = Literal["low", "high", "half", "none"]


class Metric(NamedTuple):
    """A metric: its name, its heading, which value is best, and how values are written."""

    name: str
    text: str
    best: Best
    write: Callable[[float], str] = score
    retrained_competes: bool = False


class Kind(NamedTuple):
    """A table for each network: what it is called, what it says and its metrics."""

    name: str
    title: str
    about: str
    metrics: tuple[Metric, ...]


def seconds(value: float) -> str:
    """Write seconds with three digits, down to a tenth of a millisecond.

    Examples
    --------
    >>> seconds(35.123), seconds(0.00412), seconds(0.0000012)
    ('35.1', '.0041', '<.0001')
    """
    if value < 0.1:
        return score(value)
    return f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}".removeprefix("0")


def _on_both_inputs(
    name: str, text: str, on_removed: Best = "low", write: Callable[[float], str] = score
) -> tuple[Metric, Metric]:
    """Make the two metrics of a divergence; on inputs of retained labels, lower is better."""
    arrow = "↓" if on_removed == "low" else "↑"
    return (
        Metric(f"{name}_R", f"{text} ↓, inputs of retained labels", "low", write),
        Metric(f"{name}_F", f"{text} {arrow}, inputs of removed labels", on_removed, write),
    )


KINDS = (
    Kind(
        "accuracy",
        "Accuracy",
        "The share of a label's inputs that are predicted as that label: A_R is the mean over "
        "retained labels, A_F over removed ones. A_F is 0 by construction if the output has no "
        "removed entries.",
        (
            Metric("A_R", "A_R ↑", "high", retrained_competes=True),
            Metric("A_F", "A_F ↓", "low", retrained_competes=True),
        ),
    ),
    Kind(
        "intervals",
        "Intervals of differences in A_R",
        "A_R of OSR less that of another method on the same stored test rows, and its 95% interval "
        "by a paired bootstrap over these rows: rows are drawn anew within each label, since A_R "
        "is a mean over labels and a test set has so many rows of each by design; the interval is "
        f"from the 2.5% to the 97.5% quantile of {DRAWS:,} draws. It says how much rests on which "
        "images were tested. Over several seeds, OSR's gain on a row is averaged before rows are "
        "drawn; a retrained model whose seed has no OSR is compared with OSR of the first seed. "
        "± is half the range over seeds, which says how much rests on the "
        "training: neither contains the other. Differences of the values over all "
        "test images can be others. Intervals that exclude 0 are bold.",
        (Metric("A_R_less", "A_R of OSR less that of", "none", signed),),
    ),
    Kind(
        "coverage",
        "Coverage",
        "The worst rank of the true label among a label's inputs, counted from 0, divided by the "
        "number of outputs; mean over labels. Over fewer inputs a worst case is lower. Infinite "
        "for labels that are no longer in the output. Ties, the share of inputs of retained labels "
        "where another entry equals that of the true label, flatter it; storing logits as "
        "multiples of 1/64 causes some. Logits that a matrix moves by its rounding alone, all less "
        f"than {GRID_TOLERANCE:g} off that grid, are put back on it, so that filters that equal "
        "mask have its ties.",
        (
            Metric("Cov_R", "Cov_R ↓", "low", retrained_competes=True),
            Metric("Cov_F", "Cov_F ↑", "high", retrained_competes=True),
            Metric("ties", "Ties", "none", percent),
        ),
    ),
    Kind(
        "kl_retrained",
        "KL to the retrained model",
        "KL(method ‖ retrained model), in nats, mean over inputs. The seed floor is the KL of a "
        "second model, retrained with another seed; the paper has none. An output with entries for "
        "removed labels is compared in two forms: on its retained entries, divided by their sum, "
        "and on all entries, as in the paper, where the retrained model has 0 for removed labels, "
        f"which counts as {metrics.EPSILON:g} in the logarithm. The first form says nothing about "
        "what is left on removed labels, so it flatters a method where that does not forget.",
        _on_both_inputs("KL_retrained", "KL"),
    ),
    Kind(
        "kl_base",
        "KL to the base model",
        "KL(method ‖ base model), in nats, mean over inputs. The arrows are the paper's: outputs "
        "should change little on retained labels and much on removed ones. Removed entries that an "
        "output lacks count as 0. One that has them is compared in two forms: on its retained "
        "entries, divided by their sum, and on all entries. The paper has the second: it prints "
        ".0187 for UNSIR with ViT-B/16 and F1 on inputs of removed labels, and eight such values "
        "below OSR's, where no output without removed entries can be below mask. The first "
        "flatters a method where that does not forget. KL(base model ‖ method) would be infinite.",
        _on_both_inputs("KL_base", "KL", on_removed="high"),
    ),
    Kind(
        "beside",
        "Metrics that the paper does not have",
        "Jensen-Shannon divergence from the retrained model over retained entries, in nats, from 0 "
        "to .6931, and the same divided by its seed floor: 1 is as close as two retrainings are to "
        "each other. Log-loss and expected calibration error (15 bins) on inputs of retained "
        "labels. Attack AUC: how well a logistic regression on the outputs tells inputs of removed "
        "labels from others, .5 being not at all; compare it with the retrained model's.",
        (
            *_on_both_inputs("JS_retrained", "JS"),
            *_on_both_inputs("JS_over_floor", "JS over floor", write=ratio),
            Metric("log_loss", "Log-loss ↓", "low", retrained_competes=True),
            Metric("ECE", "Calibration error ↓", "low", retrained_competes=True),
            Metric("attack_auc", "Attack AUC, nearest .5", "half"),
        ),
    ),
    Kind(
        "orders",
        "Orders of removal",
        "OSR removes labels one after another, so its output depends on their order. Filters are "
        "fitted on one half of each label's stored test rows, in "
        f"{ORDERS} random orders, and judged on the other half: the mean Jensen-Shannon divergence "
        "between the outputs of two orders, and between OSR and mask. One label has no order.",
        (
            Metric("JS_orders_R", "JS, inputs of retained labels", "none", tiny),
            Metric("JS_orders_F", "JS, inputs of removed labels", "none", tiny),
        ),
    ),
    Kind(
        "time",
        "Processing time",
        "Wall-clock seconds per component, with the device synchronised. Only totals compete.",
        (Metric("seconds", "Seconds ↓", "low", seconds, retrained_competes=True),),
    ),
)
