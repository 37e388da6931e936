"""The page on the paper's idea, and what the page on metrics says of coverage and KL.

Their values come from committed outputs, and are recomputed here with plain code.
"""

from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

import plain_letter
from research import premise
from research.grid import Cell
from research.results.files import read_result

DOCS = Path(__file__).parents[2] / "docs"
IDEA, METRICS, COVERAGE = (
    DOCS / "research" / "idea.md",
    DOCS / "concepts" / "metrics.md",
    DOCS / "research" / "tables" / "coverage.md",
)
FORGET = ("F1", "F2", "F3", "F4")
# The networks for 100 labels.
NETWORKS = (
    ("cifar100", "mobilenet_v2"),
    ("cifar100", "resnet18"),
    ("faces", "resnet18"),
    ("faces", "vit_b_16"),
)


def words(page):
    return " ".join(page.read_text(encoding="utf-8").split())


def softmax(logits):
    powers = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def short(value, digits=2):
    return f"{value:.{digits}f}".removeprefix("0")


def sequence(values):
    return " ".join(short(value) for value in values)


@pytest.fixture(scope="module")
def committed():
    """Read the values of the committed tables by network or cell."""
    text = (DOCS / "tables" / "premise.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| (\w+/\w+/s\d/F\d) \| (.+) \|$", text, re.MULTILINE)
    return {name: [float(value) for value in values.split(" | ")] for name, values in lines}


def test_the_committed_tables_are_the_scripts(committed):
    found = premise.tables().splitlines()
    written = (DOCS / "tables" / "premise.md").read_text(encoding="utf-8").splitlines()
    assert len(found) == len(written)
    for ours, line in zip(found, written, strict=True):
        name, *values = ours.strip("| ").split(" | ")
        if name in committed:  # the letter's largest entries are ill-conditioned
            assert [float(value) for value in values] == pytest.approx(committed[name], rel=2e-3)
        else:
            assert ours == line


def test_the_premise_of_one_network_recomputed_with_plain_code(committed):
    arrays = read_result(premise.PAPER, Cell("faces", "vit_b_16", 0, "F0")).arrays
    rows, truth = softmax(arrays["base"]).tolist(), arrays["labels"].tolist()
    own, others, residuals = [[] for _ in range(100)], [[] for _ in range(100)], []
    for label in range(100):
        of_label = [row for row, true in zip(rows, truth, strict=True) if true == label]
        mean = [sum(column) / len(of_label) for column in zip(*of_label, strict=True)]
        for row, true in zip(rows, truth, strict=True):
            c = mean
            if true == label:  # the row itself is left out
                n = len(of_label)
                c = [(n * m - entry) / (n - 1) for m, entry in zip(mean, row, strict=True)]
            square = sum(entry**2 for entry in c)
            product = sum(a * b for a, b in zip(row, c, strict=True))
            cosine = product / math.sqrt(square * sum(entry**2 for entry in row))
            (own if true == label else others)[label].append(cosine)
            if true == label:
                residuals.append(max(0, row[label] - product * c[label] / square))
    expected = [
        np.median(np.concatenate(own)),
        min(np.median(of_label) for of_label in own),
        np.median(np.concatenate(others)),
        max(np.median(of_label) for of_label in others),
        np.mean(residuals),
    ]
    assert committed["faces/vit_b_16/s0/F0"] == pytest.approx(expected, rel=1e-3)


def coverage(rows, truth, kept):
    """Average the worst rank of the retained labels, over the number of outputs."""
    worst = [
        max((row > row[at]).sum() for row in rows[truth == label]) for at, label in enumerate(kept)
    ]
    return sum(worst) / len(kept) ** 2


def test_the_letter_in_one_cell_recomputed_with_plain_code(committed):
    arrays = read_result(premise.PAPER, Cell("cifar10", "allcnn", 0, "F0")).arrays
    rows, truth = softmax(arrays["base"]), arrays["labels"].astype(int)
    kept = [label for label in range(10) if label not in (0, 4)]
    raw = plain_letter.remove_all(rows, [rows[truth == label] for label in (0, 4)], [0, 4])
    clamped = rows
    for column in (0, 3):  # 4 without 0
        remove = plain_letter.remove(clamped[truth == (4 if column else 0)], column)
        clamped = np.maximum([remove(row) for row in clamped], 0)
    largest, _, at_the_end, after_each = committed["cifar10/allcnn/s0/F2"]
    assert largest == pytest.approx(np.abs(raw).max(), rel=1e-3)
    assert at_the_end == pytest.approx(coverage(np.maximum(raw, 0), truth, kept), rel=1e-3)
    assert after_each == pytest.approx(coverage(clamped, truth, kept), rel=1e-3)


def test_the_page_has_the_premise(committed):
    assert "{include} ../tables/premise.md" in IDEA.read_text(encoding="utf-8")
    small = np.array([v for name, v in committed.items() if re.match(r"cifar10/.*F0", name)])
    large = np.array(
        [v for name, v in committed.items() if re.match(r"(cifar100|faces/[rv]).*F0", name)]
    )
    vit = committed["faces/vit_b_16/s0/F0"]
    assert (len(small), len(large)) == (4, 4)
    low, high = short(small[:, 2].min(), 3), short(small[:, 2].max(), 3)
    assert small[:, 0].min() >= 0.999
    assert f"the cosine is .999 or more for own rows and {low} to {high} for others" in words(IDEA)
    assert sorted(large[:, 2])[-2] < small[:, 2].min()
    assert f"except with ViT-B/16 ({short(vit[2], 3)})" in words(IDEA)
    low, high = short(large[:, 0].min(), 3), short(large[:, 0].max(), 3)
    lowest = short(large[:, 1].min(), 3)
    assert f"a median of {low} to {high}, and {lowest} for the label that ViT-B/16" in words(IDEA)
    assert large[:, 1].min() == vit[1]
    frozen = short(committed["faces/frozen_mobilefacenet/s0/F0"][0], 4)
    assert f"and of {frozen} with [frozen features]" in words(IDEA)
    low, high = short(small[:, 4].min(), 4), short(small[:, 4].max(), 4)
    most = short(large[:, 4].max(), 4)
    assert f"own rows is {low} to {high} on CIFAR-10, and at most {most} anywhere" in words(IDEA)


