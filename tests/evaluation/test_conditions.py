"""Conditions that fail an evaluation: read, judged and explained, and never run."""

import json
import operator
import re
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from commands import unlabel
from unlabel import AnswerRule, UnlabelError
from unlabel.evaluation.conditions import parse_condition
from unlabel.evaluation.summary import read_summary

CLASSES = ["cat", "dog", "fox", "owl"]
SIGNS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(4)
    rows = rng.dirichlet(np.full(4, 0.3), size=400)
    columns = dict(zip(CLASSES, rows.T, strict=True))
    labels = [CLASSES[rng.choice(4, p=row)] for row in rows]
    pa.parquet.write_table(pa.table(columns | {"label": labels}), "base.parquet")
    pa.parquet.write_table(pa.table(columns), "unlabelled.parquet")
    return tmp_path


def evaluate(*conditions, table="base.parquet", options=()):
    given = [word for condition in conditions for word in ("--fail-if", condition)]
    files = ("--json", "s.json", "--markdown", "s.md", "--force")
    return unlabel("evaluate", table, "--remove", "dog", *given, *files, *options)


def shown(output="OSR"):
    return next(e for e in read_summary("s.json")["figures"] if e["output"] == output)


def test_exit_codes(table):
    assert evaluate("changed > 100%", "log_loss > 99")[0] == 0
    code, out, error = evaluate("changed >= 0", "changed > 100%", "mask.log_loss < 99")
    assert code == 1
    assert [line.split(":")[:2] for line in error.splitlines()] == [
        ["Failed", " 'changed >= 0' holds"],
        ["Failed", " 'mask.log_loss < 99' holds"],
    ]
    assert "log-" in out  # the table is printed
    assert (table / "s.json").exists()
    assert (table / "s.md").exists()
    assert evaluate("changed > ")[0] == 2


def test_the_sentence_says_which_by_how_much_and_on_how_many_rows(table):
    conditions = ("changed > 1%", "changed > 10", "log_loss > .25", "changed.retained > 1%")
    code, _, error = evaluate(*conditions)
    entry, rows = shown(), read_summary("s.json")["rows"]
    changed, judged, retained = (
        entry["impact"]["changed"],
        rows["judged"],
        rows["of_retained_labels"],
    )
    share = f"{changed:,} of {judged:,} rows ({100 * changed / judged:.4g}%)"
    of_retained = entry["changed"]["retained"] * 100
    assert code == 1
    assert error.splitlines() == [
        f"Failed: 'changed > 1%' holds: OSR has {share}, a difference of "
        f"{100 * changed / judged - 1:.4g}%.",
        f"Failed: 'changed > 10' holds: OSR has {share}, a difference of {changed - 10}.",
        f"Failed: 'log_loss > .25' holds: OSR has {entry['log_loss']:.6g} on {retained} rows of "
        f"retained labels, a difference of {entry['log_loss'] - 0.25:.4g}.",
        f"Failed: 'changed.retained > 1%' holds: OSR has {of_retained:.6g}% on {retained} rows of "
        f"retained labels, a difference of {of_retained - 1:.4g}%.",
    ]


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize(
    ("name", "of"),
    [
        ("changed", lambda e: e["impact"]["changed"]),
        ("regressed", lambda e: e["impact"]["regressed"]),
        ("right_after", lambda e: e["impact"]["right_after"]),
        ("rows", lambda e: e["impact"]["rows"]),
        ("log_loss", lambda e: e["log_loss"]),
        ("accuracy.retained", lambda e: e["accuracy"]["retained"]),
        ("share_right.retained", lambda e: e["share_right"]["retained"]),
    ],
)
def test_values_are_those_of_the_json(summary, sign, name, of):
    for output in ("OSR", "mask", "OSR, calibrated"):
        entry = next(e for e in summary["figures"] if e["output"] == output)
        value = of(entry)
        for number in (value, value + 1 if isinstance(value, int) else value / 2):
            condition = parse_condition(f"{output}.{name} {sign} {number!r}")
            assert (condition.failure(summary) is not None) == SIGNS[sign](value, number)


@pytest.fixture(scope="module")
def summary(tmp_path_factory):
    folder = tmp_path_factory.mktemp("conditions")
    rng = np.random.default_rng(4)
    rows = rng.dirichlet(np.full(4, 0.3), size=400)
    labels = [CLASSES[rng.choice(4, p=row)] for row in rows]
    columns = dict(zip(CLASSES, rows.T, strict=True)) | {"label": labels}
    pa.parquet.write_table(pa.table(columns), folder / "t.parquet")
    unlabel("evaluate", folder / "t.parquet", "--remove", "dog", "--json", folder / "s.json")
    return json.loads((folder / "s.json").read_text())


