"""What the page "How it works" shows and quotes, measured on the outputs of the package.

The filters are the library's own; only residuals and positions in the figures are found here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from research import letter
from unlabel import LabelPlan, OutputFilter
from unlabel.evaluation.samples import RealOutputs, load_cifar10

Rows = npt.NDArray[np.float64]
Point = tuple[float, float]

RHO, TIMES, MINUS = "\N{GREEK SMALL LETTER RHO}", "\N{MULTIPLICATION SIGN}", "\N{MINUS SIGN}"


def projector_row(mean: Rows, column: int) -> Rows:
    """Return a row of the projector onto what is orthogonal to a mean."""
    row: Rows = -mean[column] / (mean @ mean) * mean
    others = np.delete(mean, column)
    row[column] = others @ others / (mean @ mean)
    return row


# The triangle ------------------------------------------------------------------------------

TRIANGLE = ("cat", "bird", "dog")  # three labels that this network confuses
GONE = 0  # cat is the one to be removed
CORNERS = np.array([[0.5, 0.75**0.5], [0.0, 0.0], [1.0, 0.0]])
HIGHLIGHTED = {"A": 9967, "B": 9753}  # a row with a residual, and one without
AMBIGUOUS = 0.9  # rows whose largest entry is below this are all drawn
EVERY = 25  # one in so many of the others is


@dataclass(frozen=True)
class Removal:
    """Rows of some labels, the filters that remove labels, and what they give."""

    rows: Rows
    labels: npt.NDArray[np.str_]
    osr: OutputFilter
    mask: OutputFilter

    @classmethod
    def of(
        cls,
        rows: Rows,
        labels: npt.NDArray[np.str_],
        classes: tuple[str, ...],
        remove: tuple[str, ...],
    ) -> Removal:
        """Fit both methods on rows and their true labels."""
        osr = OutputFilter.fit(rows, labels, classes=classes, remove=remove)
        mask = OutputFilter.from_plan(LabelPlan(remove), classes=classes)
        return cls(rows, labels, osr, mask)

    @cached_property
    def residual(self) -> Rows:
        """The first removed label's entry of each projected row, before it is clipped."""
        column = self.osr.classes_in.index(self.osr.removed[0])
        return np.asarray(self.rows @ projector_row(self.osr.means[0], column))

    @cached_property
    def after(self) -> dict[str, Rows]:
        """What each method gives."""
        return {
            name: np.asarray(method.apply(self.rows), dtype=np.float64)
            for name, method in (("osr", self.osr), ("mask", self.mask))
        }

    @property
    def difference(self) -> Rows:
        """The largest difference between the two methods, row by row."""
        return np.asarray(np.abs(self.after["osr"] - self.after["mask"]).max(axis=1))


