"""The impact as Markdown, read back: the numbers of the JSON, and labels that nothing obeys."""

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from markdown_it import MarkdownIt

from commands import unlabel
from unlabel import AnswerRule
from unlabel._printing import printable
from unlabel.report.markdown import MOST_LABELS, MOST_PAIRS, as_markdown, quoted

CLASSES = ["cat", "dog", "fox", "owl", "pig", "rat"]
PLAN = """
title = "Version 2"
[changes]
"cat" = false
"dog" = false
"fox" = "wild"
"owl" = "wild"
"pig" = {"boar" = 0.5, "hog" = 0.5}
"""
MOST_CHARACTERS = 65_536  # of a comment on GitHub
READER = MarkdownIt("commonmark").enable("table")


def text_of(inline):
    """Give the text of a cell; labels are code, and no other markup is there but for unknown."""
    for part in inline.children:
        assert part.type in ("text", "text_special", "html_inline", "em_open", "em_close")
        assert part.type != "html_inline" or part.content in ("<code>", "</code>")
    parts = [part.content for part in inline.children if part.type.startswith("text")]
    is_unknown = any(part.type == "em_open" for part in inline.children)
    assert not is_unknown or "unknown" in parts
    return "".join(parts)


def tables(markdown):
    """Read the tables of a text back: a list of rows for each, keyed by the first heading."""
    found, rows, row = {}, [], []
    for token in READER.parse(markdown):
        if token.type == "table_open":
            rows = []
        elif token.type == "tr_open":
            row = []
            rows.append(row)
        elif token.type == "inline" and rows:
            row.append(text_of(token))
        elif token.type == "table_close":
            assert {*map(len, rows)} == {len(rows[0])}
            key = rows[0][1] if not rows[0][0] else rows[0][0]
            found[key], rows = rows, []
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("markdown")
    rng = np.random.default_rng(1)
    rows = rng.dirichlet(np.full(6, 0.3), size=3000)
    labels = [CLASSES[rng.choice(6, p=row)] for row in rows]
    columns = dict(zip(CLASSES, rows.T, strict=True))
    pa.parquet.write_table(pa.table(columns | {"label": labels}), folder / "base.parquet")
    pa.parquet.write_table(pa.table(columns), folder / "unlabelled.parquet")
    retrained = rng.dirichlet(np.ones(4), size=3000)
    names = ["wild", "boar", "hog", "rat"]
    table = pa.table(dict(zip(names, retrained.T, strict=True)))
    pa.parquet.write_table(table, folder / "retrained.parquet")
    (folder / "plan.toml").write_text(PLAN)
    AnswerRule(max_removed_mass=0.4).save(folder / "rule.toml")
    return folder


def written(folder, table, *options):
    code, _, error = unlabel(
        *("evaluate", folder / table, "--plan", folder / "plan.toml", *options),
        *("--json", folder / "s.json", "--markdown", folder / "s.md", "--force"),
    )
    assert (code, error) == (0, "")
    markdown = (folder / "s.md").read_text(encoding="utf-8")
    return json.loads((folder / "s.json").read_text()), markdown


def number(text):
    return int(text.replace(",", ""))


def is_share(text, share):
    if text in ("<0.1%", ">99.9%"):
        return 0 < share < 0.0005 if text[0] == "<" else 0.9995 <= share < 1
    return abs(float(text.removesuffix("%")) / 100 - share) <= 0.0005 + 1e-12


def is_value(text, value):
    if value is None or text == "<.0001":
        return text == "\N{EN DASH}" if value is None else 0 < value < 0.00005
    return (
        is_share(text, value) if text.endswith("%") else abs(float(text) - value) <= 0.00005 + 1e-12
    )


