"""The page's own arithmetic against Python's, on the same rows."""

import json
import tomllib
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import doors
import plain_impact
import plain_plan
from explore_data import data_of, decoded, largest_move
from unlabel import LabelPlan
from unlabel.explore import render

NAMES = ["cat", "dog", "fox", "owl", "pig", "rat", "12", "7"]
# What the page computes for a plan, given as pairs of a label and the parts of its destination.
COMPUTE = """((pairs, method, threshold) => {
  const plan = { ...NO_PLAN, changes: new Map(pairs) };
  const outcome = outcomeOf(page.sample.classes, plan);
  const result = applyRecipe(page.sample, fitRecipe(page.sample, outcome, method), outcome);
  const judged = judge(page.sample, outcome, result, threshold);
  const name = (answer) => outcome.classes[answer] ?? null;
  return {
    classes: outcome.classes,
    confidences: [...result.confidences],
    removedMass: [...result.removedMass],
    counts: judged.counts,
    moves: movesOf(page.sample, judged).map(({ from, to, rows }) =>
      [page.sample.classes[from], name(to), rows]),
    goes: destinationsOf(page.sample, judged).map(({ column, to }) =>
      [page.sample.classes[column], to.map(({ answer, rows }) => [name(answer), rows])]),
    accuracy: accuracyByLabel(judged).map(({ label, rows, before, after }) =>
      [label, rows, before, after]),
    suggestions: suggestMerges(judged, 5).map(({ pair, confused, gain }) =>
      [...pair.map(name), confused, gain]),
    again: [...readPlan(asToml(plan), page.sample.classes).changes],
  };
})(%s)"""


def pairs_of(changes):
    """Lay changes out as the page does."""
    return [
        [
            label,
            [] if to is None else [*map(list, (to if isinstance(to, dict) else {to: 1}).items())],
        ]
        for label, to in changes.items()
    ]


def computed(browser, changes, method="osr", threshold=None):
    arguments = ", ".join(map(json.dumps, (pairs_of(changes), method, threshold)))
    return browser.value(COMPUTE % arguments)


class Opened(NamedTuple):
    rows: Any
    logits: Any
    labels: Any
    stated: float

    def __repr__(self):
        return "the page"  # which a failing example would fill pages with


@pytest.fixture(scope="module")
def opened(browser, tmp_path_factory):
    """A page of made rows, open in the browser, with its data."""
    random = np.random.default_rng(3)
    truth = random.permutation(np.repeat(np.arange(len(NAMES)), 9))
    logits = random.normal(0, 1.5, (len(truth), len(NAMES)))
    logits[np.arange(len(truth)), truth] += random.normal(2, 2, len(truth))
    logits[:5, 1] = -np.inf  # confidences of 0
    labels = np.array(NAMES)[truth]
    html = render(logits, NAMES, labels, kind="logits")
    page = tmp_path_factory.mktemp("page") / "explore.html"
    page.write_text(html, encoding="utf-8")
    browser.open(page, 1280, "light")
    data = data_of(html)
    assert data["numbers"] == [*range(len(truth))]
    return Opened(np.array(decoded(data)), logits, labels, largest_move(data))


def most_confused(changes, classes, truth, result, is_known):
    """Count the rows of pairs that are taken for each other, of the five pairs with most rows."""
    pairs = Counter()
    for true, row, known in zip(truth, result.tolist(), is_known, strict=True):
        goal, answer = plain_impact.new_label(changes, true), classes[row.index(max(row))]
        if known and goal is not None and answer != goal:
            pairs[tuple(sorted((classes.index(goal), classes.index(answer))))] += 1
    most = sorted(pairs, key=lambda pair: (-pairs[pair], pair))[:5]
    # Two labels that are merged leave one, which is always right.
    found = most if len(classes) > 2 else []
    return {(classes[first], classes[second]): pairs[first, second] for first, second in found}