@dataclass(frozen=True)
class Triangle(Removal):
    """The removal of one label of three, and which rows are drawn."""

    numbers: npt.NDArray[np.intp]  # of the rows, among the shipped ones

    @cached_property
    def mean(self) -> Rows:
        """The mean of the removed label's rows."""
        return np.asarray(self.osr.means[0])

    @cached_property
    def projector(self) -> Rows:
        """The whole projector, which the library never builds."""
        return np.vstack([projector_row(self.mean, column) for column in range(3)])

    @cached_property
    def drawn(self) -> npt.NDArray[np.bool_]:
        """The rows that are drawn: all ambiguous ones, and a few of the others."""
        ambiguous = self.rows.max(axis=1) < AMBIGUOUS
        others = np.flatnonzero(~ambiguous)[::EVERY]
        drawn = ambiguous | np.isin(np.arange(len(self.rows)), others)
        return np.asarray(drawn | np.isin(self.numbers, list(HIGHLIGHTED.values())))

    @cached_property
    def frontier(self) -> Rows:
        """The ends of the line on which the residual is 0, on the two sides of the triangle."""
        weights = projector_row(self.mean, GONE)
        ends = np.zeros((2, 3))
        for end, other in zip(ends, (1, 2), strict=True):
            end[GONE] = weights[other] / (weights[other] - weights[GONE])
            end[other] = 1 - end[GONE]
        return ends

    def at(self, name: str) -> int:
        """Where a highlighted row is among the triangle's rows."""
        return int(np.flatnonzero(self.numbers == HIGHLIGHTED[name])[0])

    def position(self, vectors: Rows) -> Rows:
        """Where vectors over the three labels lie on the page."""
        return np.asarray(vectors @ CORNERS)

    def side(self, vectors: Rows) -> Rows:
        """The same vectors from the side: along the mean's other entries, and upwards.

        Seen like this the space orthogonal to the mean is a line, and its right angle right.
        """
        along = self.mean.copy()
        along[GONE] = 0.0
        return np.stack([vectors @ along / np.linalg.norm(along), vectors[..., GONE]], axis=-1)

    def edge(self, method: str) -> Rows:
        """Where a method lands the rows on the edge: 0 at the second label, 1 at the third."""
        return self.after[method][:, 1]

    @cached_property
    def share(self) -> float:
        """Where the share lies on that edge."""
        return float(self.osr.shares[0, 2] / self.osr.shares[0].sum())


@cache
def outputs() -> RealOutputs:
    """Return the shipped outputs."""
    return load_cifar10()


@cache
def confidences() -> Rows:
    """Return the network's confidences, in double precision."""
    return np.asarray(softmax(outputs().base.astype(np.float64), axis=1))


@cache
def triangle() -> Triangle:
    """Restrict the network to three labels, and remove one of them."""
    real = outputs()
    numbers = np.flatnonzero(np.isin(real.labels, TRIANGLE))
    # Restricting a network to some labels is itself a mask.
    logits = real.base[numbers].astype(np.float64)
    others = LabelPlan([label for label in real.classes if label not in TRIANGLE])
    kept = OutputFilter.from_plan(others, classes=real.classes, kind="logits")
    rows = kept.apply(logits)
    order = [kept.classes_out.index(label) for label in TRIANGLE]
    rows, labels = np.asarray(rows, dtype=np.float64)[:, order], real.labels[numbers]
    removal = Removal.of(rows, labels, TRIANGLE, TRIANGLE[:1])
    return Triangle(rows, labels, removal.osr, removal.mask, numbers)


# The chain ---------------------------------------------------------------------------------

CHAIN = ("bird", "deer", "cat")
TRAVELLER = 2033  # a bird that the network takes for a deer almost as readily


@dataclass(frozen=True)
class Step:
    """One removal of the chain: what it finds, what it leaves. Vectors are over all labels."""

    removed: str
    before: Rows
    after: Rows
    u: float
    residual: float

    @property
    def rho(self) -> float:
        """The residual, clipped."""
        return float(np.clip(self.residual, 0.0, 1.0))

    @property
    def gains(self) -> dict[str, float]:
        """What each label that remains got, the largest first."""
        gain = dict(zip(outputs().classes, (self.after - self.before).tolist(), strict=True))
        del gain[self.removed]
        return dict(sorted(gain.items(), key=lambda item: -item[1]))


@cache
def chain() -> tuple[Step, ...]:
    """Take one row through the chain, step by step."""
    real = outputs()
    vector = confidences()[TRAVELLER]
    steps = []
    for length, label in enumerate(CHAIN, start=1):
        remove = CHAIN[:length]
        fitted = OutputFilter.fit(confidences(), real.labels, classes=real.classes, remove=remove)
        column = real.classes.index(label)
        after = np.zeros(len(real.classes))
        after[np.isin(real.classes, fitted.classes_out)] = fitted.apply(confidences()[[TRAVELLER]])[
            0
        ]
        residual = vector @ projector_row(fitted.means[-1], column)
        steps.append(Step(label, vector, after, float(vector[column]), float(residual)))
        vector = after
    return tuple(steps)


