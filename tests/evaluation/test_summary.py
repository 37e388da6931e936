"""Summaries in files: what was written is read, and anything else gets one sentence."""

import io
import json
import random
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("jinja2", reason="a report needs the extra: pip install 'unlabel[cli]'")

from rich.console import Console

import doors
from summary_edits import edited
from unlabel import AnswerRule, LabelPlan, UnlabelError
from unlabel.cli.summary_table import show
from unlabel.evaluation.sources import SourceFilter, Sources, SourceTable
from unlabel.evaluation.summary import read_summary, summarise, write_summary
from unlabel.evaluation.trial import try_filter, try_labels
from unlabel.report import render
from unlabel.report.markdown import as_markdown

CLASSES = [0, "bee", 2, "dog", "elk", "fox"]
REMOVED = ["bee", "elk"]
CHANGED = LabelPlan(
    {"bee": None, 2: "dog", "elk": {"moose": 0.7, "dog": 0.3}, "fox": "vixen"},
    title="Version 2",
    note="Elks\nare moose.",
)

SOURCES = Sources(
    (SourceTable("base model", "base.parquet", "0" * 64, 240),),
    SourceFilter("f.safetensors", "1" * 64),
    "2026-01-31",
)


def drawn(labels, columns, seed):
    draw = np.random.default_rng(seed)
    rows = draw.dirichlet(np.ones(6), size=len(labels))
    rows[np.arange(len(labels)), labels] += draw.random(len(labels))
    rows = rows[:, columns]
    return rows / rows.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def summaries():
    """Summaries of every kind: of fitted and given filters, with and without retrained models."""
    columns = np.arange(240) % 6
    keep = [i for i, label in enumerate(CLASSES) if label not in REMOVED]
    base = drawn(columns, range(6), 0)
    labels = np.array(CLASSES, dtype=object)[columns]
    models = [drawn(columns, keep, seed) for seed in (1, 2)]
    options = {"classes": CLASSES, "plan": LabelPlan(REMOVED)}
    given = doors.fit(base, labels, **options)
    calibrated = doors.fit(base, labels, calibrate=True, **options)
    mask = doors.fit(base, labels, method="mask", **options)
    changed = [drawn(columns, [0, 3, 4, 5], seed) for seed in (1, 2)]
    kept = ~np.isin(columns, [1, 4])
    of_plan = doors.fit(base, labels, classes=CLASSES, plan=CHANGED)
    new = [{2: "dog", "fox": "vixen"}.get(label, label) for label in labels]
    rules = AnswerRule(max_removed_mass=0.5), AnswerRule({None: 0.2, "dog": 0.4})
    return [
        *(summarise(try_labels(base, labels, retrained=models[:n], **options)) for n in range(3)),
        summarise(try_labels(base, labels, retrained=models[:1] * 2, **options)),
        summarise(try_labels(base[:60], labels[:60], **options)),
        summarise(try_labels(base, labels, classes=CLASSES, plan=[])),
        *(summarise(try_filter(of, base, labels)) for of in (given, calibrated, mask)),
        summarise(try_filter(given, base[kept], labels[kept], retrained=[models[0][kept]])),
        summarise(try_labels(base, labels, classes=CLASSES, plan=CHANGED, retrained=changed)),
        summarise(try_labels(base, labels, classes=CLASSES, plan={"bee": "fox"})),
        summarise(replace(try_filter(given, base), rule=rules[0])),
        summarise(replace(try_filter(of_plan, base, new, truth="new"), rule=rules[1])),
        summarise(replace(try_filter(given, base, labels), sources=SOURCES, same_recipe=True)),
    ]


def test_whatever_was_written_is_read_and_shown(summaries, tmp_path):
    for number, summary in enumerate(summaries):
        path = tmp_path / f"{number}.json"
        write_summary(summary, path)
        assert read_summary(path) == summary
        assert "None" not in render(summary) + as_markdown(summary)
        Console(file=io.StringIO()).print(show(summary))


@pytest.mark.parametrize("seed", range(8))
def test_an_edited_summary_is_shown_or_gets_one_sentence(summaries, tmp_path, seed):
    rng = random.Random(seed)
    path = tmp_path / "summary.json"
    refused = 0
    for _ in range(60):
        path.write_text(edited(rng.choice(summaries), rng), encoding="ascii")
        try:
            summary = read_summary(path)
        except UnlabelError as error:
            refused += 1
            sentence = str(error)
            assert sentence.startswith(f"{path}: it is not ")
            assert sentence.endswith(".")
            assert sentence.isprintable()
            assert len(sentence) < 400 + len(str(path))
        else:
            (render(summary) + as_markdown(summary)).encode("utf-8")
            Console(file=io.StringIO()).print(show(summary))
    assert 20 < refused < 60


