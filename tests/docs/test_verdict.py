"""The table of claims has the numbers that plain code finds in the committed results.

Intervals and attack AUCs are those of the committed tables, which have tests of their own.
"""

from __future__ import annotations

import csv
import math
import re

import numpy as np
import pytest

import reproduced
import verdict
from research.results.files import read_result, stored_cells

RESEARCH = reproduced.DOCS / "research"
DOWN = "\N{DOWNWARDS ARROW}"
FORGET = ("F1", "F2", "F3", "F4")
TITLES = {
    ("cifar10", "resnet18"): "CIFAR-10, ResNet18",
    ("cifar10", "allcnn"): "CIFAR-10, AllCNN",
    ("cifar100", "resnet18"): "CIFAR-100, ResNet18",
    ("cifar100", "mobilenet_v2"): "CIFAR-100, MobileNetV2",
    ("faces", "resnet18"): "Faces, ResNet18",
    ("faces", "vit_b_16"): "Faces, ViT-B/16",
}


@pytest.fixture(scope="module")
def table():
    """Read our cells and the paper's of the table, by the claim's first words."""
    lines = verdict.FILE.read_text(encoding="utf-8").splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {re.sub(r"\[(.+?)\]\(.+?\)", r"\1", claim): cells for claim, *cells in rows}


@pytest.fixture(scope="module")
def paper():
    """Return what reads the values of the paper, a line per network."""
    file = reproduced.DOCS.parent / "research" / "tables" / "paper-tables.csv"
    with file.open(encoding="utf-8", newline="") as opened:
        lines = list(csv.DictReader(opened))

    def values(method, metric, component=""):
        wanted = {"method": method, "metric": metric, "component": component}
        found = {
            (line["set"], line["architecture"]): [float(line[f].strip("<")) for f in FORGET]
            for line in lines
            if wanted.items() <= line.items()
        }
        return np.array([found[network] for network in TITLES])

    return values


def softmax(logits):
    powers = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def kl(rows, others):
    """Return the mean KL over all entries, each at least 1e-12 in the logarithm."""
    return (rows * np.log(np.maximum(rows, 1e-12) / np.maximum(others, 1e-12))).sum(axis=1).mean()


def distances(result, base, removed):
    """Return the KL of three methods to the retrained model, and of OSR to the base model."""
    logits, truth = base.arrays["base"].astype(np.float64), base.arrays["labels"]
    kept = np.delete(np.arange(logits.shape[1]), removed)
    retrained, osr = np.zeros(logits.shape), np.zeros(logits.shape)
    retrained[:, kept] = softmax(result.arrays["retrain"])
    osr[:, kept] = result.filter.apply(logits)
    outputs = {name: softmax(result.arrays[name]) for name in ("unsir", "nhle_cwm")} | {"osr": osr}
    of_removed = np.isin(truth, removed)
    found = {
        f"KL_retrained_{kind} {name}": kl(output[rows], retrained[rows])
        for kind, rows in (("R", ~of_removed), ("F", of_removed))
        for name, output in outputs.items()
    }
    return found | {"KL_base_R osr": kl(osr[~of_removed], softmax(logits)[~of_removed])}


@pytest.fixture(scope="module")
def ours():
    """Compute our means over seeds by metric and method, a line per network."""
    by_cell = {}
    cells = stored_cells(reproduced.RESULTS)
    for cell in cells:
        if (cell.set, cell.architecture) not in TITLES:
            continue
        result = read_result(reproduced.RESULTS, cell)
        values = {
            f"{metric} {method}": value
            for method, found in result.facts["full_precision"].items()
            for metric, value in found.items()
        }
        for method, seconds in result.facts.get("seconds", {}).items():
            values[f"seconds {method}"] = seconds.get("total", math.fsum(seconds.values()))
        if cell.removed and cell.base in cells:
            base = read_result(reproduced.RESULTS, cell.base)
            values |= distances(result, base, list(cell.removed))
        for name, value in values.items():
            key = (name, cell.set, cell.architecture, cell.forget)
            by_cell.setdefault(key, []).append(value)

    def values(name, forget=FORGET):
        return np.array(
            [[np.mean(by_cell[name, *network, each]) for each in forget] for network in TITLES]
        )

    return values


def short(value, digits=2):
    return re.sub(r"^0\.", ".", f"{value:.{digits}f}")


def span(values, digits=2):
    return f"{short(values.min(), digits)} to {short(values.max(), digits)}"


def spans(values, digits=2):
    return f"{span(values[:2], digits)}; {span(values[2:], digits)}"


def committed(name, first, second):
    """Return the cells of a row of a committed table, a line per network."""
    text = (reproduced.FOLDER / f"{name}.md").read_text(encoding="utf-8")
    found = []
    for title in TITLES.values():
        heading = ""
        for line in text.split(f"### {title}\n")[1].split("\n### ")[0].splitlines():
            if line.startswith("| "):
                group, row, *cells = (cell.strip() for cell in line.strip("|").split("|"))
                heading = group or heading
                if (heading, row) == (first, second):
                    found.append(cells)
    return found


