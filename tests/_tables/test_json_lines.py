"""JSON lines of scores: filtered in their own form, whatever else is in them."""

import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import doors
import plain_json as plain
import plain_plan
import unlabel as package
from unlabel import AnswerRule, UnlabelError
from unlabel._tables.evaluate import evaluate_tables
from unlabel._tables.json_lines import lines as json_lines
from unlabel._tables.predictions import Reading
from unlabel._tables.rewriting import ApplyOptions
from unlabel._tables.streaming import apply_table, fit_table
from unlabel.allow import bind

NAMES = ["ant", "bee", "cat", "emu", "fox"]
ROWS = np.random.default_rng(3).dirichlet(np.ones(5), size=20)
TRUTH = np.array(NAMES)[np.arange(20) % 5]
PLAN = {"emu": None, "ant": "insect", "bee": "insect", "fox": {"red": 0.25, "grey": 0.75}}
MASK = doors.mask(NAMES, PLAN)
EXPECTED = plain_plan.changed_rows(PLAN, NAMES, ROWS)
NEW = plain_plan.result_labels(PLAN, NAMES)
LAYOUTS = plain.layouts()


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(json_lines, "BLOCK", 700)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("json")


def no_progress(part):
    pass


def apply(path, out, reading=None, fitted=MASK, **options):
    options = ApplyOptions(reading=reading or Reading(), overwrite=True, **options)
    return apply_table(fitted, path, out, options, no_progress)


def applied(folder, values, fitted=MASK, reading=None, **options):
    plain.write(folder / "in.jsonl", values)
    apply(folder / "in.jsonl", folder / "out.jsonl", reading, fitted, **options)
    return plain.read(folder / "out.jsonl")


def expected_fields(plan, line, scores):
    """Put scores among other fields, each where that of the first label that goes there stood."""
    result = {}
    for name, value in line.items():
        if name not in NAMES:
            result[name] = value
        for label in scores:
            if plain_plan.first_source(plan, NAMES, label) == name:
                result[label] = scores[label]
    return result


@given(
    plan=plain_plan.changes_of(NAMES),
    layout=st.sampled_from(LAYOUTS),
    method=st.sampled_from(["osr", "mask"]),
)
@example(plan={"ant": "fox", "fox": "ant"}, layout=LAYOUTS[0], method="osr")
@example(plan={}, layout=LAYOUTS[-1], method="osr")
def test_random_plans_in_every_form(folder, plan, layout, method):
    form, place, reading = layout
    fitted = doors.fit(ROWS, TRUTH, classes=NAMES, plan=plan, method=method)
    lines = [place(i, form(NAMES, row)) for i, row in enumerate(ROWS.tolist())]
    steps = None if method == "mask" else plain_plan.steps_of(plan, NAMES, ROWS, TRUTH)
    names = plain_plan.result_labels(plan, NAMES)
    results = plain_plan.changed_rows(plan, NAMES, ROWS, steps).tolist()
    expected = [place(i, form(names, row)) for i, row in enumerate(results)]
    if form is plain.as_object and place in (plain.at_top, plain.among_fields):
        expected = [
            expected_fields(plan, line, dict(zip(names, row, strict=True)))
            for line, row in zip(lines, results, strict=True)
        ]
    found = applied(folder, lines, fitted, reading)
    if form in (plain.as_entries, plain.as_object, plain.as_two_lists):
        plain.check_equal(found, expected)
    else:  # labels with the same score may stand in any order
        for one, other, row in zip(found, expected, results, strict=True):
            if len({round(score, 9) for score in row}) == len(row):
                plain.check_equal(one, other)


@pytest.mark.parametrize("layout", LAYOUTS, ids=plain.name_of)
def test_forms_and_places(tmp_path, layout):
    form, place, reading = layout
    lines = [place(i, form(NAMES, row)) for i, row in enumerate(ROWS.tolist())]
    found = applied(tmp_path, lines, reading=reading)
    for number, (line, row) in enumerate(zip(found, EXPECTED.tolist(), strict=True)):
        scores = dict(zip(NEW, row, strict=True))
        if form is plain.as_object and place in (plain.at_top, plain.among_fields):
            plain.check_equal(line, expected_fields(PLAN, lines[number], scores))
        else:
            plain.check_equal(line, place(number, form(NEW, row)))


def test_lists_of_scores_by_position(tmp_path):
    for key in (None, "p"):
        lines = [row if key is None else {"id": 7, "p": row} for row in ROWS.tolist()]
        found = applied(tmp_path, lines, reading=Reading(key=key))
        expected = [row if key is None else {"id": 7, "p": row} for row in EXPECTED.tolist()]
        plain.check_equal(found, expected)


