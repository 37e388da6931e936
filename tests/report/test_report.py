import copy
import itertools
import json
import re
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import doors
from report_pages import (
    CLASSES,
    HOSTILE,
    REMOVED,
    Page,
    of_intents,
    outputs,
    renamed,
    with_labels,
)

pytest.importorskip("jinja2", reason="a report needs the extra: pip install 'unlabel[cli]'")

from unlabel import LabelPlan, report
from unlabel.errors import UnlabelError
from unlabel.evaluation.summary import summarise
from unlabel.evaluation.trial import try_filter, try_labels
from unlabel.report import plots, render
from unlabel.report.axis import axis
from unlabel.report.formatting import name, percent, ratio, score, signed

TIMES = "\N{MULTIPLICATION SIGN}"


@pytest.fixture(scope="module")
def data():
    labels = np.arange(480) % len(CLASSES)
    keep = [i for i, label in enumerate(CLASSES) if label not in REMOVED]
    base = outputs(labels, range(len(CLASSES)), 0)
    return base, np.array(CLASSES)[labels], [outputs(labels, keep, seed) for seed in (1, 2)]


@pytest.fixture(scope="module")
def trials(data):
    """Summaries of the same rows with no, one and two retrained models, and of a given filter."""
    base, labels, retrained = data
    options = {"classes": CLASSES, "plan": LabelPlan(REMOVED)}
    kept = ~np.isin(labels, REMOVED)
    given = doors.fit(base, labels, **options)
    return {
        "two retrained": summarise(try_labels(base, labels, retrained=retrained, **options)),
        "one retrained": summarise(try_labels(base, labels, retrained=retrained[:1], **options)),
        "none retrained": summarise(try_labels(base, labels, **options)),
        "a filter given": summarise(try_filter(given, base, labels)),
        "no removed rows": summarise(try_filter(given, base[kept], labels[kept])),
    }


@pytest.fixture(scope="module")
def summary(trials):
    return trials["two retrained"]


def test_the_comparison_has_the_figures_of_every_output(summary):
    page, figures = Page(render(summary)), summary["figures"]

    def plain(row):
        return [cell.removeprefix("*") for cell in row]

    for heading, path in {
        "Accuracy on retained labels": ("accuracy", "retained"),
        "Accuracy on removed labels": ("accuracy", "removed"),
        "Coverage": ("coverage", "retained"),
        "Ties": ("ties",),
        "Log-loss": ("log_loss",),
        "Calibration error": ("calibration_error",),
    }.items():
        expected = [value(figure, *path) for figure in figures]
        assert plain(page.row(heading)) == [score(number) for number in expected], heading
    changed = [value(figure, "changed", "retained") for figure in figures]
    assert page.row("Changed, inputs of retained labels") == [percent(x) for x in changed]
    for of, path in enumerate([("kl_to_base",), ("to_retrained", "kl")]):
        for kind, words in (("retained", "retained labels"), ("removed", "removed labels")):
            cells = plain(page.row(f"KL, inputs of {words}", of))
            assert [cell.split()[0] for cell in cells] == [
                score(value(figure, *path, kind)) for figure in figures
            ]
    ratios = [value(figure, "over_floor", "js", "removed") for figure in figures]
    shown = [cell.split()[1:] for cell in page.row("JS, inputs of removed labels")]
    assert shown == [[ratio(x)] if x is not None else [] for x in ratios]


def value(entry, *path):
    for key in path:
        entry = (entry or {}).get(key)
    return entry


def test_the_best_of_a_row_is_bold(summary):
    edited = copy.deepcopy(summary)
    names = [figure["output"] for figure in edited["figures"]]
    losses = [0.1, 0.50001, 0.4, 0.5, 0.40001, 0.7, 0.6, 0.8, 0.9]
    for figure, loss in zip(edited["figures"], losses, strict=True):
        figure["log_loss"] = loss
        figure["coverage"]["retained"] = 0.25
        if figure.get("to_retrained"):
            figure["to_retrained"]["kl"]["retained"] = 0.5
    edited["figures"][names.index("mask, calibrated")]["to_retrained"]["kl"]["retained"] = 0.3
    edited["figures"][names.index("retrained again")]["to_retrained"]["kl"]["retained"] = 0.1
    page = Page(render(edited))

    def bold(heading, of=0):
        cells = zip(names, page.row(heading, of), strict=True)
        return [output for output, cell in cells if cell.startswith("*")]

    # Equal as rounded on the page, and the base model's .1 does not count.
    assert bold("Log-loss") == ["OSR, calibrated", "mask, calibrated"]
    assert bold("Coverage") == []
    assert bold("KL, inputs of retained labels", of=0) == []
    assert bold("KL, inputs of retained labels", of=1) == ["mask, calibrated"]