def changed(summary, *way, to):
    """The JSON of a summary with another value at a place."""
    summary = json.loads(json.dumps(summary))
    parent = summary
    for step in way[:-1]:
        parent = parent[step]
    if to is DROPPED:
        del parent[way[-1]]
    else:
        parent[way[-1]] = to
    return json.dumps(summary)


DROPPED = object()
RULE = {"max_removed_mass": 0.5, "min_confidence": 0, "min_confidence_by_label": []}


@pytest.mark.parametrize(
    ("way", "to", "words"),
    [
        (("rows", "judged"), -5, "summary.rows.judged is -5, not a number of rows"),
        (("rows", "judged"), 7, "summary.rows does not add up"),
        (("rows", "judged"), True, "rows.judged is True, not a number of rows"),
        (("rows", "extra"), 1, "summary.rows has an unknown key 'extra'"),
        (("rows",), [], r"summary.rows is \[\], not an object"),
        (("figures",), {}, "summary.figures is {}, not a list"),
        (("figures",), [], "summary.shown is not in summary.figures"),
        (("figures", 1), DROPPED, "summary.shown is not in summary.figures"),
        (("figures", 2, "log_loss"), "3", r"figures\[2\].log_loss is '3', not a finite number"),
        (("figures", 2, "log_loss"), DROPPED, r"figures\[2\] has no 'log_loss'"),
        (("figures", 2, "log_loss"), 10**400, r"log_loss is 10+\.\.\.0+, not a finite number"),
        (("figures", 2, "accuracy", "retained"), 1.5, "retained is 1.5, not a number from 0 to 1"),
        (("figures", 2, "output"), "OSR", "summary.figures has an output twice"),
        (("figures", 2, "output"), "\x1b[2J", r"output is '\\x1b\[2J', not the name of an output"),
        (("figures", 0, "output"), "OSR", "not 'base model'"),
        (
            ("figures", 2, "to_retrained"),
            None,
            "the distances of OSR, calibrated contradict the retrained",
        ),
        (("floor",), None, "summary.floor contradicts the retrained models"),
        (("shown",), "base model", "summary.shown is not in summary.figures"),
        (("reliability", "OSR"), DROPPED, "summary.reliability is of other outputs"),
        (
            ("labels", "removed", 0),
            None,
            r"removed\[0\] is None, not a string or a whole number",
        ),
        (("labels", "removed", 0), "dog", "The label 'dog' appears twice"),
        (("labels", "removed", 0), "cow", "summary.labels.removed is of other labels"),
        (("labels", "removed", 0), DROPPED, "summary.labels.removed is of other labels"),
        (("labels", "retained", 0), "cow", "summary.labels.retained is not where the labels go"),
        (("labels", "changes", 0), DROPPED, "summary.labels.retained is not where the labels go"),
        (("labels", "changes", 0, "from"), "cow", "the change of 'cow' is of a label that is not"),
        (
            ("labels", "changes", 0, "from"),
            "elk",
            "The label 'elk' appears twice",
        ),
        (("labels", "changes", 0, "to"), None, r"changes\[0\].to is None, not a list"),
        (("plan", "title"), 7, "summary.plan.title is 7, not a string"),
        (("plan", "digest"), DROPPED, "summary.plan has no 'digest'"),
        (("labels", "retained"), [], "summary.labels retains no label"),
        (("labels", "model", 0), DROPPED, "summary.labels.retained is not where the labels go"),
        (("by_label", 0, "to"), None, "summary.by_label sends 0 elsewhere"),
        (("by_label", 1, "to"), "dog", "summary.by_label sends 'bee' elsewhere"),
        (("destinations", 0), DROPPED, "summary.destinations is of other labels"),
        (("destinations", 0, "to", 0, "label"), "bee", "the destinations of 'bee' are not shares"),
        (("destinations", 0, "to", 0, "share"), 0, "is 0, not a number above 0 and up to 1"),
        (("destinations", 0, "to", 0, "share"), 1, "the destinations of 'bee' are not shares"),
        (("unknown", 50), DROPPED, "summary.unknown is of other thresholds"),
        (("unknown",), [], "summary.unknown is of other thresholds"),
        (("unknown", 50, "above"), 0.505, "summary.unknown is of other thresholds"),
        (("unknown", 50, "caught"), 1.5, r"unknown\[50\].caught is 1.5, not a number from 0 to 1"),
        (("unknown", 50, "lost"), None, r"unknown\[50\].lost is None, not a number from 0 to 1"),
        (("truth",), "newer", "summary.truth is 'newer', not old or new"),
        (("truth",), None, "summary.unknown is of other thresholds"),
        (("same_recipe",), 1, "summary.same_recipe is 1, not true or false"),
        (("rows", "without_true_label"), 1, "summary.rows does not add up"),
        (("made_from", "date"), 7, "summary.made_from.date is 7, not a string"),
        (("made_from", "tables"), [{}], r"summary.made_from.tables\[0\] has no 'output'"),
        (
            ("made_from", "filter"),
            {"name": "f", "sha256": "F" * 64},
            "sha256 is 'F+...F+', not 64 hexadecimal digits",
        ),
        (("figures", 1, "impact", "changed"), 0, "summary.impact.pairs does not add up"),
        (("figures", 1, "impact", "changed"), 10**6, "the impact of OSR does not add up"),
        (("figures", 1, "impact", "regressed"), 10**6, "the impact of OSR does not add up"),
        (
            ("figures", 1, "impact", "corrected"),
            None,
            "the impact of OSR contradicts summary.truth",
        ),
        (("figures", 1, "impact", "unknown"), 1, "the impact of OSR contradicts the rule"),
        (("impact", "rule"), RULE, "the impact of OSR contradicts the rule"),
        (("impact", "other_pairs", "rows"), 3, "summary.impact.pairs does not add up"),
        (("impact", "after", "log_loss"), 0.5, "summary.impact.after is of another output"),
        (("impact", "by_label", 0), DROPPED, "summary.impact.by_label does not add up"),
        (
            ("impact", "by_label", 0, "changed"),
            None,
            r"by_label\[0\].changed is None, not an object",
        ),
        (("unlabel",), "\ud800", r"summary.unlabel is '\\ud800', not a string"),
        (("notes",), [1], r"notes\[0\] is 1, not a string"),
    ],
)
def test_the_sentence_names_the_place(summaries, tmp_path, way, to, words):
    path = tmp_path / "summary.json"
    path.write_text(changed(summaries[2], *way, to=to))
    with pytest.raises(UnlabelError, match=words) as refusal:
        read_summary(path)
    assert str(refusal.value).startswith(f"{path}: it is not a valid summary (")
    assert str(refusal.value).endswith("): evaluate the change again.")