def excluding_0(method):
    """Return the differences of A_R from OSR's whose committed interval excludes 0."""
    rows = committed("intervals", "A_R of OSR less that of", method)
    assert len(rows) == len(TITLES)
    return [cell.strip("*") for row in rows for cell in row if cell.startswith("**")]


def test_base_models(table, ours, paper):
    accuracies = ours("A_R base", ["F0"])[:, 0]
    labels = np.array([10, 10, 100, 100, 100, 100])
    kept, removed = paper("base", "A_R")[:, 0], paper("base", "A_F")[:, 0]
    for cell, found in zip(
        table["Base models' accuracy"][1:],
        (accuracies, (kept * (labels - 1) + removed) / labels),
        strict=True,
    ):
        assert cell == "{} {}; {} {}; {} {}".format(*map(short, found))


def test_lead_over_retraining(table, ours, paper):
    found = excluding_0("retrained")
    above = sum(cell.startswith("+") for cell in found)
    lead, published = (
        values - retrained
        for values, retrained in (
            (ours("A_R osr"), ours("A_R retrain")),
            (paper("osr", "A_R"), paper("retrain", "A_R")),
        )
    )
    _, cell, of_paper = table["OSR keeps A_R, not below retraining"]
    assert cell == f"below in {len(found) - above} of 24"
    assert of_paper == f"below in {(published < 0).sum()} of 24"
    edges = [
        f"\N{MINUS SIGN}{short(-found.min(), 3)} to +{short(found.max(), 3)}"
        for found in (lead, published)
    ]
    _, cell, of_paper = table["OSR's A_R is above retraining's"]
    assert cell == f"in {above} of 24; {edges[0]}"
    assert of_paper == f"in {(published > 0).sum()} of 24; {edges[1]}"


def test_forgetting(table, ours, paper):
    assert ours("A_F osr").max() == paper("osr", "A_F").max() == 0
    assert table["OSR's A_F is 0"] == ["**yes**", "0, by construction", "0"]


def test_distance_from_retraining(table, ours, paper):
    counts = []
    for kind in "RF":
        osr, unsir, nhle = (
            ours(f"KL_retrained_{kind} {method}") for method in ("osr", "unsir", "nhle_cwm")
        )
        counts.append(((osr < unsir) & (osr < nhle)).sum())
        unsir, nhle = (
            paper(method, f"KL_retrained_{kind}", "all entries") for method in ("unsir", "nhle_cwm")
        )
        osr = paper("osr", f"KL_retrained_{kind}")
        counts.append(((osr < unsir) & (osr < nhle)).sum())
    _, *cells = table["KL to retraining: OSR's is the lowest"]
    assert cells == [
        f"in {counts[0]} of 24; removed: {counts[2]}",
        f"in {counts[1]} of 24; removed: {counts[3]}",
    ]
    _, *cells = table["KL to retraining is small"]
    assert cells == [spans(ours("KL_retrained_R osr")), spans(paper("osr", "KL_retrained_R"))]


def test_distance_from_the_base_model(table, ours, paper):
    found, published = ours("KL_base_R osr"), paper("osr", "KL_base_R")
    assert table["KL to the base model is small"][1] == spans(found, 3)
    assert table["KL to the base model is small"][2] == spans(published, 3).replace(".000", "<.001")
    assert (found > 2 * published).all()  # so it is not reproduced


def test_coverage(table, ours, paper):
    pairs = (
        (ours("coverage_retained osr"), ours("coverage_retained retrain")),
        (paper("osr", "Cov_R"), paper("retrain", "Cov_R")),
    )
    cells = [f"in {(osr < other).sum()} of 24; {span(osr[2:, 1:])}" for osr, other in pairs]
    assert table["Coverage is better than retraining's"][1:] == cells


def test_time(table, ours, paper):
    ratios = (
        ours("seconds retrain") / ours("seconds osr"),
        paper("retrain", "seconds", "total") / paper("osr", "seconds", "total"),
    )
    cells = [f"at least {math.floor(ratio.min())} times less" for ratio in ratios]
    assert table["OSR takes less time than retraining"][1:] == cells


def test_other_methods(table, ours, paper):
    published = {name: paper("osr", "A_R") - paper(name, "A_R") for name in ("unsir", "nhle_cwm")}
    _, cell, of_paper = table["UNSIR has less A_R than OSR, and forgets less"]
    assert cell == f"in {len(excluding_0('UNSIR'))} of 24; A_F to {short(ours('A_F unsir').max())}"
    counts = [(published[name] > 0).sum() for name in ("unsir", "nhle_cwm")]
    first = " ".join((RESEARCH / "reproduction.md").read_text(encoding="utf-8").split())
    assert f"up to {short(published['unsir'][2:].max())} less A_R than OSR" in first
    assert of_paper == f"in {counts[0]} of 24; A_F to {paper('unsir', 'A_F').max():g}"
    _, cell, of_paper = table["NHLE-CWM has less A_R than OSR, and fails with ViT-B/16"]
    less = (ours("A_R osr") - ours("A_R nhle_cwm"))[-1].max()
    count = len(excluding_0("NHLE-CWM (reconstruction)"))
    assert cell == f"in {count} of 24; ViT at most {short(less, 3)} less"
    assert (
        of_paper == f"in {counts[1]} of 24; ViT up to {short(published['nhle_cwm'][-1].max())} less"
    )
    assert all(
        cell.startswith("+")
        for name in ("UNSIR", "NHLE-CWM (reconstruction)")
        for cell in excluding_0(name)
    )


