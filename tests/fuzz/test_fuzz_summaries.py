"""Summaries that were edited: what is read is rendered and shown."""

import io
import json
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from fuzz_bounded import check_sentence, fuzzed_file
from fuzz_edits import ANY_JSON, edited_bytes, edited_json
from unlabel import AnswerRule, LabelPlan, OutputFilter, UnlabelError
from unlabel.cli.summary_table import show
from unlabel.evaluation.summary import read_summary, summarise
from unlabel.evaluation.trial import try_filter, try_labels
from unlabel.report import render
from unlabel.report.markdown import as_markdown

CLASSES = ["cat", "dog", "fox", "owl"]


def summary_of(retrained, plan=("cat",), kept=(1, 2, 3), rule=None):
    draw = np.random.default_rng(0)
    labels = np.arange(80) % len(CLASSES)
    rows = np.exp(draw.normal(size=(80, 4)) + 2 * np.eye(4)[labels])
    rows /= rows.sum(axis=1, keepdims=True)
    of_kept = rows[:, kept]
    others = [of_kept / of_kept.sum(axis=1, keepdims=True)] * retrained
    names = np.array(CLASSES)[labels]
    trial = try_labels(rows, names, classes=CLASSES, plan=plan, retrained=others)
    return json.loads(json.dumps(summarise(replace(trial, rule=rule))))


def summary_without_truth():
    rows = np.random.default_rng(0).dirichlet(np.ones(4), 80)
    trial = try_filter(OutputFilter.from_plan(CHANGES, classes=CLASSES), rows)
    trial = replace(trial, rule=AnswerRule(max_removed_mass=0.3))
    return json.loads(json.dumps(summarise(trial)))


CHANGES = LabelPlan(
    {"cat": None, "dog": "pet", "fox": {"pet": 0.5, "wild": 0.5}}, title="Version 2", note="Why\nso"
)
SUMMARIES = [
    *(summary_of(retrained) for retrained in (0, 1, 2)),
    *(summary_of(retrained, CHANGES) for retrained in (0, 1)),
    summary_of(0, CHANGES, rule=AnswerRule(min_confidence=0.4, max_removed_mass=0.2)),
    summary_without_truth(),
]
for summary in SUMMARIES:
    render(summary)  # templates are compiled before the clock runs


@st.composite
def edited_summaries(draw):
    summary = draw(st.sampled_from(SUMMARIES))
    if draw(st.booleans()):
        return json.dumps(draw(edited_json(summary) | ANY_JSON)).encode()
    return draw(edited_bytes(json.dumps(summary).encode()))


@settings(max_examples=60)
@given(edited_summaries())
def test_summaries(content):
    with fuzzed_file("summary.json", content) as path:
        try:
            summary = read_summary(path)
        except UnlabelError as error:
            check_sentence(error)
            return
        render(summary)
        as_markdown(summary)
        Console(file=io.StringIO(), width=100).print(show(summary))
