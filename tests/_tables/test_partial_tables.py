"""Tables whose rows name only some labels, against the whole rows."""

import json

import doors
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.special import softmax

from commands import unlabel
from unlabel import AllowLists, UnlabelError
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


def write_wide(path, rows, names, **others):
    columns = {name: pa.array([row[i] for row in rows]) for i, name in enumerate(names)}
    pq.write_table(pa.table({**columns, **others}), path)


@pytest.mark.parametrize("top_k", [False, True])
@pytest.mark.parametrize("name", ["F1", "F2", "F3"])
@pytest.mark.parametrize("k", [1, 3, 5])
def test_top_k_answers_of_a_real_network(tmp_path, k, name, top_k):
    mask = doors.mask(OUTPUTS.classes, OUTPUTS.removals[name].removed)
    whole = mask.apply(ROWS)
    write_wide(tmp_path / "in.parquet", top_of(ROWS, k), OUTPUTS.classes)
    applied = apply_table(
        mask,
        tmp_path / "in.parquet",
        tmp_path / "out.parquet",
        partial=True,
        interval=True,
        top_label=True,
        removed_mass=True,
        top_k=top_k,
    )
    written = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert len(written) == applied.rows == applied.written == len(ROWS)
    unanswered = certain = 0
    masses = mask.removed_mass(ROWS)
    for row, exact, mass in zip(written, whole, masses, strict=True):
        for label, value in zip(mask.classes, exact.tolist(), strict=True):
            low, high = row[label], row[f"{label}_upper"]
            assert (low is None) == (high is None)
            assert low is None or low - 1e-9 <= value <= high + 1e-9
        assert row["removed_mass"] - 1e-9 <= mass <= row["removed_mass_upper"] + 1e-9
        assert row["only_removed"] == (row["top_label"] is None)
        assert row["only_removed"] == all(row[label] is None for label in mask.classes)
        if row["certain"]:
            assert row["top_label"] == mask.classes[int(np.argmax(exact))]
        unanswered += row["only_removed"]
        certain += row["certain"]
    assert certain > len(ROWS) / 4
    said = f"{unanswered:,} row{'s' * (unanswered != 1)} name"
    assert bool(applied.remarks) == (unanswered > 0)
    assert all(remark.startswith(said) for remark in applied.remarks)


def test_whole_rows_are_filtered_as_ever(tmp_path):
    mask = doors.mask(OUTPUTS.classes, ["airplane"])
    write_wide(tmp_path / "in.parquet", ROWS.tolist(), OUTPUTS.classes)
    apply_table(mask, tmp_path / "in.parquet", tmp_path / "out.parquet", partial=True)
    found = np.array(pq.read_table(tmp_path / "out.parquet").columns).T
    np.testing.assert_allclose(found, mask.apply(ROWS), atol=1e-15)


def test_the_score_is_the_lower_end(tmp_path):
    (tmp_path / "in.csv").write_text("id,cat,dog,fox\n7,.2,.6,\n8,.5,,\n9,,.25,.75\n")
    mask = doors.mask(NAMES, ["cat"])
    apply_table(mask, tmp_path / "in.csv", tmp_path / "out.csv", partial=True, top_label=True)
    assert (tmp_path / "out.csv").read_text().splitlines() == [
        "id,dog,fox,top_label,certain,only_removed",
        "7,0.75,,dog,true,false",
        "8,,,,false,true",
        "9,0.25,0.75,fox,true,false",
    ]


def test_unknown_is_certain_if_the_named_mass_suffices(tmp_path):
    lines = ["id,cat,dog,fox", "1,.6,.3,", "2,.4,.5,", "3,,.55,", "4,.1,.5,.4", "5,.9,,"]
    (tmp_path / "in.csv").write_text("\n".join(lines) + "\n")
    applied = apply_table(
        doors.mask(NAMES, ["cat"]),
        tmp_path / "in.csv",
        tmp_path / "out.csv",
        partial=True,
        top_label=True,
        unknown_above=0.44,
        unknown="?",
    )
    # In the third row, the removed label may have .45 or nothing.
    assert [line.split(",")[-3:] for line in (tmp_path / "out.csv").read_text().split()[1:]] == [
        ["?", "true", "false"],
        ["dog", "true", "false"],
        ["dog", "false", "false"],
        ["dog", "true", "false"],
        ["?", "true", "true"],
    ]
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
    with pytest.raises(UnlabelError, match=says.replace("row", "Row")):
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
    lists = AllowLists({"all": ["dog"]})
    for fitted, options, says in (
        (osr, {"partial": True}, "method='osr' needs whole rows"),
        (mask, {"partial": True, "allow": lists}, "Lists of allowed labels need whole rows"),
        (mask, {"partial": True, "normalize": True}, "Only whole rows can be divided"),
        (mask, {"partial": True, "input": "logits"}, "The filter takes logits"),
        (mask, {"interval": True}, r"interval \(--interval\) is for partial rows"),
        (mask, {"top_k": True}, r"top_k \(--top-k\) is for partial rows"),
        (mask, {"other_labels": "removed"}, "other_labels .* is for JSON lines"),
    ):
        with pytest.raises(UnlabelError, match=says):
            apply_table(fitted, tmp_path / "in.csv", tmp_path / "out.csv", **options)
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


@pytest.mark.parametrize("row", [".9,.9,", "-.1,.3,", ",,"])
def test_rows_that_cannot_be_partial_are_not_read(tmp_path, row):
    (tmp_path / "in.csv").write_text(f"cat,dog,fox\n.5,.2,\n{row}\n")
    with pytest.raises(UnlabelError, match=r"in.csv: Row 1 (sums to|gives the label|names no)"):
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
    with pytest.raises(UnlabelError, match=r"other_labels .* is for partial rows"):
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
    doors.mask(NAMES, ["cat"]).save(tmp_path / "f.safetensors")
    options = ("--input", "log-probabilities", "--out", tmp_path / "out.parquet")
    assert unlabel("apply", tmp_path / "f.safetensors", tmp_path / "in.parquet", *options)[0] == 0
    found = np.array(pq.read_table(tmp_path / "out.parquet").columns).T
    np.testing.assert_allclose(found, np.log([[0.5, 0.5]] * 3), atol=1e-15)
    again = read(tmp_path / "in.parquet", classes=NAMES, kind="log-probabilities")
    np.testing.assert_allclose(again.confidences, rows, atol=1e-15)
    # A label that is left with nothing has a number, as JSON has no infinity.
    doors.mask(NAMES, {"dog": "cat"}).save(tmp_path / "g.safetensors")
    options = ("--input", "log-probabilities", "--out", tmp_path / "merged.parquet")
    assert unlabel("apply", tmp_path / "g.safetensors", tmp_path / "in.parquet", *options)[0] == 0
    assert pq.read_table(tmp_path / "merged.parquet").to_pylist()[2] == {"cat": 0.0, "fox": -9999.0}


def test_log_probabilities_are_checked_as_probabilities(tmp_path):
    write_wide(tmp_path / "in.parquet", [[-1.0, -2.0, 3.0]], NAMES)
    with pytest.raises(
        UnlabelError, match="row 0: it is not a probability vector: the label 'fox'"
    ):
        read(tmp_path / "in.parquet", classes=NAMES, kind="log-probabilities")


def test_an_unknown_input_is_refused(tmp_path):
    with pytest.raises(UnlabelError, match="input='odds' is not known"):
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