def numbers(name, first, second):
    """Return our numbers in a row of a committed table, a line per network."""
    rows = committed(name, first, second)
    return np.array([[float(re.search(r"[\d.]+", cell)[0]) for cell in row] for row in rows])


def words(page):
    text = (RESEARCH / "tables" / f"{page}.md").read_text(encoding="utf-8")
    return " ".join(text.split())


def test_the_page_on_kl_has_both_forms_and_the_floor():
    counts, retained = {}, f"KL {DOWN}, inputs of retained labels"
    for form in ("all entries", "retained entries"):
        for kind in ("retained", "removed"):
            heading = f"KL {DOWN}, inputs of {kind} labels"
            osr, *others = (
                numbers("kl_retrained", heading, row)
                for row in ("OSR", f"UNSIR: {form}", f"NHLE-CWM (reconstruction): {form}")
            )
            counts[form, kind] = (osr < np.minimum(*others)).sum()
    first, second, third, fourth = (
        counts[form, kind]
        for kind in ("retained", "removed")
        for form in ("all entries", "retained entries")
    )
    page = words("kl")
    assert f"in {first} of 24 cells if all entries" in page
    assert f"and in {second} on retained entries; on inputs of removed" in page
    assert f"removed labels in {third} and {fourth}." in page
    osr, floor = (
        numbers("kl_retrained", retained, row) for row in ("OSR", "seed floor: retrained again")
    )
    assert f"its KL is {span(osr[:2])} on CIFAR-10 and {span(osr[2:])} with 100 labels" in page
    assert f"another retrained model {span(floor[:2])} and {span(floor[2:])}." in page


def test_the_page_on_accuracy_counts_intervals():
    rows = committed("intervals", "A_R of OSR less that of", "retrained")
    cifar10, cifar100, faces = (
        sum(cell.startswith("**+") for row in rows[i : i + 2] for cell in row) for i in (0, 2, 4)
    )
    assert (cifar10, cifar100, faces) == (7, 1, 6)
    for text in ("in seven the interval", "one interval of eight", "six intervals of eight"):
        assert text in words("accuracy")
    assert not rows[1][0].startswith("**")
    assert not any(row[0].startswith("**") for row in rows[4:])
    (all_rows,) = committed("intervals", "A_R of OSR less that of", "retrained: all rows")
    assert all(cell.startswith("**+") for cell in all_rows)


def test_the_page_on_distances_has_those_over_the_floor():
    retained, removed = (
        sorted(numbers("beside", f"JS over floor {DOWN}, inputs of {kind} labels", "OSR").ravel())
        for kind in ("retained", "removed")
    )
    first = [f"{retained[at]:.1f}" for at in (0, -3, -2, -1)]
    second = [f"{removed[at]:.1f}" for at in (0, -3, -2, -1)]
    page = words("distances")
    assert "is {} to {} times that between two retrainings (the floor)".format(*first[:2]) in page
    assert "with F4 and ViT-B/16 ({} times) or AllCNN ({} times".format(*first[2:]) in page
    assert "it is {} to {} times, with two exceptions ({} and {})".format(*second) in page


def test_the_page_on_settings_has_unsirs_batches_and_penalty():
    text = (reproduced.FOLDER / "settings.md").read_text(encoding="utf-8")
    batch, penalty = (
        [tuple(re.findall(r"[\d.]+", cell)) for cell in row.split("|")[:6]]
        for row in (
            re.search(pattern, text, re.MULTILINE)[1]
            for pattern in (r"^\| UNSIR \| batch \| (.*)", r"\| noise penalty \| (.*)")
        )
    )
    ours, papers = zip(*batch[2:], strict=True)
    assert f"batches are {min(map(int, ours))} to {max(map(int, ours))}" in words("settings")
    assert papers == ("100", "100", "500", "500")
    assert penalty == [(".1", ".1")] * 4 + [(".1", ".001")] * 2


def test_privacy(table):
    osr, retrained = (
        np.array(
            [[float(cell.strip("*").split()[0].strip("*")) for cell in row] for row in rows[:2]]
        )
        for rows in (
            committed("beside", "Attack AUC, nearest .5", name) for name in ("OSR", "retrained")
        )
    )
    assert table["Privacy is better"][1] == f"AUC {span(osr)}, retrained {span(retrained)}"


def test_mask(table, ours):
    same = (ours("A_R osr") == ours("A_R mask")).sum()
    assert table["Not in the paper: mask is as good"][1] == f"the same A_R in {same} of 24"
