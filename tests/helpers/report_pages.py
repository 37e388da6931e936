"""Made outputs to report on, edits of their summaries, and the parts of a page."""

import copy
import json
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np

from unlabel import AnswerRule, LabelPlan, OutputFilter
from unlabel.evaluation.summary_check import check_summary
from unlabel.evaluation.trial import try_filter, try_labels

CLASSES = ["ant", "bee", "cow", "dog", "elk", "fox"]
REMOVED = ["bee", "elk"]
HOSTILE = {
    "ant": "<script>alert(1)</script>",
    "bee": '"><img src="https://evil.invalid/x" onerror="alert(1)">',
    "cow": "</svg></title></style></table><b>{{ 7 * 7 }}{% raw %}",
    "dog": "قطة صغيرة‎ \u202e نعم",
    "elk": "x" * 400,
    "fox": "\x00\ud800 ' & &amp; ein sehr langer Name aus vielen Wörtern, der noch lesbar ist",
}


def outputs(labels, columns, seed):
    draw = np.random.default_rng(seed)
    logits = draw.normal(size=(len(labels), len(CLASSES)))
    logits[np.arange(len(labels)), labels] += draw.normal(2.5, 1.5, size=len(labels))
    rows = np.exp(logits[:, columns])
    return rows / rows.sum(axis=1, keepdims=True)


def of_intents(n_labels=77, rows_each=6, **options):
    """A trial of many labels with long names, of every kind of change, with unknown."""
    topics = ["card_payment", "cash_withdrawal", "bank-transfer", "exchange.rate", "top_up"]
    names = [
        f"{topics[i % 5]}_{'wrong_' * (i % 3)}not_recognised_{i // 5}" for i in range(n_labels)
    ]
    labels = np.arange(n_labels * rows_each) % n_labels
    draw = np.random.default_rng(0)
    logits = draw.normal(size=(len(labels), n_labels))
    logits[np.arange(len(labels)), labels] += draw.normal(4, 2, size=len(labels))
    logits[::3, :2] += 4.5  # towards the labels that are removed
    rows = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    plan = LabelPlan(
        {
            names[0]: None,
            names[1]: None,
            names[2]: "merged_intents_of_two_kinds",
            names[3]: "merged_intents_of_two_kinds",
            names[4]: "a_new_name_that_is_long_too",
            names[5]: {"the_first_part": 0.5, "the_second_part": 0.5},
        },
        title="Intents, version 2",
        note="A note.",
    )
    if options.pop("truth", True):
        trial = try_labels(rows, np.array(names)[labels], classes=names, plan=plan)
    else:
        trial = try_filter(OutputFilter.from_plan(plan, classes=names), rows)
    return replace(trial, rule=AnswerRule(max_removed_mass=0.33), **options)


def renamed(summary, names):
    """The same summary with other labels."""
    if isinstance(summary, dict):
        return {key: renamed(value, names) for key, value in summary.items()}
    if isinstance(summary, list):
        return [renamed(value, names) for value in summary]
    return names.get(summary, summary) if isinstance(summary, str) else summary


def with_labels(summary, n, removed, merged=0, renamed=0, split=0):
    """The same figures for many labels with long names: some removed, the next ones changed."""
    big = copy.deepcopy(summary)
    names = [f"label number {i} <with> & a rather long name" for i in range(n)]
    parts = [
        *([] for _ in range(removed)),
        *([f"group {i % 20} of them"] for i in range(merged)),
        *([f"new name {i}, also long"] for i in range(renamed)),
        *([f"part {j} of {i}" for j in range(9)] for i in range(split)),
    ]
    parts += [[label] for label in names[len(parts) :]]
    gone, kept = names[:removed], [*dict.fromkeys(label for to in parts for label in to)]
    big["labels"] = {
        "model": names,
        "removed": gone,
        "retained": kept,
        "changes": [
            {"from": label, "to": [{"label": each, "weight": 1 / len(to)} for each in to]}
            for label, to in zip(names, parts, strict=True)
            if to != [label]
        ],
    }
    big["by_label"] = [
        {"label": label, "to": None, "rows": 50, "before": 0.5 + i / n / 4, "after": None}
        | ({"to": to[0], "after": 0.5 + i % 7 / 40} if len(to) == 1 else {})
        for i, (label, to) in enumerate(zip(names, parts, strict=True))
    ]
    shares = [0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001]
    to = [{"label": k, "share": s} for k, s in zip(kept[:8], shares, strict=True)]
    answers = [{"label": each["label"], "rows": 10, "share": each["share"]} for each in to]
    big["destinations"] = [
        {"label": label, "rows": 50, "to": to, "answers": answers} for label in gone
    ]
    check_summary(json.loads(json.dumps(big)))
    return big


class Page(HTMLParser):
    """The elements of a page with the names of their attributes, its text, and its tables."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.values, self.text, self.tables = [], [], "", []
        self.style = self.in_cell = False
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attributes):
        if tag == "wbr":  # where a name may break depends on its letters
            return
        self.elements.append((tag, tuple(key for key, _ in attributes)))
        self.values += attributes
        self.style = tag == "style"
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self.in_cell = True
        elif tag in ("b", "small") and self.in_cell:
            self.tables[-1][-1][-1] += {"b": "*", "small": " "}[tag]

    def handle_data(self, data):
        if self.style:
            return
        self.text += data
        if self.in_cell:
            self.tables[-1][-1][-1] += data.strip()

    def handle_endtag(self, tag):
        self.in_cell = self.in_cell and tag not in ("td", "th")

    def rows(self, heading):
        """The rows of tables that start with a text, without their headings."""
        return [row[1:] for table in self.tables for row in table if row[0].startswith(heading)]

    def row(self, heading, of=0):
        return self.rows(heading)[of]
