"""The report speaks of what the plan does: removed, merged, renamed and split labels."""

import copy
import itertools
import re

import numpy as np
import pytest

from report_pages import CLASSES, HOSTILE, REMOVED, Page, outputs, renamed, with_labels

pytest.importorskip("jinja2", reason="a report needs the extra: pip install 'unlabel[cli]'")

from unlabel import LabelPlan
from unlabel.evaluation.summary import summarise
from unlabel.evaluation.trial import try_labels
from unlabel.report import render
from unlabel.report.formatting import name, percent, score

CHANGED = LabelPlan(
    {
        "bee": None,
        "cow": "farm",
        "dog": "farm",
        "elk": {"moose": 0.75, "deer": 0.25},
        "fox": "vixen",
    },
    title="Version 2 of <b>all</b>",
    note="First line & more.\nSecond line.",
)


@pytest.fixture(scope="module")
def trials():
    labels = np.arange(480) % len(CLASSES)
    base, names = outputs(labels, range(len(CLASSES)), 0), np.array(CLASSES)[labels]
    retrained = [outputs(labels % 5, range(5), seed) for seed in (1, 2)]
    plans = {"removed": REMOVED, "merged": {"bee": "ant"}}
    return {
        name: summarise(try_labels(base, names, classes=CLASSES, plan=plan))
        for name, plan in plans.items()
    } | {
        "changed": summarise(
            try_labels(base, names, classes=CLASSES, plan=CHANGED, retrained=retrained)
        )
    }


@pytest.fixture
def summary(trials):
    return trials["removed"]


def test_the_page_says_what_the_plan_does(trials):
    summary = trials["changed"]
    html = render(summary)
    page, text = Page(html), " ".join(Page(html).text.split())
    base, shown = summary["figures"][:2]
    goal = next(entry for entry in summary["figures"] if entry["output"] == "retrained")
    assert "<h1><bdi>Version 2 of &lt;b&gt;all&lt;/b&gt;</bdi></h1>" in html
    assert (
        "With 1 label removed, 2 merged into 1, 1 renamed and 1 split, "
        f"{percent(shown['changed']['retained'])} of the predictions on inputs of retained labels "
        f"change. The share that is right goes from {percent(base['share_right']['retained'])} to "
        f"{percent(shown['share_right']['retained'])}, first of the old labels and then of the "
        f"new; accuracy, the mean of that share over labels, goes from "
        f"{score(base['accuracy']['retained'])} to {score(shown['accuracy']['retained'])}. "
        "A model retrained on the new labels changes "
        f"{percent(goal['changed']['retained'])}"
    ) in text
    rows = summary["rows"]
    assert (
        f"{rows['of_retained_labels']} inputs of 5 retained labels and {rows['of_removed_labels']} "
        f"of 1 removed label; {rows['of_split_labels']} of 1 split label, whose new label is not "
        "known, are left out."
    ) in text
    assert "<p>First line &amp; more.</p><p>Second line.</p>" in html
    assert "6 labels become 5." in text
    table = next(table for table in page.tables if table[0] == ["Before", "After"])
    assert table[1:] == [
        ["cow,dog", "merged intofarm"],
        ["bee", "removed"],
        ["elk", "split intomoose75.0%,deer25.0%"],
        ["fox", "renamed tovixen"],
    ]
    for entry in summary["by_label"]:
        name = entry["label"] + (
            f"→{entry['to']}" if entry["to"] not in (None, entry["label"]) else ""
        )
        lost = {"bee": "removed", "elk": "split"}.get(entry["label"])
        row = [score(entry["before"]), lost or score(entry["after"])]
        assert row in [cells[1:3] for cells in page.rows(name.replace("→", " →"))], entry
    for row in summary["most_changed"]["retained"]:
        now = "✓right" if row["after"] == row["to"] else "✗wrong"
        assert now in next(
            cells for cells in itertools.chain(*page.tables) if cells[0] == str(row["row"])
        )
    assert ("title", summary["plan"]["digest"]) in page.values
    assert "A split is as good as its weights" in text


def test_a_change_of_few_labels_is_named(trials):
    html = render(trials["merged"])
    text = " ".join(Page(html).text.split())
    assert "<title>bee merged into ant</title>" in html
    assert "With bee merged into ant, " in text
    same = "Here the two do not differ in any metric, as no label is removed."
    assert same in text
    for about_removed in ("emoved label", "nknown", "Removed mass", "A split"):
        assert about_removed not in text.replace(same, "")


def test_names_in_a_title_are_text(trials):
    html = render(renamed(trials["merged"], {"bee": "</title><i>", "ant": "a & b"}))
    assert "<title>&lt;/title&gt;&lt;i&gt; merged into a &amp; b</title>" in html


def test_removed_labels_alone_need_no_table(summary):
    text = " ".join(Page(render(summary)).text.split())
    for about_changes in ("How the labels change", "new label", "renamed", "merged", "split"):
        assert about_changes not in text


def test_many_changes_are_folded(summary):
    big = with_labels(summary, 1000, removed=100, merged=100, renamed=70, split=30)
    html = render(big)
    page = Page(html)
    text = " ".join(page.text.split())
    assert "100 labels removed, 100 merged into 20, 70 renamed and 30 split" in text
    assert "1,000 labels become 1,060." in text
    assert "And 111 more changes" in text
    first, folded = (table for table in page.tables if table[0] == ["Before", "After"])
    assert [len(first), len(folded)] == [11, 112]
    assert first[1][1] == "removed"  # the largest group
    assert "and 98 more" in first[1][0]
    assert {row[1] for row in first[2:]} == {f"merged intogroup {i} of them" for i in range(9)}
    outside = re.sub(r"<details>.*?</details>", "", html, flags=re.DOTALL)
    assert outside.count("<tr") < 250
    assert len(html.encode()) < 900_000
    enormous = with_labels(summary, 30_000, removed=3000, merged=3000, renamed=3000, split=3000)
    assert len(render(enormous).encode()) < 3_000_000


def test_a_long_note_is_folded(trials):
    long = copy.deepcopy(trials["changed"])
    long["plan"]["note"] = "word " * 200 + "\x00\n<script>"
    html = render(long)
    assert "<details><summary>The note of the plan</summary>" in html
    assert "<p>&lt;script&gt;</p>" in html
    assert "\x00" not in html


def test_labels_and_texts_of_a_plan_are_inert(trials):
    labels = [*CLASSES, "farm", "moose", "deer", "vixen"]
    kind = Page(render(renamed(trials["changed"], {label: label * 10 for label in labels})))
    names = HOSTILE | {"farm": "</bdi></table>", "moose": "x" * 400, "vixen": "<img src=x>"}
    hostile = renamed(trials["changed"], names)
    hostile["plan"] |= {"title": "</title><script>", "note": "<img>\n</main>", "digest": "<b>"}
    page = Page(render(hostile))
    assert page.elements == kind.elements
    for text in (*names.values(), "</title><script>"):
        assert name(text) in page.text
