"""Tables whose rows name only some labels, against the whole rows."""

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

import doors
import plain_partial
import plain_plan
from unlabel import AnswerRule, UnlabelError
from unlabel.evaluation.samples import load_cifar10
from unlabel.tables import apply_table, read

OUTPUTS = load_cifar10()
ROWS = softmax(OUTPUTS.base[:1500].astype(np.float64), axis=1)
NAMES = ["cat", "dog", "fox"]


def top_of(rows, k):
    """Hide all but the k largest entries of each row, with a plain loop."""
    hidden = []
    for row in rows.tolist():
        named = sorted(row, reverse=True)[:k]
        hidden.append([value if value in named else None for value in row])
    return hidden


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("partial")


def filtered(folder, mask, rows):
    """Filter rows with None or NaN for labels that they do not name, and return the new rows."""
    write_wide(folder / "in.parquet", np.array(rows, float).tolist(), mask.classes_in)
    options = {"partial": True, "top_label": True, "removed_mass": True, "force": True}
    apply_table(mask, folder / "in.parquet", folder / "out.parquet", **options)
    return pq.read_table(folder / "out.parquet").to_pylist()


def write_wide(path, rows, names, **others):
    columns = {name: pa.array([row[i] for row in rows]) for i, name in enumerate(names)}
    pq.write_table(pa.table({**columns, **others}), path)


@pytest.mark.parametrize("name", ["F1", "F2", "F3"])
@pytest.mark.parametrize("k", [1, 3, 5])
def test_top_k_answers_of_a_real_network(tmp_path, k, name):
    gone = OUTPUTS.removals[name].removed
    mask, changes = doors.mask(OUTPUTS.classes, gone), dict.fromkeys(gone)
    whole, rows = mask.apply(ROWS), top_of(ROWS, k)
    write_wide(tmp_path / "in.parquet", rows, OUTPUTS.classes)
    options = {"partial": True, "top_label": True, "removed_mass": True}
    applied = apply_table(mask, tmp_path / "in.parquet", tmp_path / "out.parquet", **options)
    written = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert len(written) == applied.rows == applied.written == len(ROWS)
    unanswered = certain = 0
    for row, scores, exact in zip(written, rows, whole, strict=True):
        named = dict(zip(OUTPUTS.classes, scores, strict=True))
        named = {label: score for label, score in named.items() if score is not None}
        values, mass = plain_partial.partial(changes, OUTPUTS.classes, named)
        for label in mask.classes_out:
            value = values.get(label)
            assert row[label] == (value if value is None else pytest.approx(value, abs=1e-7))
        assert row["removed_mass"] == pytest.approx(mass, abs=1e-12)
        assert row["only_removed"] == (row["top_label"] is None) == (values == {})
        if row["certain"]:
            assert row["top_label"] == mask.classes_out[int(np.argmax(exact))]
        unanswered += row["only_removed"]
        certain += row["certain"]
    assert certain > len(ROWS) / 4
    said = f"{unanswered:,} row{'s' * (unanswered != 1)} name"
    assert bool(applied.remarks) == (unanswered > 0)
    assert all(remark.startswith(said) for remark in applied.remarks)


@given(data=st.data())
def test_rows_of_which_only_some_labels_are_named(folder, data):
    labels = ["cat", "dog", "fox", "owl", "pig"]
    changes = data.draw(plain_plan.changes_of(labels))
    whole = np.array(data.draw(st.lists(st.integers(0, 9), min_size=5, max_size=5)))
    whole = (whole + 1) / (whole + 1).sum()
    mask, k = doors.mask(labels, changes), data.draw(st.integers(1, 5))
    order = np.argsort(-whole, kind="stable")[:k].tolist()
    row = [whole[i] if i in order else None for i in range(5)]
    [found] = filtered(folder, mask, [row])
    values, mass = plain_partial.partial(changes, labels, {labels[i]: whole[i] for i in order})
    assert {label: found[label] for label in values} == pytest.approx(values)
    assert all(found[label] is None for label in mask.classes_out if label not in values)
    assert found["removed_mass"] == pytest.approx(mass)
    assert found["only_removed"] == (not values)
    if found["certain"]:
        assert found["top_label"] == mask.classes_out[int(mask.apply(whole).argmax())]