def test_the_sentence_and_the_plots_follow_the_summary(summary):
    page = Page(render(summary))
    base, shown = summary["figures"][:2]
    text = " ".join(page.text.split())
    assert (
        f"Without bee and elk, {percent(shown['changed']['retained'])} of the predictions on "
        f"inputs of retained labels change. The share that is right goes from "
        f"{percent(base['share_right']['retained'])} to "
        f"{percent(shown['share_right']['retained'])}; accuracy, the mean of that share over "
        f"labels, goes from {score(base['accuracy']['retained'])} to "
        f"{score(shown['accuracy']['retained'])}. A model retrained without them changes "
    ) in text
    for origin in summary["destinations"]:
        answers = {to["label"]: to["share"] for to in origin["answers"]}
        for to in origin["to"]:
            answered = percent(answers.get(to["label"], 0))
            said = f"{answered} of the answers, {percent(to['share'])} of the confidence"
            assert f"{origin['label']} to {to['label']}: {said}" in text
    for entry in summary["by_label"]:
        after = "removed" if entry["after"] is None else score(entry["after"])
        assert [score(entry["before"]), after] in [row[1:3] for row in page.rows(entry["label"])]
    for kind, changed in summary["most_changed"].items():
        for row in changed:
            now = "✓right" if row["after"] == row["label"] else "✗wrong"
            assert [
                str(row["row"]),
                row["label"],
                f"{row['before']} {percent(row['before_confidence'])}",
                f"{row['after']} {percent(row['after_confidence'])}",
                *([now] if kind == "retained" else []),
            ] in list(itertools.chain(*page.tables))
    for bins in (summary["reliability"][k] for k in ("base model", "OSR, calibrated", "retrained")):
        for b in bins:
            assert f"Confidence {score(b['confidence'])}, right {score(b['accuracy'])}" in text
    floor = summary["floor"]["kl"]["removed"]
    assert f"1{TIMES} is {score(floor)}" in text
    assert "does not erase" in text
    assert "close to mask-and-renormalise" in text


def test_unknown_is_drawn_over_the_threshold(summary):
    page, curve = Page(render(summary)), summary["unknown"]
    text, half = " ".join(page.text.split()), curve[50]
    assert (
        f"Above .5, that catches {percent(half['caught'])} of the inputs of removed labels and "
        f"loses {percent(half['lost'])} of the inputs of retained labels."
    ) in text
    assert "gives inputs of removed labels away to whoever sees the answers." in text
    table = next(table for table in page.tables if table[0] == ["Threshold", "Caught", "Lost"])
    assert table[1:] == [
        [str(at["above"]), percent(at["caught"]), percent(at["lost"])]
        for at in (curve[10], curve[25], curve[50], curve[75], curve[90])
    ]
    lines = [target for key, target in page.values if key == "points"]
    for line, kind in zip(lines, ("caught", "lost"), strict=True):
        for point, at in zip(line.split(), curve, strict=True):
            x, y = map(float, point.split(","))
            assert x == pytest.approx(100 * at["above"], abs=0.01)
            assert 100 - y == pytest.approx(100 * at[kind], abs=0.01)


def test_without_rows_of_removed_labels_unknown_only_loses(trials):
    page = Page(render(trials["no removed rows"]))
    text = " ".join(page.text.split())
    assert "Above .5, that loses " in text
    assert "catches" not in text.replace("A lower threshold catches", "")
    assert ["Threshold", "Lost"] in [table[0] for table in page.tables]
    assert len([key for key, _ in page.values if key == "points"]) == 1


def test_lengths_on_the_plots_are_in_proportion(summary):
    drawn = plots.accuracy(summary)
    low, high = drawn["ticks"][0].value, drawn["ticks"][-1].value
    for at in drawn["retained"]:
        assert at.before_at == pytest.approx(100 * (at.before - low) / (high - low), abs=0.01)
        assert at.after_at == pytest.approx(100 * (at.after - low) / (high - low), abs=0.01)
    gains = [abs(at.change) * at.rows for at in drawn["retained"]]
    assert gains == pytest.approx(sorted(gains, reverse=True))
    for panel in plots.distances(summary):
        for spot in panel.spots:
            assert spot.at == pytest.approx(spot.over * panel.floor, abs=0.1)
    assert len(plots.distances(summary)) == 4
    for diagram in plots.reliability(summary):
        bins = summary["reliability"][diagram["output"]]
        assert [(p.x, 100 - p.y) for p in diagram["points"]] == [
            (
                pytest.approx(100 * b["confidence"], abs=0.01),
                pytest.approx(100 * b["accuracy"], abs=0.01),
            )
            for b in bins
        ]


