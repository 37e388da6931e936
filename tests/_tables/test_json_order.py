"""The order and the kinds of labels in JSON lines, whatever the other lines are."""

import json

import pytest

import doors
from unlabel._tables.json_lines import lines as json_lines
from unlabel.tables import apply_table


def applied(folder, values, fitted):
    (folder / "in.jsonl").write_text("".join(json.dumps(value) + "\n" for value in values))
    apply_table(fitted, folder / "in.jsonl", folder / "out.jsonl", force=True)
    return [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("block", [1, 1 << 17])
def test_the_order_of_a_line_does_not_depend_on_other_lines(tmp_path, monkeypatch, block):
    monkeypatch.setattr(json_lines, "BLOCK", block)
    sorted_row = {"scores": {"cat": 0.5, "dog": 0.3, "fox": 0.2}}
    other_row = {"scores": {"cat": 0.1, "dog": 0.3, "fox": 0.6}}
    kept = doors.mask(["cat", "dog", "fox"], {})
    for rows in ([sorted_row, other_row], [other_row, sorted_row]):
        found = applied(tmp_path, rows, kept)
        assert [[*line["scores"]] for line in found] == [["cat", "dog", "fox"]] * 2
    merged = doors.mask(["cat", "dog", "fox"], {"fox": "dog"})
    found = applied(tmp_path, [{"scores": {"cat": 0.45, "dog": 0.3, "fox": 0.25}}], merged)
    assert [*found[0]["scores"]] == ["dog", "cat"]


@pytest.mark.parametrize("labels", [[0, 1, 2], [-1, 10**17, 2], ["1", "x", 2]])
def test_labels_keep_their_kinds(tmp_path, labels):
    line = [
        {"label": label, "score": score} for label, score in zip(labels, [0.5, 0.5, 0], strict=True)
    ]
    [found] = applied(tmp_path, [line], doors.mask(labels, [2]))
    assert [(type(entry["label"]), entry["label"]) for entry in found] == [
        (type(label), label) for label in labels[:2]
    ]


def test_new_labels_among_numbers(tmp_path):
    line = [{"label": label, "score": 0.25} for label in range(4)]
    plan = {0: "nan", 1: "4", 2: "1e3"}
    [found] = applied(tmp_path, [line], doors.mask([0, 1, 2, 3], plan))
    assert [entry["label"] for entry in found] == ["nan", 4, "1e3", 3]