def test_the_value_of_a_nearly_whole_row_is_not_its_lower_end(tmp_path):
    # Of 1,000 labels, 5 are named; the hidden .1 could all be on removed labels, and is not.
    labels = [f"label {i}" for i in range(1_000)]
    named = {"label 0": 0.88, "label 1": 0.01, "label 2": 0.005, "label 3": 0.003, "label 4": 0.002}
    (tmp_path / "in.jsonl").write_text(json.dumps({"scores": named}) + "\n")
    mask = doors.mask(labels, [*labels[4:5], *labels[500:]])
    apply_table(mask, tmp_path / "in.jsonl", tmp_path / "out.jsonl", partial=True, top_label=True)
    found = json.loads((tmp_path / "out.jsonl").read_text())
    assert found["scores"]["label 0"] == pytest.approx(0.88 / 0.998)
    assert (found["top_label"], found["certain"]) == ("label 0", True)


def test_the_answer_is_certain_if_no_hidden_mass_can_change_it(folder):
    mask = doors.mask(["a", "b", "c", "d", "e"], {"a": None, "d": "b"})
    rows = [
        [None, None, 0.5, None, 0.4],  # b and d have at most .1 together
        [None, 0.3, 0.35, None, None],  # d may add .3 to b
        [0.2, 0.2, 0.4, 0.2, 0.0],  # whole, and a tie
        [0.4, 0.1, 0.3, 0.1, 0.1],
        [0.9, None, None, None, None],  # only removed
    ]
    found = [row["certain"] for row in filtered(folder, mask, rows)]
    assert found == [True, False, False, True, False]


def test_whole_rows_are_filtered_as_ever(tmp_path):
    mask = doors.mask(OUTPUTS.classes, ["airplane"])
    write_wide(tmp_path / "in.parquet", ROWS.tolist(), OUTPUTS.classes)
    apply_table(mask, tmp_path / "in.parquet", tmp_path / "out.parquet", partial=True)
    found = np.array(pq.read_table(tmp_path / "out.parquet").columns).T
    np.testing.assert_allclose(found, mask.apply(ROWS), atol=1e-15)


def test_what_is_hidden_is_on_labels_that_stay(tmp_path):
    (tmp_path / "in.csv").write_text("id,cat,dog,fox\n7,.25,.375,\n8,.5,,\n9,,.25,.75\n")
    mask = doors.mask(NAMES, ["cat"])
    apply_table(mask, tmp_path / "in.csv", tmp_path / "out.csv", partial=True, top_label=True)
    assert (tmp_path / "out.csv").read_text().splitlines() == [
        "id,dog,fox,top_label,certain,only_removed",
        "7,0.5,,dog,true,false",
        "8,,,,false,true",
        "9,0.25,0.75,fox,true,false",
    ]


def test_a_rule_answers_partial_rows(tmp_path):
    lines = ["id,cat,dog,fox", "1,.6,.3,", "2,.4,.5,", "3,,.55,", "4,.1,.5,.4", "5,.9,,"]
    (tmp_path / "in.csv").write_text("\n".join(lines) + "\n")
    for unknown in ("?", None):
        applied = apply_table(
            doors.mask(NAMES, ["cat"]),
            tmp_path / "in.csv",
            tmp_path / "out.csv",
            partial=True,
            top_label=True,
            rule=AnswerRule(max_removed_mass=0.44, unknown=unknown),
            force=True,
        )
        answers = [
            row["top_label"]
            for row in csv.DictReader((tmp_path / "out.csv").read_text().splitlines())
        ]
        assert answers == [unknown or "", "dog", "dog", "dog", unknown or ""]
        assert applied.unknown == 2
        assert applied.remarks == ()  # unknown is an answer


def test_a_prediction_of_which_nothing_is_left_is_emptied(tmp_path):
    (tmp_path / "in.csv").write_text("cat,dog,fox,guess\n.9,,,cat\n.4,.35,,cat\n,.3,.6,fox\n")
    apply_table(
        doors.mask(NAMES, ["cat"]),
        tmp_path / "in.csv",
        tmp_path / "out.csv",
        partial=True,
        update_column="guess",
    )
    rows = (tmp_path / "out.csv").read_text().splitlines()[1:]
    assert [row.split(",")[-1] for row in rows] == ["", "dog", "fox"]


