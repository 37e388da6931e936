"""The page's impact: counts, moves, labels with intervals, destinations, and its sources."""

import copy
import itertools
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest

from report_pages import CLASSES, HOSTILE, REMOVED, Page, of_intents, outputs, renamed

pytest.importorskip("jinja2", reason="a report needs the extra: pip install 'unlabel[cli]'")

from unlabel.evaluation.sources import SourceFilter, Sources, SourceTable
from unlabel.evaluation.summary import summarise
from unlabel.evaluation.summary_check import check_summary
from unlabel.evaluation.trial import try_labels
from unlabel.report import impact, plots, render
from unlabel.report.destinations import destinations
from unlabel.report.formatting import count, percent, pieces, score

SOURCES = Sources(
    (
        SourceTable("base model", "base.parquet", "a1" * 32, 462),
        SourceTable("retrained", "<script>.csv", "b2" * 32, 462),
    ),
    SourceFilter("v2.safetensors", "c3" * 32),
    "2026-01-31",
)


@pytest.fixture(scope="module")
def summary():
    return summarise(of_intents(sources=SOURCES))


@pytest.fixture(scope="module")
def without_truth():
    return summarise(of_intents(truth=False))


@pytest.fixture(scope="module")
def pages(summary, without_truth):
    return {"with truth": Page(render(summary)), "without": Page(render(without_truth))}


def words(page):
    return " ".join(page.text.split())


def shown(summary):
    return next(e for e in summary["figures"] if e["output"] == summary["shown"])


def table_of(page, *headings):
    return [table for table in page.tables if table[0][: len(headings)] == [*headings]]


def test_the_page_has_the_counts_of_the_summary(summary, pages):
    counts, text = shown(summary)["impact"], words(pages["with truth"])
    assert 0 < counts["unknown"] < counts["changed"]
    assert min(counts["corrected"], counts["regressed"]) > 1
    rows, judged = counts["rows"], counts["rows_of_retained_labels"]
    assert (
        f"Of {rows} answers, {counts['changed']} ({percent(counts['changed'] / rows)}) change with "
        f"OSR, {counts['unknown']} of them to “unknown”. Of {judged} inputs of retained labels, "
        f"{counts['corrected']} are corrected and {counts['regressed']} regressed: "
        f"{counts['right_before']} were right before, {counts['right_after']} are now."
    ) in text
    parts = {
        "another label": (counts["changed"] - counts["unknown"], rows),
        "unknown": (counts["unknown"], rows),
        "unchanged": (rows - counts["changed"], rows),
        **{name: (counts[name], judged) for name in ("corrected", "regressed", "neither")},
    }
    for name, (part, of) in parts.items():
        assert f"{name} {part} {percent(part / of)}" in text
    before, after = summary["impact"]["before"], summary["impact"]["after"]
    for name, key in (("Log-loss", "log_loss"), ("Calibration error", "calibration_error")):
        assert f"{name} {score(before[key])} → {score(after[key])}" in text
    right = [percent(counts[name] / judged) for name in ("right_before", "right_after")]
    assert f"Answers that are right {right[0]} → {right[1]} A share of rows" in text


def test_strips_are_in_proportion_and_small_parts_can_be_seen(summary):
    counts = shown(summary)["impact"] | {"rows": 100_000, "changed": 30_001, "unknown": 30_000}
    counts |= {"rows_of_retained_labels": 50, "corrected": 0, "regressed": 25, "neither": 25}
    every, judged = impact.strips(counts)
    for strip in (every, judged):
        ends = [(part.at, part.at + part.width) for part in strip.parts]
        assert ends[0][0] == 0
        assert ends[-1][1] == pytest.approx(100, abs=0.02)
        for (_, end), (start, _) in itertools.pairwise(ends):
            assert start == pytest.approx(end, abs=0.02)
    another, unknown, unchanged = every.parts
    assert 0.5 < another.width < 1
    assert unknown.width / unchanged.width == pytest.approx(30_000 / 69_999, abs=0.001)
    assert [part.width for part in judged.parts] == [0, 50, 50]


@pytest.mark.parametrize("kind", ["with truth", "without"])
def test_the_largest_moves_are_those_of_the_summary(summary, without_truth, pages, kind):
    of = summary if kind == "with truth" else without_truth
    listed = [row for table in table_of(pages[kind], "From", "To") for row in table[1:]]
    assert listed == [
        [pair["from"], "unknown" if pair["to"] is None else pair["to"], "", count(pair["rows"])]
        for pair in of["impact"]["pairs"]
    ]
    drawn = impact.moves(of)["drawn"]
    most = max(pair["rows"] for pair in of["impact"]["pairs"])
    for move in drawn:
        assert move.width == pytest.approx(100 * move.rows / most, abs=0.01)


def test_other_moves_are_counted(summary):
    edited = copy.deepcopy(summary)
    edited["impact"]["other_pairs"] = {"pairs": 12, "rows": 3456}
    assert "12 other pairs of labels: 3,456 more rows." in words(Page(render(edited)))