@pytest.mark.parametrize("kind", ["with truth", "without"])
def test_markdown_and_json_say_the_same_numbers(folder, kind):
    options = ("--rule", folder / "rule.toml")
    has_truth = kind == "with truth"
    if has_truth:
        options += ("--retrained", folder / "retrained.parquet")
    table = "base.parquet" if has_truth else "unlabelled.parquet"
    summary, markdown = written(folder, table, *options)
    read, impact = tables(markdown), summary["impact"]
    shown = next(e for e in summary["figures"] if e["output"] == summary["shown"])
    counts = shown["impact"]

    names = {
        "Answers that change": "changed",
        "Become unknown (a removed mass above 0.4)": "unknown",
        "Right before": "right_before",
        "Right after": "right_after",
        "Corrected": "corrected",
        "Regressed": "regressed",
        "Neither": "neither",
    }
    for name, rows, over, share in read["Rows"][1:]:
        count = counts[names.pop(name)]
        of, what = over.split(" ", 1)
        assert number(rows) == count
        assert number(of) == counts[what.replace(" ", "_")]
        assert is_share(share, count / number(of))
    assert all(counts[left] is None for left in names.values())
    assert len(names) == (0 if has_truth else 5)

    pairs = [(pair["from"], pair["to"] or "unknown", pair["rows"]) for pair in impact["pairs"]]
    assert [(old, new, number(rows)) for old, new, rows in read["From"][1:]] == pairs[:MOST_PAIRS]

    of_labels = read["True label" if has_truth else "Old answer"]
    by_label = {entry["label"]: entry for entry in impact["by_label"]}
    assert len(of_labels) - 1 == len(by_label)
    for label, rows, *cells in of_labels[1:]:
        entry = by_label[label]
        assert number(rows) == entry["rows"]
        for name, cell in zip(of_labels[0][2:], cells, strict=True):
            share = entry[name.lower()]
            if share is None:
                assert cell == ""
                continue
            count, low, high = re.fullmatch(r"([\d,]+) \((\S+) to (\S+)\)", cell).groups()
            assert number(count) == share["rows"]
            assert is_share(low, share["low"])
            assert is_share(high, share["high"])

    if not has_truth:
        assert {"Before", "base model", "Removed label"}.isdisjoint(read)
        return
    for label, answers, rows in read["Removed label"][1:]:
        entry = next(e for e in summary["destinations"] if e["label"] == label)
        assert number(rows) == entry["rows"]
        found = re.findall(r"(\S+) ([\d,]+) \((\S+?)\)", answers)
        assert len(found) == min(3, len(entry["answers"]))
        for (name, count, share), to in zip(found, entry["answers"], strict=False):
            assert name == (to["label"] or "unknown")
            assert number(count) == to["rows"]
            assert is_share(share, to["share"])
    for name, before, after in read["Before"][1:]:
        key = name.lower().replace("-", "_").replace(" ", "_")
        assert is_value(before, impact["before"][key])
        assert is_value(after, impact["after"][key])
    outputs = read["base model"][0][1:]
    assert outputs == [entry["output"] for entry in summary["figures"]]
    paths = {
        "Accuracy on retained labels (A_R)": ("accuracy", "retained"),
        "Rows of retained labels that are right": ("share_right", "retained"),
        "Log-loss": ("log_loss",),
        "Calibration error": ("calibration_error",),
        "KL to the base model, inputs of removed labels": ("kl_to_base", "removed"),
        "KL to the retrained model, inputs of removed labels": ("to_retrained", "kl", "removed"),
    }
    by_name = {row[0]: row[1:] for row in read["base model"][1:]}
    assert len(by_name) == len(read["base model"]) - 1
    for name, path in paths.items():
        for text, entry in zip(by_name[name], summary["figures"], strict=True):
            value = entry
            for key in path:
                value = (value or {}).get(key)
            assert is_value(text, value)
    made_from = [(row[1], row[2], row[3]) for row in read["Made from"][1:]]
    assert made_from == [
        (source["name"], source["sha256"][:16], f"{source['rows']:,}")
        for source in summary["made_from"]["tables"]
    ]