def test_partial_rows_can_be_read(tmp_path):
    (tmp_path / "in.csv").write_text("cat,dog,fox\n.9,,\n,.3,.6\n")
    found = read(tmp_path / "in.csv", classes=NAMES, partial=True).confidences
    np.testing.assert_array_equal(found, [[0.9, np.nan, np.nan], [np.nan, 0.3, 0.6]])


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (".9,.3,", "row 1: it sums to 1.2"),
        (",,", "row 1: it names no label"),
        ("-.1,.3,", "row 1: it gives the label 'cat' the score -0.1"),
        ("x,.3,", "row 1: it has 'x' in column 'cat'"),
    ],
)
def test_rows_that_cannot_be_partial_are_refused(tmp_path, row, says):
    (tmp_path / "in.csv").write_text(f"cat,dog,fox\n.5,.2,\n{row}\n")
    with pytest.raises(UnlabelError, match=says):
        apply_table(
            doors.mask(NAMES, ["cat"]),
            tmp_path / "in.csv",
            tmp_path / "out.csv",
            partial=True,
        )
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


def test_options_that_need_whole_rows_or_partial_ones_are_refused(tmp_path):
    (tmp_path / "in.csv").write_text("cat,dog,fox\n.5,.2,.3\n")
    mask = doors.mask(NAMES, ["cat"])
    osr = doors.fit([[0.5, 0.2, 0.3]], ["cat"], classes=NAMES, remove=["cat"])
    warm = doors.at_temperature(mask, 2.0)
    for fitted, options, says in (
        (osr, {"partial": True}, "The method 'osr' needs whole rows"),
        (warm, {"partial": True}, "A temperature needs whole rows"),
        (mask, {"partial": True, "allow": ["dog"]}, "Lists of allowed labels need whole rows"),
        (mask, {"partial": True, "normalize": True}, "Only whole rows can be divided"),
        (mask, {"partial": True, "kind": "logits"}, "Logits of only some labels do not tell"),
        (mask, {"other_labels": "removed"}, r"an option is for JSON lines.*\(other_labels=\)"),
    ):
        with pytest.raises(UnlabelError, match=says):
            apply_table(fitted, tmp_path / "in.csv", tmp_path / "out.csv", **options)
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


@pytest.mark.parametrize("row", [".9,.9,", "-.1,.3,", ",,"])
def test_rows_that_cannot_be_partial_are_not_read(tmp_path, row):
    (tmp_path / "in.csv").write_text(f"cat,dog,fox\n.5,.2,\n{row}\n")
    with pytest.raises(UnlabelError, match=r"in.csv, row 1: it (sums to|gives the label|names no)"):
        read(tmp_path / "in.csv", classes=NAMES, partial=True)


def test_a_top_answer_is_not_a_true_label(tmp_path):
    (tmp_path / "in.jsonl").write_text('{"label": "cat", "score": 0.5}\n')
    rows = read(tmp_path / "in.jsonl", classes=NAMES, partial=True)
    np.testing.assert_array_equal(rows.confidences, [[0.5, np.nan, np.nan]])
    assert rows.labels is None


def test_standard_input_is_not_read_whole():
    with pytest.raises(UnlabelError, match="Only apply reads standard input"):
        read("-", format="csv")


def test_other_labels_need_partial_rows(tmp_path):
    (tmp_path / "in.jsonl").write_text('{"cat": 0.5, "dog": 0.2, "fox": 0.3}\n')
    mask = doors.mask(NAMES, ["cat"])
    with pytest.raises(UnlabelError, match=r"Only partial rows may name other labels"):
        apply_table(mask, tmp_path / "in.jsonl", tmp_path / "out.jsonl", other_labels="removed")


def test_rows_without_an_answer_have_changed(tmp_path):
    lines = [{"fox": 0.6}, {"fox": 0.6, "dog": 0.3}, {"dog": 0.9}, {"The": 0.9}]
    values = [{"scores": line, "was": "dog"} for line in lines]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(value) + "\n" for value in values))
    applied = apply_table(
        doors.mask(NAMES, ["fox"]),
        tmp_path / "in.jsonl",
        tmp_path / "out.jsonl",
        partial=True,
        only_changed=True,
        update_column="was",
        other_labels="removed",
    )
    assert (applied.rows, applied.changed, applied.written) == (4, 3, 3)
    written = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [(line["old_label"], line["top_label"], line["was"]) for line in written] == [
        ("fox", None, "dog"),
        ("fox", "dog", "dog"),
        (None, None, "dog"),  # none of the model's labels was the old answer
    ]