# The numbers -------------------------------------------------------------------------------


def removal_numbers(one: Removal) -> dict[str, Any]:
    """How often the removal of one label leaves a residual, and how far OSR is from mask."""
    column = one.osr.classes_in.index(one.osr.removed[0])
    positive, own = one.residual > 0, one.labels == one.osr.removed[0]
    return {
        "with_residual": float(positive.mean()),
        "with_residual_own": float(positive[own].mean()),
        "with_residual_others": float(positive[~own].mean()),
        "largest_possible_rho": float(projector_row(one.osr.means[0], column)[column]),
        "largest_difference": float(one.difference.max()),
    }


def triangle_numbers() -> dict[str, Any]:
    """What the four triangles show."""
    seen = triangle()
    highlighted = {
        name: {
            "row": number,
            "true_label": str(seen.labels[seen.at(name)]),
            "x": seen.rows[seen.at(name)].tolist(),
            "residual": float(seen.residual[seen.at(name)]),
            "mask": seen.after["mask"][seen.at(name)].tolist(),
            "osr": seen.after["osr"][seen.at(name)].tolist(),
        }
        for name, number in HIGHLIGHTED.items()
    }
    return removal_numbers(seen) | {
        "labels": list(TRIANGLE),
        "rows": len(seen.rows),
        "drawn": int(seen.drawn.sum()),
        "reference_rows": seen.osr.counts[0],
        "mean": seen.mean.tolist(),
        "share": seen.osr.shares[0].tolist(),
        "highlighted": highlighted,
    }


def ten_label_numbers() -> dict[str, Any]:
    """The same for each of the ten labels, removed alone."""
    real = outputs()
    return {
        label: removal_numbers(Removal.of(confidences(), real.labels, real.classes, (label,)))
        for label in real.classes
    }


def forget_set_numbers() -> dict[str, Any]:
    """OSR beside mask and beside the published letter, for the four shipped sets of labels."""
    real, result = outputs(), {}
    for name, removal in real.removals.items():
        both = Removal.of(confidences(), real.labels, real.classes, removal.removed)
        truth = np.array([real.classes.index(label) for label in real.labels.tolist()])
        columns = [real.classes.index(label) for label in removal.removed]
        by_letter = letter.remove(confidences(), truth, columns)
        changed = both.after["osr"].argmax(axis=1) != both.after["mask"].argmax(axis=1)
        sums, retained = by_letter.sum(axis=1), ~np.isin(real.labels, removal.removed)
        result[name] = {
            "removed": list(removal.removed),
            "largest_difference": float(both.difference.max()),
            "top_labels_that_differ": int(changed.sum()),
            "top_labels_that_differ_retained": int(changed[retained].sum()),
            "letter_sums": [float(sums.min()), float(sums.max())],
            "letter_rows_with_negatives": float((by_letter.min(axis=1) < 0).mean()),
            "letter_largest_entry": float(np.abs(by_letter).max()),
        }
    return result


def edge_case_numbers() -> dict[str, Any]:
    """How often the corner cases come up."""
    single = softmax(outputs().base, axis=1)
    rounded = np.round(confidences(), 4)
    certain = single.max(axis=1) == 1
    others = np.sort(single, axis=1)[:, :-1].sum(axis=1)
    cat = outputs().classes.index("cat")
    bare = (rounded[:, cat] > 0) & (np.delete(rounded, cat, axis=1).sum(axis=1) == 0)
    return {
        "rows": len(single),
        "certain_in_single_precision": int((certain & (others > 0)).sum()),
        "all_on_cat_at_four_decimals": int(bare.sum()),
    }