def test_labels_that_are_numbers_stay_numbers(tmp_path):
    fitted = doors.mask([0, 1, 2], {0: None, 1: "other"})
    lines = [plain.as_entries([0, 1, 2], [0.5, 0.2, 0.3])]
    found = applied(tmp_path, lines, fitted)
    plain.check_equal(found, [plain.as_entries(["other", 2], [0.4, 0.6])])
    lines = [plain.as_entries(["0", "1", "2"], [0.5, 0.2, 0.3])]
    found = applied(tmp_path, lines, fitted)
    plain.check_equal(found, [plain.as_entries(["other", "2"], [0.4, 0.6])])


VERBATIM = [
    '"huge":123456789012345678901234567890',
    '"spelled":1.10',
    '"tiny":1e-999',
    '"large":1e999',
    '"zero":-0.0',
    '"escapes":"\\u00e9\\/\\ud83d\\ude00\\u003a:"',
    '"text":"é: { } [ ] \\" \\\\ :"',
    '"nested":{"a":[1,{"b":"c:d", "a":1, "a":2}],  "scores":[1,2]}',
    '"a:b":"c"',
    '"":null',
    '"true":true',
]


def test_other_fields_are_kept_byte_for_byte(tmp_path):
    scores = json.dumps(plain.as_object(NAMES, ROWS[0].tolist()))
    before, after = VERBATIM[:5], VERBATIM[5:]
    text = "{" + ",".join([*before, f'"scores":{scores}', *after]) + "}\n"
    (tmp_path / "in.jsonl").write_text(text * 3, encoding="utf-8")
    apply(tmp_path / "in.jsonl", tmp_path / "out.jsonl", Reading(key="scores"))
    lines = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 3
    for line in lines:
        start, rest = line.split('"scores":', 1)
        assert start == "{" + ",".join(before) + ","
        end = rest.index("}") + 1
        assert rest[end:] == "," + ",".join(after) + "}"
        plain.check_equal(json.loads(rest[:end]), plain.as_object(NEW, EXPECTED[0].tolist()))


@pytest.mark.parametrize("block", [1, 64, 700, 1 << 17])
def test_blank_lines_marks_and_line_ends(tmp_path, monkeypatch, block):
    monkeypatch.setattr(json_lines, "BLOCK", block)
    values = [{"scores": plain.as_entries(NAMES, row)} for row in ROWS[:4].tolist()]
    one, two, three, four = (json.dumps(value).encode() for value in values)
    text = b"\xef\xbb\xbf\n" + one + b"\r\n\r\n \t\n" + two + b" \n" + three + b"\n\n" + four
    (tmp_path / "in.jsonl").write_bytes(text)
    applied = apply(tmp_path / "in.jsonl", tmp_path / "out.jsonl")
    assert (applied.rows, applied.written) == (4, 4)
    found = plain.read(tmp_path / "out.jsonl")
    expected = [{"scores": plain.as_entries(NEW, row)} for row in EXPECTED[:4].tolist()]
    plain.check_equal(found, expected)


@pytest.mark.parametrize("name", ["x.jsonl.gz", "x.ndjson", "x.jsonl", "x.ndjson.gz"])
def test_packed_files(tmp_path, name):
    values = [plain.as_entries(NAMES, row) for row in ROWS.tolist()]
    plain.write(tmp_path / "plain.jsonl", values)
    content = (tmp_path / "plain.jsonl").read_bytes()
    is_packed = name.endswith(".gz")
    (tmp_path / name).write_bytes(gzip.compress(content) if is_packed else content)
    fractions = []
    apply_table(MASK, tmp_path / name, tmp_path / f"out-{name}", ApplyOptions(), fractions.append)
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1
    written = (tmp_path / f"out-{name}").read_bytes()
    (tmp_path / "unpacked.jsonl").write_bytes(gzip.decompress(written) if is_packed else written)
    expected = [plain.as_entries(NEW, row) for row in EXPECTED.tolist()]
    plain.check_equal(plain.read(tmp_path / "unpacked.jsonl"), expected)


def test_standard_input_and_output(monkeypatch):
    text = "".join(json.dumps(plain.as_entries(NAMES, row)) + "\n" for row in ROWS.tolist())
    out = io.BytesIO()
    monkeypatch.setattr(
        sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text.encode()), isatty=lambda: False)
    )
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=out))
    apply("-", "-", Reading(format="jsonl"))
    monkeypatch.undo()
    found = [json.loads(line) for line in out.getvalue().splitlines()]
    plain.check_equal(found, [plain.as_entries(NEW, row) for row in EXPECTED.tolist()])


