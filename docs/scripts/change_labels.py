"""Writes the tables of the guide "Change your labels", from two public data sets.

Banking77's `banking77_train.csv` and `banking77_test.csv` have the columns `text` and `category`;
the concordances of NAICS, `naics_2007_2012.csv` and `naics_2012_2017.csv`, one pair of codes per
row. Takes a few minutes.

    python docs/scripts/change_labels.py --texts FOLDER --taxonomies FOLDER
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline, make_pipeline

from unlabel import LabelPlan, OutputFilter

DOCS = Path(__file__).parents[1]
PLAN = DOCS / "guides" / "intents.toml"
BANKING77, NAICS = "banking77.md", "naics.md"
YEARS = "2007_2012", "2012_2017"

KINDS = (
    "unchanged",
    "renamed",
    "merged",
    "merged_into",
    "split",
    "removed",
    "result",
    "other_meaning",
)

Texts = Sequence[str]
Labels = npt.NDArray[np.str_]


def read_texts(path: Path) -> tuple[list[str], Labels]:
    """Read texts and their intents."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [*csv.DictReader(file)]
    return [row["text"] for row in rows], np.array([row["category"] for row in rows])


def train(texts: Texts, labels: Labels) -> Pipeline:
    """Train a classifier of texts."""
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    return make_pipeline(words, LogisticRegression(C=30, max_iter=1000)).fit(texts, labels)


def changed_truth(plan: LabelPlan, labels: Labels) -> Labels:
    """Return the new labels of rows, an empty text for those of a removed one."""
    return np.array([plan.changes.get(label, label) or "" for label in labels.tolist()])


def banking77(folder: Path) -> Iterator[str]:
    """Compare the changed classifier with one that is retrained on the new labels."""
    plan = LabelPlan.load(PLAN)
    texts, labels = read_texts(folder / "banking77_train.csv")
    test_texts, test_labels = read_texts(folder / "banking77_test.csv")
    texts, held_out, labels, held_out_labels = train_test_split(
        texts, labels, test_size=0.2, random_state=0, stratify=labels
    )
    base = train(texts, labels)
    new, new_test = changed_truth(plan, labels), changed_truth(plan, test_labels)
    stays = np.flatnonzero(new != "")
    retrained = train([texts[row] for row in stays], new[stays])

    def row(name: str, model: Pipeline, truth: Labels, plan: Any, calibrate: bool) -> str:
        """Fit a filter on the texts that were held out, and judge its result on the test's."""
        known = np.flatnonzero(truth != "")
        rows = model.predict_proba([held_out[i] for i in known])
        options = {"classes": model.classes_, "plan": plan, "calibrate": calibrate}
        fitted = OutputFilter.fit(rows, truth[known], **options)
        judged = np.flatnonzero(new_test != "")
        result = fitted.apply(model.predict_proba([test_texts[i] for i in judged]))
        columns = [fitted.classes_out.index(label) for label in new_test[judged].tolist()]
        accuracy = accuracy_score(columns, result.argmax(axis=1))
        loss = log_loss(columns, result, labels=range(result.shape[1]))
        return f"| {name} | {accuracy:.4f} | {loss:.4f} |"

    new_held_out = changed_truth(plan, held_out_labels)
    yield (
        f"The classifier is trained on {len(texts):,} texts, the retrained one on the "
        f"{len(stays):,} of these that are not of the removed intent. The filter and the "
        f"temperatures are fitted on {len(held_out):,} others. All are judged on the "
        f"{(new_test != '').sum():,} of {len(test_texts):,} test texts that are not of the removed "
        f"intent. The plan leaves {len(retrained.classes_)} of {len(base.classes_)} intents.\n"
    )
    yield "| classifier | accuracy | log-loss |"
    yield "|---|---|---|"
    yield row("changed", base, held_out_labels, plan, False)
    yield row("retrained on the new labels", retrained, new_held_out, {}, False)
    yield row("changed, calibrated", base, held_out_labels, plan, True)
    yield row("retrained, calibrated", retrained, new_held_out, {}, True)


def naics(folder: Path) -> Iterator[str]:
    """Show what the checks of two concordances find, and compose them."""
    first, second = (read_pairs(folder / f"naics_{years}.csv") for years in YEARS)
    codes = [*first.changes]
    codes_of_2012 = first.check(codes).result
    both = first.then(second, classes=codes)
    checks = {
        "2007 to 2012": first.check(codes),
        "2012 to 2017": second.check(codes_of_2012),
        "2007 to 2017, composed": both.check(codes),
    }
    yield f"```text\n{checks['2007 to 2012']}\n```\n"
    yield "| | " + " | ".join(checks) + " |"
    yield "|---|" + "---|" * len(checks)
    for kind in KINDS:
        counts = " | ".join(f"{len(getattr(check, kind)):,}" for check in checks.values())
        yield f"| {kind.replace('_', ' ')} | {counts} |"
    rows = np.random.default_rng(0).dirichlet(np.full(len(codes), 0.1), 100)
    halfway = OutputFilter.from_plan(first, classes=codes).apply(rows)
    one_by_one = OutputFilter.from_plan(second, classes=codes_of_2012).apply(halfway)
    at_once = OutputFilter.from_plan(both, classes=codes).apply(rows)
    difference = np.abs(at_once - one_by_one).max()
    yield (
        "\nThe composed plan and the two plans one after the other give the same confidences, "
        f"within {difference:.0e}."
    )


def read_pairs(path: Path) -> LabelPlan:
    """Read a plan; parts of a split get the same weight, as nothing better is known."""
    with path.open(encoding="utf-8", newline="") as file:
        _, *pairs = csv.reader(file)
    sent: dict[str, list[str]] = {}
    for old, new in pairs:
        sent.setdefault(old, []).append(new)
    return LabelPlan(
        {old: to[0] if len(to) == 1 else dict.fromkeys(to, 1 / len(to)) for old, to in sent.items()}
    )


def main() -> None:
    """Write the tables beside the page that includes them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--taxonomies", type=Path, required=True)
    given = parser.parse_args()
    for name, lines in (
        (NAICS, naics(given.taxonomies)),
        (BANKING77, banking77(given.texts)),
    ):
        (DOCS / "tables" / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
