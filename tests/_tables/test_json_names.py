"""Names that a JSON line has already: nothing is written over them."""

import json

import pytest

import doors
from unlabel import UnlabelError
from unlabel.tables import apply_table

MASK = doors.mask(["cat", "dog", "fox"], ["fox"])


def applied(folder, line, fitted=MASK, **options):
    (folder / "in.jsonl").write_text(json.dumps(line) + "\n")
    apply_table(fitted, folder / "in.jsonl", folder / "out.jsonl", **options)
    return json.loads((folder / "out.jsonl").read_text())


@pytest.mark.parametrize(
    ("line", "name", "options"),
    [
        ({"top_label": {"cat": 0.5, "dog": 0.5, "fox": 0}}, "top_label", {"top_label": True}),
        ({"certain": {"cat": 0.5}}, "certain", {"partial": True, "top_label": True}),
    ],
)
def test_fields_are_not_written_over(tmp_path, line, name, options):
    with pytest.raises(UnlabelError, match=f"line 1: it has a field '{name}' already: rename it"):
        applied(tmp_path, line, **options)
    assert not (tmp_path / "out.jsonl").exists()


def test_a_removed_label_leaves_its_name_free(tmp_path):
    fitted = doors.mask(["top_label", "cat"], ["top_label"])
    line = applied(tmp_path, {"top_label": 0.5, "cat": 0.5}, fitted, top_label=True)
    assert line == {"cat": 1.0, "top_label": "cat"}