@given(st.floats(0, 100), st.floats(0, 100))
def test_an_axis_holds_its_range_between_round_ticks(one, other):
    low, high = min(one, other), max(one, other)
    ticks = axis(low, high)
    assert ticks[0].value <= low + 1e-6
    assert ticks[-1].value >= high - 1e-6
    assert 2 <= len(ticks) <= 5
    assert [ticks[0].at, ticks[-1].at] == [0, 100]
    assert len({tick.text for tick in ticks}) == len(ticks)
    for tick in ticks:
        assert float(tick.text) == pytest.approx(tick.value, abs=1e-8)


@pytest.mark.parametrize(
    "case",
    ["two retrained", "one retrained", "none retrained", "a filter given", "no removed rows"],
)
def test_what_is_missing_is_left_out(trials, case):
    text = " ".join(Page(render(trials[case])).text.split())
    retrained = case in ("two retrained", "one retrained")
    given = case in ("a filter given", "no removed rows")
    assert ("No retrained model was given" in text) == (not retrained)
    assert ("retrained again" in text) == (case == "two retrained")
    assert ("Only one retrained model was given" in text) == (case == "one retrained")
    assert ("The filter was given, not fitted here" in text) == given
    assert ("No filter is calibrated here" in text) == given
    assert ("What calibration gives" in text) == (not given)
    assert ("There are no rows of removed labels" in text) == (case == "no removed rows")
    assert "None" not in text
    assert "nan" not in text.lower()
    # Sentences that a condition put together keep their spaces.
    assert not re.findall(r"[a-z][.:;,][A-Z]\w*| [.,;](?!\d)", text)


def test_even_less_is_needed(summary):
    bare = copy.deepcopy(summary)
    bare["figures"] = [f for f in bare["figures"] if f["output"] in ("base model", "mask")]
    for figure in bare["figures"]:
        figure |= {"log_loss": None, "calibration_error": None, "ties": None}
        for key in ("accuracy", "coverage", "kl_to_base", "changed"):
            figure[key] = {"retained": None, "removed": None}
        figure |= {"to_retrained": None, "over_floor": None}
    bare |= {
        "shown": "mask",
        "floor": None,
        "reliability": {"base model": [], "mask": []},
        "most_changed": {"retained": [], "removed": []},
        "notes": ["mask: There is <b>nothing</b> to calibrate on."],
    }
    for entry in bare["by_label"]:
        entry |= {"before": None, "after": None, "rows": 0}
    text = " ".join(Page(render(bare)).text.split())
    assert "mask: There is <b>nothing</b> to calibrate on." in text
    assert "There are no rows of retained labels" in text
    assert "No prediction changes." in text
    assert "OSR was not tried here." in text
    assert "None" not in text


def test_labels_are_inert(summary):
    kind = Page(render(renamed(summary, {label: label * 30 for label in CLASSES})))
    html = render(renamed(summary, HOSTILE))
    hostile = Page(html)
    assert hostile.elements == kind.elements
    assert [v for k, v in hostile.values if k == "href"] == [
        v for k, v in kind.values if k == "href"
    ]
    for label in HOSTILE.values():
        assert name(label) in hostile.text
    assert len(html.encode()) < 200_000


def test_a_thousand_labels_can_be_read(summary):
    html = render(with_labels(summary, 1000, removed=300))
    page = Page(html)
    assert "Without 300 of 1,000 labels" in page.text
    assert "And 288 more removed labels" in page.text
    assert "And 976 more labels" in page.text
    assert len(html.encode()) < 700_000
    # What is drawn, and not folded away, stays short.
    outside = re.sub(r"<details>.*?</details>", "", html, flags=re.DOTALL)
    assert outside.count("<tr") < 250
    assert len(render(with_labels(summary, 30_000, removed=9000)).encode()) < 2_000_000


def test_the_page_needs_nothing_else(summary):
    html = render(summary)
    for far in ("http:", "https:", "//", "url(", "@import", "src=", "<script", "javascript"):
        assert far not in html, far
    page = Page(html)
    targets = [target for key, target in page.values if key == "href"]
    ids = {target for key, target in page.values if key == "id"}
    assert targets
    assert all(target.startswith("#") and target[1:] in ids for target in targets)
    assert not [key for key, _ in page.values if key.startswith("on")]
    assert len(html.encode()) < 200_000