def test_pages_have_what_the_letter_does(committed):
    figures = json.loads((DOCS / "figures" / "figures.json").read_text(encoding="utf-8"))
    shipped = [figures["forget_sets"][forget]["letter_largest_entry"] for forget in FORGET]
    one, two, three, four = (f"{value:#.3g}" for value in shipped)
    assert f"the largest is {one}, {two}, {three} and {four} with F1 to F4" in words(IDEA)
    cifar10, cifar100 = (
        max(v[0] for name, v in committed.items() if name.startswith(f"{which}/") and len(v) == 4)
        for which in ("cifar10", "cifar100")
    )
    assert f"up to {cifar10:g} on CIFAR-10 and {cifar100:g} on CIFAR-100" in words(IDEA)


def paper(metric):
    """Return the paper's values of OSR, by network."""
    file = DOCS.parent / "research" / "tables" / "paper-tables.csv"
    with file.open(encoding="utf-8", newline="") as lines:
        return {
            (line["set"], line["architecture"]): [float(line[forget]) for forget in FORGET]
            for line in csv.DictReader(lines)
            if (line["method"], line["metric"]) == ("osr", metric)
        }


def test_pages_agree_that_clamping_does_not_explain_the_papers_coverage(committed):
    cells = np.array([committed[f"cifar100/resnet18/s0/{forget}"] for forget in FORGET[1:]])
    osr, at_the_end, after_each = (sequence(column) for column in cells.T[1:])
    published = sequence(paper("Cov_R")["cifar100", "resnet18"][1:])
    for page in (IDEA, METRICS, COVERAGE):
        assert f"gives {at_the_end}" in words(page), page
    assert f"doing so after each label {after_each}. OSR has {osr} on the same" in words(IDEA)
    assert f"the paper {published}." in words(IDEA)
    assert f"the paper has {published}." in words(METRICS)


def mean_kl(output, reference):
    rows = [
        sum(p * math.log(p / max(q, 1e-12)) for p, q in zip(*pair, strict=True) if p > 0)
        for pair in zip(output.tolist(), reference.tolist(), strict=True)
    ]
    return sum(rows) / len(rows)


@pytest.fixture(scope="module")
def distances():
    """Recompute, by network: OSR's KL to retrained on inputs of R, the reverse, and the floor."""
    found = {}
    for name, network in NETWORKS:
        values = []
        for forget in FORGET:
            base, result, again = (
                read_result(premise.PAPER, Cell(name, network, seed, which))
                for seed, which in ((0, "F0"), (0, forget), (1, forget))
            )
            judged = ~np.isin(base.arrays["labels"], result.facts["removed"])
            one, other = (softmax(r.arrays["retrain"])[judged] for r in (result, again))
            osr = result.filter.apply(base.arrays["base"].astype(np.float64))[judged]
            floor = (mean_kl(one, other) + mean_kl(other, one)) / 2
            values.append((mean_kl(osr, one), mean_kl(one, osr), floor))
        found[name, network] = np.array(values).T
    return found


def test_the_page_on_metrics_has_the_kl_to_retrained_with_100_labels(distances):
    def between(values):
        return f"{short(np.min(values))} to {short(np.max(values))}"

    kl, reverse, floor = np.stack(list(distances.values()), axis=1)
    published = np.array([paper("KL_retrained_R")[key] for key in NETWORKS])
    mobile, resnet, faces, vit = range(4)
    page = words(METRICS)
    assert f"is {between(kl)} on the sets of 100 labels, and the paper's is" in page
    assert f"the paper's is {between(published)}." in page
    assert f"({between(kl[:, 0] / floor[:, 0])} times the floor" in page
    assert f"the floor itself is {between(floor[resnet])}: no method can" in page
    assert f"expected at the paper's {between(published[resnet])}." in page
    assert f"OSR has {sequence(kl[mobile])} for F1 to F4, where the paper" in page
    assert f"where the paper has {sequence(published[mobile])}." in page
    ratios = [f"{value:.1f}" for value in kl[:, 3] / floor[:, 3]]
    assert f"{ratios[mobile]} times the floor with MobileNetV2, {ratios[resnet]} with" in page
    assert f"{ratios[faces]} with ResNet18 and {ratios[vit]} with ViT-B/16 on the faces" in page
    assert f"OSR still has {between(kl[vit])} where the paper has {between(published[vit])}" in page
    assert f"KL(retrained ‖ OSR) is {between(reverse)}." in page


def test_the_page_on_metrics_has_the_lead_over_models_with_few_images():
    leads = []
    for name, network in NETWORKS:
        facts = [
            read_result(premise.PAPER, Cell(name, network, seed, "F4")).facts["full_precision"]
            for seed in (0, 1)
        ]
        retrained = np.mean([values["retrain"]["A_R"] for values in facts])
        leads.append(short(facts[0]["osr"]["A_R"] - retrained))
    one, two, three, four = leads
    assert f"models is {one}, {two}, {three} and {four} below OSR's" in words(METRICS)