def chain_numbers() -> dict[str, Any]:
    """What happens to the row in the chain."""
    return {
        "row": TRAVELLER,
        "true_label": str(outputs().labels[TRAVELLER]),
        "labels": list(outputs().classes),
        "before": chain()[0].before.tolist(),
        "steps": [
            {
                "removed": step.removed,
                "u": step.u,
                "residual": step.residual,
                "rho": step.rho,
                "gains": step.gains,
                "after": step.after.tolist(),
            }
            for step in chain()
        ],
    }


def numbers() -> dict[str, Any]:
    """Everything that the page quotes, and the phrases it does so in."""
    result = {
        "drawn_with": f"matplotlib {mpl.__version__}",
        "triangle": triangle_numbers(),
        "ten_labels": ten_label_numbers(),
        "forget_sets": forget_set_numbers(),
        "edge_cases": edge_case_numbers(),
        "chain": chain_numbers(),
    }
    return result | {"quoted": phrases(result)}


def phrases(found: dict[str, Any]) -> dict[str, str]:
    """The numbers in the words of the page."""
    three, ten, sets = found["triangle"], found["ten_labels"].values(), found["forget_sets"]
    cases, steps = found["edge_cases"], found["chain"]["steps"]
    one, four, seven = (sets[name] for name in ("F1", "F3", "F4"))
    a, b = three["highlighted"]["A"], three["highlighted"]["B"]
    of_three, of_ten = f"of the {three['rows']:,} rows", f"of the {cases['rows']:,} rows"
    least, most = (f"{of(t['with_residual'] for t in ten):.1%}" for of in (min, max))
    tops = [each["top_labels_that_differ"] for each in (one, seven)]
    among_retained = sum(each["top_labels_that_differ_retained"] for each in sets.values())
    return {
        "drawn": f"{three['drawn']} {of_three}",
        "ambiguous": f"largest entry below {AMBIGUOUS}), and every {EVERY}th of the others",
        "mean": "c = ({:.3f}, {:.3f}, {:.3f})".format(*three["mean"]),
        "a": f"{RHO} = {a['residual']:.4f}",
        "b": f"{b['residual']:.4f}".replace("-", MINUS),
        "a_lands": f"{a['mask'][1]:.4f} with mask and {a['osr'][1]:.4f} with OSR",
        "with_residual": f"{three['with_residual']:.1%} {of_three}",
        "with_residual_own": f"{three['with_residual_own']:.1%} of the cats",
        "with_residual_others": f"{three['with_residual_others']:.1%} of the birds and dogs",
        "largest_possible": f"above {_at_most(three['largest_possible_rho'])}",
        "largest_difference": f"by {_at_most(three['largest_difference'])} at most",
        "ten_labels": f"between {least} and {most} {of_ten}",
        "ten_largest": f"above {_at_most(max(t['largest_possible_rho'] for t in ten))}",
        "chain_u": "u = {:.3f}, {:.3f} and {:.3f}".format(*(step["u"] for step in steps)),
        "chain_rho": f"{RHO} = {steps[-1]['rho']:.4f}",
        "sums": "between {:.2f} and {:.2f}".format(*one["letter_sums"]),
        "other_sums": "between {:.0f} and {:.1f}".format(*four["letter_sums"]).replace("-", MINUS),
        "negatives": f"{one['letter_rows_with_negatives']:.0%} of the rows",
        "blow_up": f"as large as {four['letter_largest_entry']:.0f}",
        "certain": f"{cases['certain_in_single_precision']} {of_ten}",
        "bare": f"{cases['all_on_cat_at_four_decimals']} {of_ten}",
        "one_label": f"{one['largest_difference']:.4f} with airplane removed",
        "seven_labels": f"{seven['largest_difference']:.2f} with seven",
        "tops": f"{tops[0]} {of_ten} in the first case, and in {tops[1]} in the second",
        "tops_retained": "none of them" if among_retained == 0 else f"{among_retained} of them",
    }


def _at_most(bound: float) -> str:
    """A bound to four decimals, upwards: rounded down it would not hold."""
    return f"{np.ceil(bound * 1e4) / 1e4:.4f}"