@settings(max_examples=50)
@given(
    plain_plan.changes_of(NAMES),
    st.sampled_from(["osr", "mask"]),
    st.sampled_from([None, 0.1, 0.5]),
)
def test_random_plans(browser, opened, changes, method, threshold):
    rows, logits, labels, stated = opened
    found = computed(browser, changes, method, threshold)
    options = {"classes": NAMES, "plan": changes, "method": method}
    fitted = doors.fit(rows, labels, **options)
    assert found["classes"] == [*fitted.classes_out] == plain_plan.result_labels(changes, NAMES)
    result = np.reshape(found["confidences"], (len(rows), -1))
    np.testing.assert_allclose(result, fitted.apply(rows), atol=1e-13, rtol=1e-11)
    np.testing.assert_allclose(found["removedMass"], fitted.run(rows).removed_mass, atol=1e-14)
    exact = doors.fit(logits, labels, kind="logits", **options).apply(logits)
    assert np.abs(result - exact).max() <= stated
    of_effect = {label: to for label, to in changes.items() if to != label}
    assert found["again"] == pairs_of(of_effect)

    truth = labels.tolist()
    counts, pairs, _, goes_to = plain_impact.recount(changes, NAMES, rows, result, truth, threshold)
    names = {
        "rows": "rows",
        "changed": "changed",
        "unknown": "unknown",
        "rows_of_retained_labels": "judged",
        "right_before": "rightBefore",
        "right_after": "rightAfter",
        "corrected": "corrected",
        "regressed": "regressed",
    }
    assert {own: counts[name] for name, own in names.items()} == {
        own: found["counts"][own] for own in names.values()
    }
    assert {(old, new): rows for old, new, rows in found["moves"]} == dict(pairs)
    sizes = [rows for *_, rows in found["moves"]]
    assert sizes == sorted(sizes, reverse=True)
    assert {label: dict(map(tuple, to)) for label, to in found["goes"]} == goes_to
    right = {label: [] for label in found["classes"]}
    losses = []
    for true, row in zip(truth, result, strict=True):
        goal = plain_impact.new_label(changes, true)
        if goal is not None:
            right[goal].append(row)
            losses.append(-np.log(max(row[found["classes"].index(goal)], 1e-12)))
    assert {label: rows for label, rows, *_ in found["accuracy"]} == {
        label: len(own) for label, own in right.items() if own
    }
    assert sum(after for *_, after in found["accuracy"]) == counts["right_after"]
    assert sum(before for *_, before, _ in found["accuracy"]) == counts["right_before"]
    is_known = [threshold is None or mass <= threshold for mass in found["removedMass"]]
    expected = most_confused(changes, found["classes"], truth, result, is_known)
    assert {(*pair,): confused for *pair, confused, _ in found["suggestions"]} == expected
    order = [(-gain, -confused) for *_, confused, gain in found["suggestions"]]
    assert order == sorted(order)
    if losses:
        assert found["counts"]["logLoss"] == pytest.approx(np.mean(losses), rel=1e-12)


def merged_by_hand(changes, first, second):
    """Send to the first label all that goes to the second, in part too."""
    merged = {}
    for label in NAMES:
        to = changes.get(label, label)
        if isinstance(to, dict):
            weights = {}
            for name, weight in to.items():
                name = first if name == second else name
                weights[name] = weights.get(name, 0) + weight
            merged[label] = weights if len(weights) > 1 else next(iter(weights))
        else:
            merged[label] = first if to == second else to
    return merged


@settings(max_examples=30)
@given(plain_plan.changes_of(NAMES))
def test_a_suggestion_gains_what_the_merge_brings(browser, opened, changes):
    changes = {label: to for label, to in changes.items() if to != label}
    suggested = computed(browser, changes)
    before = suggested["counts"]
    for first, second, _, gain in suggested["suggestions"]:
        arguments = ", ".join(map(json.dumps, (first, second)))
        pairs = browser.value(
            f"[...withMerged({{ changes: new Map({json.dumps(pairs_of(changes))}) }}, "
            f"page.sample.classes, {arguments}).changes]"
        )
        merged = merged_by_hand(changes, first, second)
        of_effect = {label: to for label, to in merged.items() if to != label}
        assert dict(pairs) == dict(pairs_of(of_effect))
        removed = [label for label, parts in pairs if not parts]
        assert removed == [label for label, to in changes.items() if to is None]
        after = computed(
            browser,
            {label: to for label, to in merged.items() if to is not None} | dict.fromkeys(removed),
        )["counts"]
        if after["judged"] == before["judged"]:  # else the labels of some rows become known
            assert after["rightAfter"] - before["rightAfter"] == gain


@pytest.mark.parametrize(
    "text",
    [
        "[changes]\nrat = false\n12 = { pig = 0.25, 7 = 0.5, owl = 0.25 }\nfox = 'owl'\n"
        "cat = false\n",
        "title = 'x'\n[changes]\n'rat' = false\n'12'.pig = 0.25\n'12'.'7' = 0.5\n12.owl = 0.25\n"
        "fox = 'owl'# 7 = 8\n\ncat=false\n",
        '\ufeffchanges = {rat=false, "12" = {pig=0.25, "7"=0.5, owl=0.25}, fox=["owl"], '
        '"cat"=false}',
        '[changes]\nrat = false\nfox = "owl"\ncat = false\n[changes.12]\npig = 0.25\n7 = 0.5\n'
        "owl = 0.25",
    ],
)
def test_plans_keep_their_order_however_they_are_written(browser, opened, text):
    read = browser.value(f"[...readPlan({json.dumps(text)}, page.sample.classes).changes]")
    split = ["12", [["pig", 0.25], ["7", 0.5], ["owl", 0.25]]]
    others = [["rat", []], ["fox", [["owl", 1]]], ["cat", []]]
    at = 3 if "[changes.12]" in text else 1
    assert read == [*others[:at], split, *others[at:]]
    if not text.startswith("\ufeff"):
        assert [*tomllib.loads(text)["changes"]] == [label for label, _ in read]


