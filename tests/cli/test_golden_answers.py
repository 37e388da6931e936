"""The command line gives the answers of the golden file."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from commands import unlabel
from golden_answers import GOLDEN, LABELS, LISTS, UNKNOWN_ABOVE, golden_filter
from unlabel import AnswerRule


def test_allowed_labels_and_unknown_are_those_of_the_golden_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    columns = dict(zip(LABELS, GOLDEN["rows"].T, strict=True)) | {"place": GOLDEN["lists"]}
    pa.parquet.write_table(pa.table(columns), "rows.parquet")
    golden_filter().save("f.safetensors")
    AnswerRule(max_removed_mass=UNKNOWN_ABOVE, unknown="unknown").save("rule.toml")
    pairs = [f"{name},{label}" for name, labels in LISTS.items() for label in labels]
    (tmp_path / "lists.csv").write_text("\n".join(["list,label", *pairs]), encoding="utf-8")
    code, out, _ = unlabel(
        *("apply", "rows.parquet", "f.safetensors", "--out", "out.parquet", "--top-label"),
        *("--allow", "lists.csv", "--allow-by", "place", "--rule", "rule.toml", "--removed-mass"),
    )
    assert (code, out) == (0, "")
    table = pa.parquet.read_table("out.parquet")
    result = np.column_stack([table[label] for label in GOLDEN["results"]])
    np.testing.assert_allclose(result, GOLDEN["renormalised"], rtol=0, atol=1e-12)
    for name in ("not_allowed", "removed_mass"):
        np.testing.assert_allclose(table[name], GOLDEN[name], rtol=0, atol=1e-12)
    assert table["top_label"].to_pylist() == GOLDEN["answers"].tolist()