@pytest.mark.parametrize(
    ("way", "to", "words"),
    [
        (("labels", "changes", 2, "to", 0, "weight"), 0.6, "'elk' has weights that do not sum to"),
        (("labels", "changes", 2, "to", 0, "weight"), 0, "is 0, not a number above 0 and up to 1"),
        (("labels", "changes", 2, "to", 0, "label"), "moose", "The label 'moose' appears twice"),
        (("labels", "changes", 1, "to", 0, "label"), "bee", "retained is not where the labels go"),
        (("labels", "changes", 1, "to"), [], "summary.labels.removed is of other labels"),
        (("by_label", 4, "to"), "dog", "summary.by_label sends 'elk' elsewhere"),
        (("rows", "of_split_labels"), 0, "summary.rows does not add up"),
    ],
)
def test_changes_that_contradict_each_other_are_refused(summaries, tmp_path, way, to, words):
    path = tmp_path / "summary.json"
    path.write_text(changed(summaries[10], *way, to=to))
    with pytest.raises(UnlabelError, match=words):
        read_summary(path)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "9" * 5000])
def test_numbers_that_json_has_not_are_refused(summaries, tmp_path, number):
    path = tmp_path / "summary.json"
    path.write_text(changed(summaries[2], "figures", 2, "log_loss", to="?").replace('"?"', number))
    with pytest.raises(UnlabelError, match=r"is not JSON|is (-?inf|nan), not a finite number"):
        read_summary(path)


def test_a_file_that_no_summary_fills_is_not_read(tmp_path):
    with (tmp_path / "summary.json").open("wb") as file:
        file.truncate(1 << 40)  # a hole, which takes no room on the disk
    with pytest.raises(UnlabelError, match="larger than 64 MiB"):
        read_summary(tmp_path / "summary.json")