@given(st.integers(0, 200), st.integers(1, 200), st.sampled_from(sorted(SIGNS)))
@example(1, 100, "==")
@example(20, 200, ">")
@example(5, 200, "<")
def test_a_share_of_rows_is_compared_exactly(summary, count, rows, sign):
    """1% of 300 rows are 3, though no float is 0.01."""
    count = min(count, rows)
    entry = next(e for e in summary["figures"] if e["output"] == "OSR")
    made = entry | {"impact": entry["impact"] | {"changed": count}}
    with_rows = summary | {"figures": [made], "rows": summary["rows"] | {"judged": rows}}
    for percent in ("1", "2.5", "10", "33.3", "50"):
        failure = parse_condition(f"changed {sign} {percent}%").failure(with_rows)
        expected = SIGNS[sign](Fraction(count, rows), Fraction(percent) / 100)
        assert (failure is not None) == expected


HOSTILE = [
    "",
    " ",
    "regressed",
    "> 1",
    "regressed > ",
    "regressed > x",
    "regressed >> 1",
    "regressed => 1",
    "regressed = 1",
    "regressed > 1 > 0",
    "regressed > 1%%",
    "regressed > 1 %; rm -rf /",
    "regressed > 1e999999999",
    "regressed > nan",
    "log_loss > inf",
    "log_loss > 1_000",
    "log_loss > 0x10",
    "log_loss > \N{ARABIC-INDIC DIGIT ONE}",
    "regressed > .5",
    "changed.retained > 5",
    "changed > 101%",
    "log_loss > 3%",
    "rows < 10%",
    "__import__('os').system('touch hacked') > 0",
    "().__class__.__bases__[0] > 0",
    "open('hacked', 'w') > 0",
    "log_loss.__class__ > 0",
    "{log_loss} > 0",
    "$(touch hacked) > 0",
    "`touch hacked` > 0",
    "log_loss\n > 0\nimport os > 1",
    "\x1b[2J\u202e > 1",
    "a" * 10_000 + " > 1",
    " " * 190 + "> 1",
    "9" * 100_000,
    "accuracy > .5",
    "mask.regresed > 1%",
    "OSR.OSR.log_loss > 1",
    "impact.__len__ > 1",
    "figures[0].log_loss > 1",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_malformed_condition_gets_one_sentence_before_any_work(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)  # without a table: nothing is read
    code, out, error = unlabel("evaluate", "none.parquet", "--remove", "x", "--fail-if", text)
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert error.startswith("Error: The condition ")
    assert error.endswith(".\n")
    assert error.rstrip("\n").isprintable()
    assert len(error) < 300
    assert [*tmp_path.iterdir()] == []


PIECES = [
    "regressed",
    "log_loss",
    "mask",
    ".",
    " ",
    ">",
    "<=",
    "==",
    "1",
    "%",
    "e5",
    "-",
    "\n",
    "é",
]


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_any_text_is_a_condition_or_a_mistake(text):
    sentence = ""
    try:
        parse_condition(text)
    except UnlabelError as error:
        sentence = str(error)
    assert sentence == "" or re.fullmatch(r"The condition .*\.", sentence, re.DOTALL)


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("regresed > 1", "'regressed'"),
        ("logloss > 1", "'log_loss'"),
        ("accuracy > .5", "'accuracy.retained'"),
        ("to_retrained > .5", "'to_retrained.kl.retained'"),
        ("maks.log_loss > 1", "'mask.log_loss'"),
        ("osr.log_loss > 1", "'OSR.log_loss'"),
    ],
)
def test_the_nearest_name_is_given(text, nearest):
    with pytest.raises(UnlabelError, match=rf"known value: the nearest is {nearest}\."):
        parse_condition(text)


@pytest.mark.parametrize(
    ("text", "table_name", "words"),
    [
        ("unknown > 1%", "base.parquet", "OSR has no 'unknown' here"),
        ("regressed > 1%", "unlabelled.parquet", "mask has no 'regressed' here"),
        ("log_loss > 1", "unlabelled.parquet", "mask has no 'log_loss' here"),
        ("to_retrained.kl.retained > 1", "base.parquet", "has no 'to_retrained.kl.retained' here"),
        ("base model.changed > 1", "base.parquet", "base model has no 'changed' here"),
        ("retrained.log_loss > 1", "base.parquet", "there is no output 'retrained' here, but"),
    ],
)
def test_a_value_that_does_not_exist_is_a_mistake_and_not_a_pass(table, text, table_name, words):
    code, _, error = evaluate(text, table=table_name)
    assert (code, error.count("\n")) == (2, 1)
    assert words in error
    assert not (table / "s.json").exists()
    assert not (table / "s.md").exists()


def test_unknown_is_a_value_with_a_rule(table):
    AnswerRule(max_removed_mass=0.5).save("rule.toml")
    code, _, error = evaluate("unknown > 1%", options=("--rule", "rule.toml"))
    assert code == 1
    count = shown()["impact"]["unknown"]
    assert f"OSR has {count} of 200 rows" in error


def test_without_true_labels_changes_can_be_gated(table):
    code, out, error = evaluate("changed > 1%", table="unlabelled.parquet")
    assert code == 1
    assert "mask has" in error
    assert "accu" not in out
    assert "There are no true labels (no column 'label'): only the impact of mask" in out
