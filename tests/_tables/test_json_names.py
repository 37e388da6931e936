"""Names that a JSON line has already: nothing is written over them."""

import json

import doors
import pytest

from unlabel import UnlabelError
from unlabel.tables import apply_table

MASK = doors.mask(["cat", "dog", "fox"], ["fox"])
INTERVAL = {"partial": True, "interval": True}


def applied(folder, line, fitted=MASK, **options):
    (folder / "in.jsonl").write_text(json.dumps(line) + "\n")
    apply_table(fitted, folder / "in.jsonl", folder / "out.jsonl", **options)
    return json.loads((folder / "out.jsonl").read_text())


@pytest.mark.parametrize(
    ("line", "name", "options"),
    [
        ({"scores": {"cat": 0.5}, "scores_upper": 1}, "scores_upper", INTERVAL),
        ({"a": {"s": {"cat": 0.5}, "s_upper": 1}}, "a.s_upper", {**INTERVAL, "key": "a.s"}),
        ({"label": "cat", "score": 0.5, "score_upper": 1}, "score_upper", INTERVAL),
        ({"labels": ["cat"], "scores": [0.5], "scores_upper": 1}, "scores_upper", INTERVAL),
        ({"top_label": {"cat": 0.5, "dog": 0.5, "fox": 0}}, "top_label", {"top_label": True}),
        ({"certain": {"cat": 0.5}}, "certain", {"partial": True, "top_label": True}),
    ],
)
def test_fields_are_not_written_over(tmp_path, line, name, options):
    with pytest.raises(UnlabelError, match=f"Line 1: it has a field '{name}' already: rename it"):
        applied(tmp_path, line, **options)
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize(
    ("line", "key"),
    [({"cat": 0.2, "cat_upper": 0.3}, None), ({"x": [{"cat": 0.2, "cat_upper": 0.3}]}, "x.0")],
)
def test_a_label_named_like_an_upper_end_is_refused_beside_it(tmp_path, line, key):
    fitted = doors.mask(["cat", "cat_upper", "dog"], ["dog"])
    with pytest.raises(UnlabelError, match="'cat_upper' is a label"):
        applied(tmp_path, line, fitted, key=key, **INTERVAL)
    assert not (tmp_path / "out.jsonl").exists()


def test_upper_ends_in_a_field_of_their_own_may_be_of_any_label(tmp_path):
    fitted = doors.mask(["cat", "cat_upper", "dog"], ["dog"])
    line = applied(tmp_path, {"scores": {"cat": 0.25, "cat_upper": 0.25}}, fitted, **INTERVAL)
    assert line["scores_upper"] == {"cat": 0.5, "cat_upper": 0.5}


def test_a_removed_label_leaves_its_name_free(tmp_path):
    fitted = doors.mask(["top_label", "cat"], ["top_label"])
    line = applied(tmp_path, {"top_label": 0.5, "cat": 0.5}, fitted, top_label=True)
    assert line == {"cat": 1.0, "top_label": "cat"}