@pytest.mark.parametrize("kind", ["with truth", "without"])
def test_labels_have_the_counts_and_intervals_of_the_summary(summary, without_truth, pages, kind):
    of, page = (summary if kind == "with truth" else without_truth), pages[kind]
    entries = {entry["label"]: entry for entry in of["impact"]["by_label"]}
    laid_out = impact.by_label(of)
    sides = {"regressed": -1, "corrected": 1} if kind == "with truth" else {"changed": 1}
    text, highest = words(page), laid_out["ticks"][-1].value
    assert laid_out["drawn"]
    for row in laid_out["drawn"]:
        entry = entries[row.label]
        said = ", ".join(
            f"{name} {percent(entry[name]['rows'] / entry['rows'])} "
            f"({percent(entry[name]['low'])} to {percent(entry[name]['high'])})"
            for name in sides
        )
        assert f"{row.label}: {said} of {entry['rows']} rows" in text
        cells = [str(entry[name]["rows"]) for name in sides] + [str(entry["rows"])]
        assert cells in [cells[1:] for cells in page.rows(row.label)]
        for share in row.shares:
            side, half = sides[share.name], len(sides)
            zero = 50 if half == 2 else 0
            ends = [entry[share.name][end] for end in ("low", "high")]
            expected = sorted(zero + side * 100 * end / highest / half for end in ends)
            assert [share.low_at, share.high_at] == pytest.approx(expected, abs=0.02)
            assert share.low_at <= share.at <= share.high_at
            assert 0 <= share.low_at <= share.high_at <= 100
    moved = [sum(entries[row.label][name]["rows"] for name in sides) for row in laid_out["drawn"]]
    assert moved == sorted(moved, reverse=True)
    listed = {row.label: row.counts for row in laid_out["drawn"] + laid_out["more"]}
    assert listed == {
        label: {
            name: entry[name] and entry[name]["rows"]
            for name in ("changed", "unknown", "corrected", "regressed")
        }
        for label, entry in entries.items()
    }


def test_few_rows_look_uncertain():
    labels = np.repeat(np.arange(6), [4, 300, 300, 300, 300, 300])
    rows = outputs(labels, range(6), 0)
    trial = try_labels(rows, np.array(CLASSES)[labels], classes=CLASSES, plan=REMOVED)
    summary = summarise(trial)
    laid_out = plots.accuracy(summary)
    low, high = (laid_out["ticks"][end].value for end in (0, -1))
    drawn = {at.label: at for at in laid_out["retained"]}
    for at in (*drawn.values(), *laid_out["lost"]):
        for share, span in ((at.before, at.before_span), (at.after, at.after_span)):
            if share is None:
                assert span is None
                continue
            interval = binomtest(round(share * at.rows), at.rows).proportion_ci(method="wilson")
            expected = [100 * (end - low) / (high - low) for end in interval]
            assert [*span] == pytest.approx(expected, abs=0.01)
            assert 0 <= span[0] <= span[1] <= 100

    def length(label):
        return drawn[label].after_span[1] - drawn[label].after_span[0]

    assert length("ant") > 4 * length("fox")


def test_answers_stand_beside_the_mean_confidence(summary, pages):
    text = words(pages["with truth"])
    laid_out = destinations(summary)
    assert len(laid_out["panels"]) == 2
    for origin, panel in zip(summary["destinations"], laid_out["panels"], strict=True):
        answers = {to["label"]: to["share"] for to in origin["answers"]}
        mass = {to["label"]: to["share"] for to in origin["to"]}
        for goal in panel.goals:
            assert goal.answers.share in (answers.get(goal.label), 0.0)
            assert goal.mass.share == mass.get(goal.label)
            assert (
                f"{origin['label']} to {goal.label}: {percent(goal.answers.share)} of the answers, "
                f"{percent(goal.mass.share)} of the confidence"
            ) in text
        assert panel.unknown.answers.share == answers[None]
        assert f"{origin['label']} to unknown: {percent(answers[None])} of the answers" in text
        every = [*panel.goals, panel.unknown, panel.others]
        assert sum(goal.answers.share or 0 for goal in every) == pytest.approx(1)
        assert sum(goal.mass.share or 0 for goal in every) == pytest.approx(1)


def test_others_and_unknown_do_not_set_the_scale(summary):
    edited = copy.deepcopy(summary)
    first, second = edited["destinations"]
    label, other = edited["labels"]["retained"][:2]
    first["to"] = [{"label": label, "share": 0.04}, {"label": other, "share": 0.02}]
    first["answers"] = [
        {"label": None, "rows": 90, "share": 0.9},
        {"label": label, "rows": 8, "share": 0.08},
        {"label": other, "rows": 2, "share": 0.02},
    ]
    second |= {"to": [], "answers": []}
    laid_out = destinations(edited)
    (panel,) = laid_out["panels"]
    widths = {goal.label: (goal.answers.width, goal.mass.width) for goal in panel.goals}
    assert widths == {label: (100, 50), other: (25, 25)}
    assert not any(bar.is_cut for goal in panel.goals for bar in goal[1:])
    assert (panel.unknown.answers.width, panel.unknown.answers.is_cut) == (100, True)
    assert (panel.others.mass.share, panel.others.mass.is_cut) == (pytest.approx(0.94), True)
    assert panel.others.answers.share == 0
    text = words(Page(render(edited)))
    assert "one with a gap is longer than drawn" in text
    assert f"to {panel.n_others} more labels: 0% of the answers, 94.0% of the confidence" in text