PIPE = """
from unlabel import OutputFilter
from unlabel._tables.predictions import Reading
from unlabel._tables.rewriting import ApplyOptions
from unlabel._tables.streaming import apply_table
fitted = OutputFilter.from_plan({"ant": None}, classes=["ant", "bee"])
apply_table(fitted, "-", "-", ApplyOptions(reading=Reading(format="jsonl")), lambda part: None)
"""


def test_a_pipe_is_answered_before_it_is_closed():
    run = subprocess.Popen(
        [sys.executable, "-c", PIPE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(Path(package.__file__).parents[1])},
    )
    for score in (0.25, 0.5):
        run.stdin.write(b'{"ant": %.2f, "bee": %.2f}\n' % (score, 1 - score))
        run.stdin.flush()
        assert json.loads(run.stdout.readline()) == {"bee": 1.0}
    assert run.communicate() == (b"", None)
    assert run.returncode == 0


# Further columns


def test_added_fields_come_last(tmp_path):
    lines = [{"id": i, "s": plain.as_object(NAMES, row)} for i, row in enumerate(ROWS.tolist())]
    found = applied(tmp_path, lines, top_label=True, removed_mass=True)
    for row, result, line in zip(ROWS, EXPECTED, found, strict=True):
        assert [*line] == ["id", "s", "top_label", "removed_mass"]
        assert line["top_label"] == NEW[result.argmax()]
        assert line["removed_mass"] == pytest.approx(row[NAMES.index("emu")])


def test_only_changed_lines(tmp_path):
    lines = [{"id": i, "s": plain.as_object(NAMES, row)} for i, row in enumerate(ROWS.tolist())]
    found = applied(tmp_path, lines, only_changed=True)
    tops = [
        (NAMES[old], NEW[new])
        for old, new in zip(ROWS.argmax(axis=1), EXPECTED.argmax(axis=1), strict=True)
    ]
    changed = [i for i, pair in enumerate(tops) if plain_plan.is_change(PLAN, *pair)]
    assert 0 < len(changed) < 20
    assert [line["id"] for line in found] == changed
    assert [(line["old_label"], line["top_label"]) for line in found] == [tops[i] for i in changed]


@pytest.mark.parametrize("name", ["answer", "meta.answer", "a.b"])
def test_update_a_field(tmp_path, name):
    def line(answer, row, extra=None):
        field = {"meta": {"answer": answer, "n": 1.10}} if name == "meta.answer" else {name: answer}
        return {**field, "scores": plain.as_entries(NAMES, row), **(extra or {})}

    rows = [[0.1, 0.2, 0.1, 0.5, 0.1], [0.1, 0.2, 0.1, 0.5, 0.1], [0.5, 0.1, 0.2, 0.1, 0.1]]
    lines = [line("emu", rows[0]), line("bee", rows[1]), line("?", rows[2])]
    lines.append({"scores": plain.as_entries(NAMES, rows[0])})
    found = applied(tmp_path, lines, update_column=name)
    answers = [each["meta"]["answer"] if "meta" in each else each[name] for each in found[:3]]
    assert answers == ["insect", "insect", "?"]
    assert [*found[3]] == ["scores"]


@pytest.mark.parametrize("above", [None, 0.05])
def test_what_a_field_gets_depends_on_its_own_value_alone(tmp_path, above):
    numbered = doors.mask([0, 1, 2], {1: None, 2: 7})
    values = [2, "n/a", "2", 2.0, None, 1, False]
    lines = [{"s": {"0": 0.1, "1": 0.1, "2": 0.8}, "answer": value} for value in values]
    rule = None if above is None else AnswerRule(max_removed_mass=above, unknown="unknown")
    options = {"update_column": "answer", "rule": rule, "fitted": numbered}
    together = [line["answer"] for line in applied(tmp_path, lines, **options)]
    new = [7, "7"] if above is None else ["unknown", "unknown"]
    assert together == [new[0], "n/a", new[1], new[0], None, new[0], False]
    for line, value in zip(lines, together, strict=True):
        if line["answer"] in (2, "2"):  # the others alone do not name a label, or no other one
            assert applied(tmp_path, [line], **options)[0]["answer"] == value


def test_lists_of_allowed_labels_by_a_field(tmp_path):
    lists = {"a": ["cat"], "2": ["cat", "red"]}
    lists = bind(lists, MASK)
    lines = [
        {"list": key, "s": plain.as_object(NAMES, row)}
        for key, row in zip(["a", 2, "a"], ROWS[:3].tolist(), strict=True)
    ]
    found = applied(tmp_path, lines, allow=lists, allow_by="list")
    for line, row in zip(found, EXPECTED[:3].tolist(), strict=True):
        allowed = ["cat"] if line["list"] == "a" else ["cat", "red"]
        kept = [score if name in allowed else 0.0 for name, score in zip(NEW, row, strict=True)]
        expected = [score / sum(kept) for score in kept]
        plain.check_equal(line["s"], plain.as_object(NEW, expected))