@pytest.mark.parametrize("layout", ["json", "long"])
def test_filters_of_logits_take_log_probabilities_as_they_are(tmp_path, layout):
    row = dict(zip(NAMES, np.log([0.5, 0.2, 0.3]).tolist(), strict=True))
    if layout == "json":
        line = [{"label": label, "logprob": score} for label, score in row.items()]
        source, long = tmp_path / "in.jsonl", None
        source.write_text(json.dumps(line) + "\n")
    else:
        source, long = tmp_path / "in.csv", ("id", "label", "logprob")
        cells = [f"1,{label},{score!r}\n" for label, score in row.items()]
        source.write_text("id,label,logprob\n" + "".join(cells))
    out = tmp_path / f"out{source.suffix}"
    apply_table(doors.mask(NAMES, ["cat"], kind="logits"), source, out, long=long)
    if layout == "json":
        found = [entry["logprob"] for entry in json.loads(out.read_text())]
    else:
        found = [float(line.split(",")[2]) for line in out.read_text().splitlines()[1:]]
    np.testing.assert_allclose(sorted(found), np.log([0.4, 0.6]), rtol=1e-12)


def test_log_probabilities_stay_log_probabilities(tmp_path):
    rows = np.array([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5], [1.0, 0.0, 0.0]])
    with np.errstate(divide="ignore"):
        logs = np.log(rows)
    write_wide(tmp_path / "in.parquet", logs.tolist(), NAMES)
    logs_of = {"kind": "log-probabilities", "force": True}
    source, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    apply_table(doors.mask(NAMES, ["cat"]), source, out, **logs_of)
    found = np.array(pq.read_table(out).columns).T
    np.testing.assert_allclose(found, np.log([[0.5, 0.5]] * 2 + [[0.5, 0.5]]), atol=1e-15)
    again = read(source, classes=NAMES, kind="log-probabilities")
    np.testing.assert_allclose(again.confidences, rows, atol=1e-15)
    # A label that is left with nothing has a number, as JSON has no infinity.
    apply_table(doors.mask(NAMES, {"dog": "cat"}), source, out, **logs_of)
    assert pq.read_table(out).to_pylist()[2] == {"cat": 0.0, "fox": -9999.0}


def test_log_probabilities_in_float32_do_not_underflow(tmp_path):
    # exp(-120) is nothing in float32, and then both others would have the same.
    logs = {name: np.float32([score]) for name, score in zip(NAMES, (0, -130, -120), strict=True)}
    pq.write_table(pa.table(logs), tmp_path / "in.parquet")
    options = {"kind": "log-probabilities", "top_label": True}
    mask = doors.mask(NAMES, ["cat"])
    apply_table(mask, tmp_path / "in.parquet", tmp_path / "out.parquet", **options)
    [row] = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert row["top_label"] == "fox"
    assert row["dog"] == pytest.approx(-10, abs=1e-3)
    assert row["fox"] == pytest.approx(-np.exp(-10), abs=1e-6)


def test_log_probabilities_are_checked_as_probabilities(tmp_path):
    write_wide(tmp_path / "in.parquet", [[-1.0, -2.0, 3.0]], NAMES)
    with pytest.raises(
        UnlabelError, match="row 0: it is not a probability vector: the label 'fox'"
    ):
        read(tmp_path / "in.parquet", classes=NAMES, kind="log-probabilities")


def test_an_unknown_input_is_refused(tmp_path):
    with pytest.raises(UnlabelError, match=r"'odds' is not known.*\(kind=\)"):
        read(tmp_path / "in.csv", kind="odds")


def test_the_rows_written_are_counted(tmp_path):
    (tmp_path / "in.csv").write_text("cat,dog,fox\n.5,.2,.3\n0,.5,.5\n")
    mask = doors.mask(NAMES, ["cat"])
    seen = []
    applied = apply_table(
        mask, tmp_path / "in.csv", tmp_path / "out.csv", only_changed=True, progress=seen.append
    )
    assert (applied.rows, applied.changed, applied.written) == (2, 1, 1)
    assert seen[-1] == 1.0
    assert json.dumps(applied.remarks) == "[]"