NAMES = [
    "a|b",
    "a\\|b",
    "`a` ``b``",
    "<script>alert(1)</script>",
    "</code><b>bold</b>",
    "**bold** _low_ ~~gone~~",
    "[link](https://evil.invalid) ![image](x)",
    "@everyone and user@evil.invalid",
    "#1 :tada: $x$ www.evil.invalid",
    "line\nbreak\r\n\n| new | table |\n|---|---|",
    "\u202eright to left\x00\x1b[2J",
    "&lt;b&gt; &#64;user",
    "  blanks  ",
    "---",
    "",
    "x" * 500,
    "ä_ö-ü, 1.5 (half)/%",
]


def hostile_summary(folder):
    summary, _ = written(folder, "base.parquet", "--rule", folder / "rule.toml")
    summary["impact"]["pairs"] = [{"from": a, "to": b, "rows": 7} for a in NAMES for b in NAMES]
    entry = next(e for e in summary["impact"]["by_label"] if e["corrected"])
    summary["impact"]["by_label"] = [entry | {"label": label} for label in NAMES]
    answers = [{"label": label, "rows": 5, "share": 0.5} for label in NAMES[:8]]
    summary["destinations"] = [
        {"label": label, "rows": 9, "to": [], "answers": answers} for label in NAMES
    ]
    summary["plan"]["title"] = NAMES[7]
    summary["notes"] = NAMES
    summary["made_from"]["tables"][0]["name"] = NAMES[0]
    return summary


def test_labels_are_inert(folder):
    markdown = as_markdown(hostile_summary(folder), [f"{NAMES[7]!r} holds.", *NAMES])
    assert "@" not in markdown
    assert "evil" in markdown
    kinds = {token.type for token in READER.parse(markdown)}
    assert kinds.isdisjoint({"html_block", "code_block", "fence", "hr", "blockquote_open"})
    read = tables(markdown)  # which knows no other markup
    assert len(read) == 7
    assert [row[0] for row in read["True label"][1:]] == [
        written_as(label) for label in NAMES[:MOST_LABELS]
    ]
    pairs = [(written_as(a), written_as(b), "7") for a in NAMES for b in NAMES]
    assert [*map(tuple, read["From"][1:])] == pairs[:MOST_PAIRS]


def written_as(label):
    text = printable(label)
    if len(text) > 60:
        text = text[:30] + "\N{HORIZONTAL ELLIPSIS}" + text[-29:]
    return text if text.strip() else "(empty)"


@pytest.mark.parametrize("label", NAMES)
def test_a_quoted_label_is_read_back(label):
    [inline] = [token for token in READER.parse(f"x {quoted(label)} y") if token.type == "inline"]
    assert text_of(inline) == f"x {written_as(label)} y"


def test_the_text_is_short_enough_for_a_comment(folder):
    summary = hostile_summary(folder)
    worst = "@|" * 300
    for name in ("pairs", "by_label"):
        entries = summary["impact"][name]
        summary["impact"][name] = [
            entry | ({"from": worst, "to": worst} if name == "pairs" else {"label": worst})
            for entry in entries * 10
        ]
    for entry in summary["destinations"]:
        entry["label"] = worst
        entry["answers"] = [to | {"label": worst} for to in entry["answers"]]
    summary["notes"] = [worst] * 50
    summary["plan"]["title"] = worst
    summary["figures"] = summary["figures"][:1] + summary["figures"][1:] * 2
    assert len(as_markdown(summary, [worst] * 50)) < MOST_CHARACTERS


def test_failed_conditions_come_first(folder):
    code, _, _ = unlabel(
        *("evaluate", folder / "base.parquet", "--remove", "cat", "--fail-if", "changed > 0"),
        *("--markdown", folder / "s.md", "--force"),
    )
    assert code == 1
    markdown = (folder / "s.md").read_text()
    assert "**Failed:**\n\n- <code>'changed &#62; 0' holds&#58; OSR has " in markdown
    assert markdown.index("Failed") < markdown.index("| Rows |")