def test_the_same_summary_gives_the_same_page(summary):
    before = copy.deepcopy(summary)
    assert render(summary) == render(json.loads(json.dumps(summary)))
    assert summary == before


def test_numbers_are_written_plainly():
    ratios = [ratio(number) for number in (1.0926, 12.44, 123.4)]
    assert ratios == [f"1.09{TIMES}", f"12.4{TIMES}", f"123{TIMES}"]
    assert signed(-0.012) == "\N{MINUS SIGN}.0120"
    assert {write(None) for write in (ratio, signed, score, percent)} == {"\N{EN DASH}"}
    assert name("a\x00\ud800") == "a\ufffd\ufffd"


def test_without_jinja_the_extra_is_named(summary, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    report.environment.cache_clear()
    with pytest.raises(UnlabelError, match=r"pip install 'unlabel\[cli\]'"):
        render(summary)


WIDER = "document.documentElement.scrollWidth - innerWidth"
# The texts of an axis that lie on the next one.
OVERLAPPING = """
[...document.querySelectorAll('svg.axis')].flatMap(axis => {
  const texts = [...axis.querySelectorAll('text')].filter(text => text.getBBox().width)
  const boxes = texts.map(text => text.getBoundingClientRect())
  return texts.slice(1).filter((_, i) => boxes[i + 1].left < boxes[i].right).map(String)
})"""
# The parts of names, between the signs that join them, that are on more than one line.
BROKEN = """
[...document.querySelectorAll('table bdi')].flatMap(name => [...name.childNodes]).filter(part => {
  const range = document.createRange()
  range.selectNodeContents(part)
  const lines = new Set([...range.getClientRects()].map(line => line.top))
  return part.nodeName == '#text' && lines.size > 1
}).map(part => part.data).filter(text => !text.includes(' '))"""


@pytest.mark.parametrize(
    "content",
    ["plain", "hostile", "many labels", "no retrained", "many changes", "intents", "no truth"],
)
def test_the_page_in_a_browser(browser, trials, tmp_path, content):
    summary = {
        "plain": trials["two retrained"],
        "hostile": renamed(trials["two retrained"], HOSTILE),
        "many labels": with_labels(trials["two retrained"], 1000, removed=300),
        "no retrained": trials["no removed rows"],
        "many changes": renamed(
            with_labels(trials["one retrained"], 1000, 100, merged=100, renamed=70, split=30),
            {"group 0 of them": "y" * 400, "new name 0, also long": HOSTILE["dog"]},
        ),
        "intents": summarise(of_intents()),
        "no truth": summarise(of_intents(truth=False)),
    }[content]
    page = tmp_path / "report.html"
    page.write_text(render(summary), encoding="utf-8")
    papers = {}
    for width, scheme in itertools.product((1280, 390), ("light", "dark")):
        requests, trouble = browser.open(page, width, scheme)
        assert requests == [page.as_uri()]
        assert trouble == []
        assert browser.value("innerWidth") == width
        assert browser.value(WIDER) <= 0
        browser.value("document.querySelectorAll('details').forEach(d => { d.open = true })+''")
        assert browser.value(WIDER) <= 0
        assert browser.value(OVERLAPPING) == []
        if content in ("intents", "no truth"):
            assert browser.value(BROKEN) == []
        papers[scheme] = browser.value("getComputedStyle(document.body).backgroundColor")
    assert papers["light"] != papers["dark"]


def test_the_browser_would_tell(browser, tmp_path):
    page = tmp_path / "bad.html"
    page.write_text(
        "<!DOCTYPE html><img src='https://nowhere.invalid/x.png'><script>console.log(1); x()"
        "</script><div style='width: 2000px'>wide</div>"
    )
    requests, trouble = browser.open(page, 390, "light")
    assert "https://nowhere.invalid/x.png" in requests
    assert {"Runtime.consoleAPICalled", "Runtime.exceptionThrown"} <= {name for name, _ in trouble}
    assert browser.value(WIDER) > 0
    page.write_text(
        "<!DOCTYPE html><svg class='axis'><text x='0' y='9'>0.80</text><text x='3' y='9'>1</text>"
        "</svg><table><td style='max-width: 2em; overflow-wrap: anywhere'><bdi>unbroken</bdi>"
    )
    browser.open(page, 390, "light")
    assert len(browser.value(OVERLAPPING)) == 1
    assert browser.value(BROKEN) == ["unbroken"]
