"""The page on frozen features has the values of the committed cells and of the paper."""

import json

import numpy as np
import pytest

pytest.importorskip("torch", reason="the heads are PyTorch's layers")

from page_blocks import DOCS
from research.frozen_faces import NAME, STRENGTHS
from research.results.files import read_result, stored_cells
from research.tables.published import Key, paper_values

PAPER = DOCS.parent / "research" / "stored" / "paper"
PAGE = DOCS / "research" / "frozen-features.md"
SCRATCH = (("cifar100", "resnet18"), ("faces", "resnet18"), ("faces", "vit_b_16"))
MOBILENET = ("cifar100", "mobilenet_v2")
FORGET = ("F1", "F2", "F3", "F4")


def short(value, digits=4):
    return f"{value:.{digits}f}".removeprefix("0")


def softmax(logits):
    powers = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def mean_kl(network):
    """Compute KL(OSR | retrained) of one network, by forget set and kind of input."""
    found = {}
    for cell in stored_cells(PAPER):
        if (cell.set, cell.architecture, cell.seed) == (*network, 0) and cell.removed:
            base, result = read_result(PAPER, cell.base).arrays, read_result(PAPER, cell)
            ours = result.filter.apply(base["base"].astype(np.float64))
            kl = (ours * np.log(ours / softmax(result.arrays["retrain"]))).sum(axis=1)
            is_removed = np.isin(base["labels"], cell.removed)
            found[cell.forget] = {"R": kl[~is_removed].mean(), "F": kl[is_removed].mean()}
    return found


def full_precision(forget, architecture=NAME, seed=0):
    path = PAPER / "faces" / architecture / f"s{seed}" / f"{forget}.json"
    return json.loads(path.read_text(encoding="utf-8"))["full_precision"]


def over_all_images(method, value, *model):
    return np.array([full_precision(name, *model)[method][value] for name in FORGET])


def papers(method, metric, network=("faces", "resnet18")):
    values = [paper_values()[Key(*network, method, "", metric, name)] for name in FORGET]
    return np.array(values, dtype=float)


def table():
    """Make the lines of the page's table."""
    kl = mean_kl(("faces", NAME))
    yield "| | | F1 | F2 | F3 | F4 |"
    yield "|---|---|---|---|---|---|"
    for metric, value, in_paper in (
        ("A_R", "A_R", "A_R"),
        ("Coverage", "coverage_retained", "Cov_R"),
    ):
        yield line(metric, "OSR", over_all_images("osr", value))
        yield line("", "mask", over_all_images("mask", value))
        yield line("", "retrained", over_all_images("retrain", value))
        yield line("", "the paper's OSR", papers("osr", in_paper))
        yield line("", "the paper's retrained", papers("retrain", in_paper))
    for kind, inputs in (("R", "retained"), ("F", "removed")):
        metric = f"KL to retraining, inputs of {inputs} labels"
        yield line(metric, "OSR", [kl[name][kind] for name in FORGET])
        yield line("", "the paper's OSR", papers("osr", f"KL_retrained_{kind}"))


def line(metric, title, values):
    return f"| {metric} | {title} | {' | '.join(map(short, values))} |".replace("|  |", "| |")


def between(values, digits=4):
    return f"{short(min(values), digits)} to {short(max(values), digits)}"


@pytest.fixture(scope="module")
def text():
    return PAGE.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def words(text):
    return " ".join(text.split())


def test_the_table_has_the_committed_values_and_the_papers(text):
    assert "\n".join(["", *table(), ""]) in text


def test_the_page_has_the_lead_of_osr_and_the_base_models(words):
    lead = over_all_images("osr", "A_R") - over_all_images("retrain", "A_R")
    assert f"between {short(-lead.min())} below and {short(lead.max())} above" in words
    scratch = over_all_images("osr", "A_R", "resnet18")
    for seed in (0, 1):
        scratch -= over_all_images("retrain", "A_R", "resnet18", seed) / 2
    assert f"it is {between(scratch, 3)} above, and most where the fewest" in words
    assert (np.diff(scratch) > 0).all()
    in_paper = papers("osr", "A_R") - papers("retrain", "A_R")
    assert f"lie between: {between(in_paper)} above" in words
    assert (np.diff(in_paper) > 0).all()
    base = full_precision("F0")["base"]
    assert f"is {short(base['A_R'])}, its coverage {short(base['coverage_retained'])}" in words
    accuracy, coverage = between(papers("base", "A_R")), between(papers("base", "Cov_R"))
    assert f"base model's A_R is {accuracy}, its coverage {coverage}" in words
    fall = papers("osr", "Cov_R") / papers("base", "Cov_R")
    assert (fall[1:] < 0.5).all()
    assert base["A_R"] > papers("base", "A_R").max()
    assert over_all_images("osr", "coverage_retained").min() >= base["coverage_retained"]


def test_the_page_has_kl_of_the_networks_that_share_less(words):
    ours, paper = {}, {}
    for network in (*SCRATCH, MOBILENET):
        ours[network] = [kinds["R"] for kinds in mean_kl(network).values()]
        paper[network] = papers("osr", "KL_retrained_R", network)
    here, there = (
        between(np.concatenate([values[network] for network in SCRATCH]), 2)
        for values in (ours, paper)
    )
    assert f"do not start from ImageNet it is {here}, and {there} in the paper" in words
    here, there = (between(values[MOBILENET], 2) for values in (ours, paper))
    assert f"there it is {here}, and {there} in the paper" in words
    most = max(kinds["R"] for kinds in mean_kl(("faces", NAME)).values())
    assert f"it is at most {short(most)} here" in words


def test_the_page_has_the_strength_that_was_chosen(words):
    path = PAPER / "faces" / NAME / "s0" / "F0.json"
    training = json.loads(path.read_text(encoding="utf-8"))["config"]["training"]
    tried = [float(strength) for strength in training["log_loss"]]
    assert sorted(tried) == sorted(STRENGTHS)
    assert min(tried) < training["C"] < max(tried)
    assert f"C is {training['C']:.0f} for all" in words
    assert f"the best of {min(tried):.0f} to {max(tried):.0f}" in words