def test_stale_fields_are_found(tmp_path):
    answers = ["emu", "cat", "ant", "cat"]
    lines = [
        {"answer": answer, "text": "ant", "s": plain.as_object(NAMES, row)}
        for answer, row in zip(answers, ROWS.tolist(), strict=False)
    ]
    lines[3]["text"] = {"x": 1}
    plain.write(tmp_path / "in.jsonl", lines)
    applied = apply(tmp_path / "in.jsonl", tmp_path / "out.jsonl")
    assert [*applied.remarks] == [
        "The column 'answer' still names removed or changed labels in 2 rows: "
        "name it as the column to update."
    ]


# Fitting and evaluation


def fitted_on(path, **options):
    plan = path.with_name("plan.toml")
    plan.write_text('[changes]\nemu = false\nant = "bee"\n')
    fitted, remarks, _ = fit_table(
        path,
        plan=plan,
        remove=None,
        keep=None,
        method="osr",
        kind="probabilities",
        allow_chance=True,
        calibrate=False,
        reading=options.pop("reading", Reading()),
        label_column=options.pop("label_column", "label"),
        progress=no_progress,
        classes=options.pop("classes", None),
    )
    return fitted, remarks


@pytest.mark.parametrize("form", ["entries", "object", "two_lists", "logs", "fields", "list"])
@pytest.mark.parametrize("label_column", ["label", "meta.truth"])
def test_fit(tmp_path, form, label_column):
    lines = []
    for truth, row in zip(TRUTH.tolist(), ROWS.tolist(), strict=True):
        field = {"meta": {"truth": truth}} if label_column == "meta.truth" else {"label": truth}
        if form == "fields":
            lines.append({"latency": 12, **plain.as_object(NAMES, row), **field})
        elif form == "list":
            lines.append({"p": row, **field})
        else:
            lines.append({"id": 1, "p": plain.FORMS[form](NAMES, row), **field})
    plain.write(tmp_path / "r.jsonl", lines)
    is_list = form == "list"
    fitted, remarks = fitted_on(
        tmp_path / "r.jsonl",
        label_column=label_column,
        classes=NAMES if is_list else None,
        reading=Reading(key="p") if is_list else Reading(),
    )
    plan = {"emu": None, "ant": "bee"}
    steps = plain_plan.steps_of(plan, NAMES, ROWS, TRUTH)
    expected = plain_plan.changed_rows(plan, NAMES, ROWS, steps)
    order = [fitted.classes_out.index(name) for name in plain_plan.result_labels(plan, NAMES)]
    columns = [NAMES.index(name) for name in fitted.classes_in]
    found = fitted.apply(ROWS[:, columns])[:, order]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    guesses = [remark for remark in remarks if "were taken to be" in remark]
    assert len(guesses) == (not is_list)
    assert all(name in guess for name in NAMES for guess in guesses)


def test_evaluate_with_a_retrained_model(tmp_path):
    base, new = tmp_path / "base.jsonl", tmp_path / "new.jsonl"
    pairs = [*zip(TRUTH.tolist(), ROWS.tolist(), strict=True)]
    plain.write(base, [{"label": name, "s": plain.as_object(NAMES, row)} for name, row in pairs])
    kept = [name for name in NAMES if name != "emu"]
    retrained = [[*row[:3], row[4] + row[3]] for _, row in pairs]
    plain.write(new, [{"s": plain.as_entries(kept, row)} for row in retrained])

    def evaluated(path):
        return evaluate_tables(
            base,
            plan=None,
            remove=["emu"],
            keep=None,
            filter=None,
            retrained=[path],
            same_recipe=False,
            truth="old",
            rule=None,
            date=None,
            kind=None,
            label_column="label",
            classes=None,
            reading=Reading(),
            strict=False,
            progress=no_progress,
        )

    assert evaluated(new)
    plain.write(new, [{"s": plain.as_entries(NAMES, row)} for _, row in pairs])
    with pytest.raises(UnlabelError, match=r"new\.jsonl: it has a column 'emu', a removed label"):
        evaluated(new)


def test_a_field_that_names_labels_at_first_may_hold_anything_later(folder):
    row = dict(zip(NAMES, [0.2] * 5, strict=True))
    lines = [{"was": NAMES[i % 5], "note": "-" * 50, "scores": row} for i in range(30)]
    written = applied(folder, [*lines, {"was": {"a": 1}, "scores": row}])
    assert written[-1]["was"] == {"a": 1}
