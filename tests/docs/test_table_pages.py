"""The pages of tables say what the committed tables show."""

from __future__ import annotations

import re
from statistics import NormalDist

import numpy as np

import reproduced
from committed_tables import DOWN, committed, excluding_0, intervals, numbers, words


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


def test_the_page_on_accuracy_has_holms_correction():
    mean, low, high = np.moveaxis(intervals("retrained"), -1, 0)
    normal = NormalDist()
    errors = (high - low) / (2 * normal.inv_cdf(0.975))
    p = sorted(2 * normal.cdf(-x) for x in np.abs(mean / errors).ravel())
    left = next(at for at, each in enumerate(p) if each > 0.05 / (24 - at))
    above, _ = excluding_0("retrained")
    assert f"{left} of the {above} remain" in words("accuracy")