@pytest.mark.parametrize(
    ("to", "label"),
    [("7", "7"), ("[7]", "7"), ("[\n 7,\n]", "7"), ("9007199254740993", "9007199254740993")],
)
def test_whole_numbers_are_labels(browser, opened, tmp_path, to, label):
    text = f"[changes]\ncat = {to}\n"
    read = browser.value(f"[...readPlan({json.dumps(text)}, page.sample.classes).changes]")
    assert read == [["cat", [[label, 1]]]]
    (tmp_path / "plan.toml").write_text(text)
    assert str(LabelPlan.load(tmp_path / "plan.toml").changes["cat"]) == label


@pytest.mark.parametrize(
    "changes",
    [
        {"cat": {"dog": 0.500004, "fox": 0.5}},  # weights are divided by their sum
        {"cat": {"dog": 1, "fox": 1e-6}},
        {"cat": {"": 0.25, "7": 0.75}, "dog": ""},
    ],
)
def test_plans_that_are_written_are_read_again(browser, opened, tmp_path, changes):
    found = computed(browser, changes)
    pairs = pairs_of(changes)
    text = browser.value(f"asToml({{ changes: new Map({json.dumps(pairs)}) }})")
    assert browser.value(f"[...readPlan({json.dumps(text)}, page.sample.classes).changes]") == pairs
    (tmp_path / "plan.toml").write_text(text)
    fitted = doors.fit(
        opened.rows, opened.labels, classes=NAMES, plan=LabelPlan.load(tmp_path / "plan.toml")
    )
    result = np.reshape(found["confidences"], (len(opened.rows), -1))
    np.testing.assert_allclose(result, fitted.apply(opened.rows), atol=1e-13, rtol=1e-11)


def test_names_cannot_turn_the_text_around_them(browser, opened):
    name = "a\u2069\u202eb\u200f\x7f"
    written = browser.value(f"[quoted({json.dumps(name)}), nameOf({json.dumps(name)})]")
    assert written[0] == '"a\\u2069\\u202eb\\u200f\\u007f"'
    assert json.loads(written[0]) == tomllib.loads(f"name = {written[0]}")["name"] == name
    assert not set(written[1]) & {"\u2069", "\u202e", "\x7f"}


def test_real_outputs_stay_within_the_stated_rounding(browser, cifar100, tmp_path):
    logits, truth = cifar100
    names = [f"label {label}" for label in range(100)]
    labels = np.array(names)[truth]
    html = render(logits, names, labels, kind="logits")
    (tmp_path / "explore.html").write_text(html, encoding="utf-8")
    browser.open(tmp_path / "explore.html", 1280, "light")
    removed = names[:20]
    for method in ("osr", "mask"):
        found = computed(browser, dict.fromkeys(removed), method)
        result = np.reshape(found["confidences"], (len(logits), -1))
        fitted = doors.fit(
            logits, labels, classes=names, remove=removed, method=method, kind="logits"
        )
        exact = fitted.apply(logits)
        assert np.abs(result - exact).max() <= largest_move(data_of(html))
        assert (result.argmax(axis=1) == exact.argmax(axis=1)).all()


@pytest.mark.parametrize("method", ["osr", "mask"])
def test_rows_at_the_edges_of_the_method(browser, tmp_path, method):
    names = ["sure", "alone", "twins", "tied", "rest", "last"]
    rows = np.array(
        [
            *([1, 0, 0, 0, 0, 0],) * 3,  # nothing is left without the label
            [0.2, 0.5, 0.1, 0.1, 0.05, 0.05],  # the only row of its label
            *([0.3, 0.1, 0.4, 0.1, 0.07, 0.03],) * 11,  # whose distance from their mean is rounding
            *([1 / 6] * 6, [0, 0, 0, 0.5, 0.5, 0], [0, 0, 0, 0, 0, 1]),
            *([0.5, 0.5, 0, 0, 0, 0], [0, 0, 0.9, 0, 0.1, 0]),
            [0, 0, 1e-8, 0, 0, 1 - 1e-8],
        ]
    )
    labels = ["sure"] * 3 + ["alone"] + ["twins"] * 11 + ["tied"] * 3 + ["rest"] * 2 + ["last"]
    html = render(rows, names, labels)
    (tmp_path / "explore.html").write_text(html, encoding="utf-8")
    assert browser.open(tmp_path / "explore.html", 1280, "light")[1] == []
    held = np.array(decoded(data_of(html)))
    for removed in (["sure"], ["alone"], ["twins"], ["tied"], ["sure", "alone"], names[:5]):
        found = computed(browser, dict.fromkeys(removed), method, 0.0)
        fitted = doors.fit(held, labels, classes=names, remove=removed, method=method)
        result = np.reshape(found["confidences"], (len(rows), -1))
        np.testing.assert_allclose(result, fitted.apply(held), atol=1e-12)
        mass = fitted.run(held).removed_mass
        np.testing.assert_allclose(found["removedMass"], mass, atol=1e-14)
        assert found["counts"]["unknown"] == sum(mass > 0)
        is_removed = np.isin(labels, removed)
        assert found["counts"]["caught"] == sum(mass[is_removed] > 0)
        assert found["counts"]["lost"] == sum(mass[~is_removed] > 0)