def test_the_page_says_what_it_was_made_from(summary, without_truth, pages):
    page, plan = pages["with truth"], summary["plan"]
    (table,) = table_of(page, "", "Name", "SHA-256", "Rows")
    assert table[1:] == [
        ["base model", "base.parquet", "a1" * 6, "462"],
        ["retrained", "<script>.csv", "b2" * 6, "462"],
        ["filter", "v2.safetensors", "c3" * 6, ""],
        ["plan", "Intents, version 2, witha note", plan["digest"][:12], ""],
    ]
    titles = [text for key, text in page.values if key == "title"]
    for digest in ("a1" * 32, "b2" * 32, "c3" * 32, plan["digest"]):
        assert digest in titles
    made = f"Made by unlabel {summary['unlabel']}"
    assert f"{made} on 2026-01-31 from one summary" in words(page)
    assert f"{made} from one summary" in words(pages["without"])
    rows = summary["rows"]
    assert f"Judged on {rows['judged']} rows, fitted on {rows['fitted_on']}." in words(page)
    assert "Judged on 462 rows. Point" in words(pages["without"])


def test_sources_are_inert(summary):
    hostile = copy.deepcopy(summary)
    hostile["made_from"]["date"] = "</footer><script>"
    hostile["made_from"]["tables"][0]["name"] = HOSTILE["cow"]
    hostile["made_from"]["filter"]["name"] = "x" * 4000
    hostile["unlabel"] = '"><img src=x>' * 50
    page = Page(render(hostile))
    assert page.elements == Page(render(summary)).elements
    assert HOSTILE["cow"] in page.text
    assert "x" * 100 not in page.text


def test_labels_of_answers_are_inert(summary):
    names = {label: f"<b>{label}</b><script>" for label in summary["labels"]["model"]}
    hostile = renamed(summary, names)
    check_summary(json.loads(json.dumps(hostile)))
    assert Page(render(hostile)).elements == Page(render(summary)).elements


def test_without_true_labels_there_is_the_impact_alone(without_truth, pages):
    page = pages["without"]
    text = words(page)
    counts = without_truth["figures"][1]["impact"]
    share = percent(counts["changed"] / 462)
    assert f"{counts['changed']} of 462 answers change ({share})." in text
    assert "Compared on 462 rows without true labels." in text
    assert {value for key, value in page.values if key == "id"} == {
        *("note", "plan", "impact", "limits"),
    }
    for about_truth in ("inputs of retained", "OSR", "corrected", "regressed", "accuracy", "right"):
        assert about_truth not in text
    assert not re.search(r"\b0 (of|inputs|rows|removed|retained|split)\b", text)
    assert "None" not in text


@pytest.mark.parametrize("same_recipe", [False, True])
def test_only_what_is_known_of_retrained_models_is_said(same_recipe):
    labels = np.arange(480) % len(CLASSES)
    keep = [i for i, label in enumerate(CLASSES) if label not in REMOVED]
    trial = try_labels(
        outputs(labels, range(len(CLASSES)), 0),
        np.array(CLASSES)[labels],
        classes=CLASSES,
        plan=REMOVED,
        retrained=[outputs(labels, keep, seed) for seed in (1, 2)],
    )
    text = words(Page(render(summarise(replace(trial, same_recipe=same_recipe)))))
    assert ("seed" in text) == same_recipe
    assert ("retraining as retraining is to itself" in text) == same_recipe
    assert ("the distance between two retrained models" in text) == (not same_recipe)


def test_accuracy_is_a_mean_over_labels_beside_the_share_of_rows(summary, pages):
    base, after = summary["figures"][0], shown(summary)
    accuracy = [score(entry["accuracy"]["retained"]) for entry in (base, after)]
    right = [percent(entry["share_right"]["retained"]) for entry in (base, after)]
    text = words(pages["with truth"])
    assert f"Accuracy, mean over labels {accuracy[0]} → {accuracy[1]}" in text
    assert f"As a share of rows: {right[0]} and {right[1]}." in text
    for heading, kind in (("Corrected", "corrected"), ("Regressed", "regressed")):
        cells = [cell.removeprefix("*") for cell in pages["with truth"].row(heading)]
        assert cells[1:] == [str(entry["impact"][kind]) for entry in summary["figures"][1:]]


def test_names_break_between_their_words():
    assert pieces("card_payment-wrong.rate/a:b") == [
        *("card_", "payment-", "wrong.", "rate/", "a:", "b")
    ]
    assert pieces("_a__b_") == ["_", "a__", "b_"]
    assert pieces("one word") == ["one word"]
    for label in (*HOSTILE.values(), 3, ""):
        assert "".join(pieces(label)) == "".join(pieces("".join(pieces(label))))
